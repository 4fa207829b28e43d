"""Pairs of identical schedulers with the same jobs and dice of their own, simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import NodeId
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape, Storage
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage
from railyard.runs.figures import Metric, Summary
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.simulator.behaviour import Behaviour

#: Of each pair; of fewer seeds, the first so many.
SEEDS_MAX = 10
PLANTED = 1.1
_MB = 10**6
_RACKS = RackShape(count=3, nodes=2, slots=2)
_NODES = [NodeId(f"r{rack}n{node}") for rack in range(3) for node in range(2)]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How much chance varies the runs of a pair."""

    name: str
    jobs: int
    link_bytes_per_s: float
    behaviour: Behaviour


QUIET = Noise(
    name="quiet",
    jobs=3,
    link_bytes_per_s=400e6,
    behaviour=Behaviour(variance=0.05, progress_s=0),
)
NOISY = Noise(
    name="noisy",
    jobs=1,
    link_bytes_per_s=100e6,
    behaviour=Behaviour(variance=0.1, stragglers=0.02, straggler_factor=3, progress_s=0),
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Runs with the same jobs, seed by seed."""

    noise: Noise
    first: list[Summary]
    same: list[Summary]  #: with other dice


Other = Callable[[Pair], list[Summary]]


def same(pair: Pair) -> list[Summary]:
    """The runs of the identical scheduler."""
    return pair.same


def slower(pair: Pair) -> list[Summary]:
    """The same with the planted difference."""
    return [_longer(run) for run in pair.same]


def simulated_pair(number: int) -> Pair:
    """Simulate a pair with ``SEEDS_MAX`` seeds; quiet and noisy ones take turns."""
    noise = (QUIET, NOISY)[number % 2]
    pair = Pair(noise=noise, first=[], same=[])
    for seed in range(SEEDS_MAX):
        workload = _workload(random.Random(f"{number} {seed}"), noise.jobs)
        dice = 1 + 2 * (number * SEEDS_MAX + seed)
        for offset, runs in enumerate((pair.first, pair.same)):
            config = ClusterConfig(topology=_topology(noise), scheduler="fair", seed=dice + offset)
            one = VirtualRun(config=config, workload=workload, behaviour=noise.behaviour)
            runs.append(run_virtually(one) | {"seed": seed, "jobs": []})
    return pair


def _longer(run: Summary) -> Summary:
    times = {
        name: {part: value and value * PLANTED for part, value in run[name].items()}
        for name in ("jct_s", "cct_s")
    }
    return run | times | {"makespan_s": run["makespan_s"] * PLANTED}


def logs(pair: Pair, metric: Metric, other: Other, seeds: int) -> list[float]:
    """Logarithms of the ratios, by seed; those of zeros are left out."""
    values = [
        (metric.of(mine), metric.of(its))
        for mine, its in zip(other(pair)[:seeds], pair.first[:seeds], strict=True)
    ]
    return [math.log(mine / its) for mine, its in values if mine and its]


def _topology(noise: Noise) -> Topology:
    return Topology(
        name="pairs",
        racks=_RACKS,
        links=Links(nic=noise.link_bytes_per_s, uplink=noise.link_bytes_per_s),
        storage=Storage(block=100 * _MB, replication=2),
        compute=Compute(map_rate=50e6, reduce_rate=50e6),
    )


def _workload(dice: random.Random, jobs: int) -> Workload:
    """Jobs of 6 to 12 maps that shuffle as much as they read, or less, submitted over 10 s."""
    submitted = sorted(dice.uniform(0, 10) for _ in range(jobs))
    made = (_job(f"j{number}", at_s, dice) for number, at_s in enumerate(submitted))
    return Workload(name="pairs", jobs=tuple(made))


def _job(name: str, submit_s: float, dice: random.Random) -> WorkloadJob:
    maps = dice.randint(6, 12)
    file = InputFile(
        path=f"/{name}",
        size_bytes=maps * 100 * _MB,
        block_bytes=100 * _MB,
        nodes=tuple(tuple(dice.sample(_NODES, 2)) for _ in range(maps)),
    )
    shuffled = round(file.size_bytes * dice.uniform(0.3, 1.0))
    stages = (
        WorkStage(name="m", files=(file.path,), tasks=maps, output_bytes=shuffled),
        WorkStage(name="r", reads=("m",), tasks=maps // 3, output_bytes=shuffled // 2),
    )
    return WorkloadJob(
        name=name, user="user", queue="default", submit_s=submit_s, stages=stages, files=(file,)
    )
