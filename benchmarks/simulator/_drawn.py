"""Workloads drawn by seed, of which nobody knows beforehand how far off coarse runs of them are.

Each is small enough to be simulated exactly in about half a minute, and large enough for a coarse
run to merge most of it: draws that are not are drawn again.  Pure but for reading traces.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from railyard.benchmarks._common.traces import trace_file
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.topology import Topology, load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.jobs.workloads.samples import is_sample, sample_workload
from railyard.resourcemanager.core.shuffling.merging import LOOK_AFTER_S, flows_of_each
from railyard.simulator.coarsening import WAVES
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.nodes.jobwork import rate_of

#: What a coarse run of it merges.
Merges = Literal["flows", "waves"]

_FB_2009 = "swim/FB-2009_samples_24_times_1hr_0.tsv"
_FB_2010 = "swim/FB-2010_samples_24_times_1hr_0.tsv"
_COFLOWS = "coflow-benchmark/FB2010-1Hr-150-0.txt"
#: How shuffles are merged.
MERGED = Behaviour(shuffle_flows=2000, progress_s=5.0)
_FLOW_SCHEDULERS = ("aalo", "aalo+weighted", "varys")
#: Least and most flows of an exact run.
_FLOWS = 30_000, 150_000
#: A coarse run has at most this share of them.
_SHARE_MAX = 0.6
#: Least and most maps for each slot, in units of the waves that are left.
_WAVES = (2, 4)
_TRIES = 1000
_FOLDER = re.compile(r":\S*/")
_USUAL = ("capacity", "delay", "fair")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A run."""

    jobs: str  #: a workload of the simulator, or a sample with its GB: "terasort,900,400"
    topology: str
    scheduler: str
    flows: str
    seed: int

    def __str__(self) -> str:
        """Its name in a table: without the folder of a trace."""
        jobs = _FOLDER.sub(":", self.jobs)
        return f"{jobs}, {self.topology}, {self.scheduler}, {self.flows}, seed {self.seed}"

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
        topology = self.config.topology
        name, _, rest = self.jobs.partition(",")
        if is_sample(name):
            size_gb, reduces = map(int, rest.split(","))
            return sample_workload(name, size_gb * 10**9, topology.storage.block, reduces)
        return workload(self.jobs, self.seed, topology.racks.count)


def drawn(seed: int, merges: Merges = "flows") -> Drawn:
    """The run of that seed."""
    dice = random.Random(f"{merges} {seed}")
    if merges == "waves":
        return _many_waves(dice)
    family = _FAMILIES[seed % len(_FAMILIES)]
    for _ in range(_TRIES):
        if _has_the_flows(run := _many_flows(family, dice)):
            return run
    raise InvariantError(f"{family.__name__} makes no workload of that size")


def _has_the_flows(run: Drawn) -> bool:
    topology = run.config.topology
    try:
        made = run.workload()
    except UsageError:  # a trace has fewer such jobs
        return False
    exact = expected_flows(made, topology, Behaviour())
    coarse = expected_flows(made, topology, MERGED)
    least, most = _FLOWS
    return least <= exact <= most and coarse <= _SHARE_MAX * exact


def _many_flows(family: _MakeFamily, dice: random.Random) -> Drawn:
    jobs, topologies, own = family(dice)
    topology = dice.choice(topologies)
    scheduler = dice.choice([*_USUAL, *own, *own])
    flows, seed = dice.choice(_FLOW_SCHEDULERS), dice.randrange(10**6)
    return Drawn(jobs=jobs, topology=topology, scheduler=scheduler, flows=flows, seed=seed)


def _many_waves(dice: random.Random) -> Drawn:
    racks, slots = dice.randint(2, 4), dice.randint(1, 2)
    size = f"racks.count={racks},racks.nodes=1,racks.slots={slots}"
    place = f"{dice.choice(('flat-4x4', 'hybrid-8x4'))},{size}"
    block = load_topology(place).storage.block
    waves = WAVES * dice.uniform(*_WAVES)
    size_gb = round(waves * racks * slots * block / 1e9)
    reduces = dice.randint(1, 2) * racks * slots
    jobs = f"{dice.choice(('terasort', 'wordcount'))},{size_gb},{reduces}"
    scheduler, flows = dice.choice(_USUAL), dice.choice(("maxmin", *_FLOW_SCHEDULERS))
    seed = dice.randrange(10**6)
    return Drawn(jobs=jobs, topology=place, scheduler=scheduler, flows=flows, seed=seed)


# Families ----------------------------------------------------------------------------------------
#: A workload, topologies that it fits on, and schedulers that were made for it.
_Family = tuple[str, Sequence[str], Sequence[str]]
_MakeFamily = Callable[[random.Random], _Family]
_CORRAL = ("corral-7x30", "corral-50x40")


def _w1(dice: random.Random) -> _Family:
    return _corral(f"corral-w1,jobs={dice.randint(2, 10)}", dice)


def _w3(dice: random.Random) -> _Family:
    return _corral(f"corral-w3,jobs={dice.randint(2, 20)}", dice)


def _corral(jobs: str, dice: random.Random) -> _Family:
    when = dice.choice(("arrivals=batch", f"window={dice.randint(30, 600)}"))
    own = ("corral", "shufflewatcher", "local-shuffle", "tetris")
    return f"{jobs},{when}", _CORRAL, own


def _swim(dice: random.Random) -> _Family:
    trace = trace_file(dice.choice((_FB_2009, _FB_2010)))
    jobs = f"swim:{trace},jobs={dice.randint(20, 400)},window={dice.randint(60, 1200)}"
    return (
        f"{jobs},size_max=10TB",
        ("co-scheduler-60x10", *_CORRAL),
        ("co-scheduler", "corral-fair"),
    )


def _co_scheduler(dice: random.Random) -> _Family:
    trace = trace_file(dice.choice((_FB_2009, _FB_2010)))
    jobs = f"co-scheduler:{trace},jobs={dice.randint(10, 200)}"
    return jobs, ("co-scheduler-60x10",), ("co-scheduler", "corral-fair")


def _shadow(dice: random.Random) -> _Family:
    app = f"shadow,app=all,input={dice.randint(120, 600)}GB"
    facebook = f"shadow-facebook:{trace_file(_FB_2009)},jobs={dice.randint(20, 80)}"
    return dice.choice((app, facebook)), ("shadow-4x13",), ("shadow", "kmn")


def _coflows(dice: random.Random) -> _Family:
    jobs = f"coflow-benchmark:{trace_file(_COFLOWS)},jobs={dice.randint(20, 300)}"
    return jobs, ("ports-150x1",), ()


def _sample(dice: random.Random) -> _Family:
    size_gb, reduces = dice.randint(50, 500), dice.randint(100, 1500)
    jobs = f"{dice.choice(('terasort', 'wordcount'))},{size_gb},{reduces}"
    return jobs, ("co-scheduler-60x10", *_CORRAL), ("co-scheduler", "shufflewatcher")


_FAMILIES = (_w1, _w3, _swim, _co_scheduler, _shadow, _coflows, _sample)


# Flows -------------------------------------------------------------------------------------------
def expected_flows(workload: Workload, topology: Topology, behaviour: Behaviour) -> int:
    """About how many flows a run has: reads of blocks, fetches, and writes.

    An upper bound but for what fails: nothing is beside those who read it, each output is fetched
    by itself, and a reader of a merged shuffle looks once a second while the outputs are made.
    """
    return sum(
        _reads(job)
        + sum(_fetches(job, stage, topology, behaviour) for stage in job.stages if stage.reads)
        + _writes(job, topology, behaviour)
        for job in workload.jobs
    )


def _sources(job: WorkloadJob, reader: WorkStage) -> list[WorkStage]:
    return [stage for stage in job.stages if stage.name in reader.reads]


def _reads(job: WorkloadJob) -> int:
    blocks = {file.path: file.blocks for file in job.files}
    return sum(blocks[path] for stage in job.stages for path in stage.files)


def _fetches(job: WorkloadJob, reader: WorkStage, topology: Topology, behaviour: Behaviour) -> int:
    sources = _sources(job, reader)
    outputs = sum(source.needed or source.tasks for source in sources)
    merged = flows_of_each(reader.tasks, outputs, behaviour.shuffle_flows)
    if merged is None:
        return reader.tasks * outputs
    looks = 1 + sum(_seconds(job, source, topology) for source in sources) / LOOK_AFTER_S
    return round(reader.tasks * min(outputs, merged * looks))


def _seconds(job: WorkloadJob, stage: WorkStage, topology: Topology) -> float:
    """For how long a stage makes output, with all slots and all its input in place."""
    rate = rate_of(stage, topology.compute)
    task_s = stage.task_s + job.stage_input_bytes()[stage.name] / stage.tasks / rate
    return task_s * -(-stage.tasks // topology.slots)


def _writes(job: WorkloadJob, topology: Topology, behaviour: Behaviour) -> int:
    block_bytes = max(topology.storage.block, behaviour.output_block)
    replicas = job.output_replication or topology.storage.replication
    read = {name for stage in job.stages for name in stage.reads}
    return sum(
        stage.tasks * -(-stage.output_bytes // (stage.tasks * block_bytes)) * (replicas - 1)
        for stage in job.stages
        if stage.name not in read
    )
