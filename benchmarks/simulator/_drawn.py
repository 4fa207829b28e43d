"""Workloads drawn by seed, of which nobody knows beforehand how far off coarse runs of them are.

Each is small enough to be simulated exactly in about half a minute, and has far more waves of maps
than a coarse run.  Pure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import sample_workload
from railyard.jobs.workloads.model import Workload
from railyard.simulator.behaviour import WAVES

#: Least and most maps for each slot, in units of the waves that are left.
_WAVES = (2, 4)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A run."""

    jobs: str  #: a sample with its GB and reduces: "terasort,900,400"
    topology: str
    scheduler: str
    flows: str
    seed: int

    def __str__(self) -> str:
        """Its name in a table."""
        return f"{self.jobs}, {self.topology}, {self.scheduler}, {self.flows}, seed {self.seed}"

    @property
    def config(self) -> ClusterConfig:
        """Its cluster."""
        return ClusterConfig(
            topology=load_topology(self.topology),
            scheduler=self.scheduler,
            flow_scheduler=self.flows,
            seed=self.seed,
        )

    def workload(self) -> Workload:
        """Its jobs."""
        name, size_gb, reduces = self.jobs.split(",")
        block_bytes = self.config.topology.storage.block
        return sample_workload(name, int(size_gb) * 10**9, block_bytes, int(reduces))


def drawn(seed: int) -> Drawn:
    """The run of that seed."""
    dice = random.Random(f"waves {seed}")
    racks, slots = dice.randint(2, 4), dice.randint(1, 2)
    size = f"racks.count={racks},racks.nodes=1,racks.slots={slots}"
    place = f"{dice.choice(('flat-4x4', 'hybrid-8x4'))},{size}"
    block = load_topology(place).storage.block
    waves = WAVES * dice.uniform(*_WAVES)
    size_gb = round(waves * racks * slots * block / 1e9)
    reduces = dice.randint(1, 2) * racks * slots
    jobs = f"{dice.choice(('terasort', 'wordcount'))},{size_gb},{reduces}"
    scheduler, flows = (
        dice.choice(("capacity", "delay", "fair")),
        dice.choice(("maxmin", "aalo", "aalo+weighted", "varys")),
    )
    seed = dice.randrange(10**6)
    return Drawn(jobs=jobs, topology=place, scheduler=scheduler, flows=flows, seed=seed)
