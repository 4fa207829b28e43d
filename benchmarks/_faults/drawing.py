"""Draws random small clusters, jobs and behaviours of nodes from dice.

Not here: faults, and which of these a schedule has.
"""

from __future__ import annotations

import functools
import random

import msgspec

from railyard.cluster.topologies.tables import (
    Compute,
    Links,
    Liveness,
    Ocs,
    RackShape,
    Storage,
    SwitchTree,
)
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.simulator.nodes.behaviour import Behaviour

#: Flow schedulers that use circuits.
CIRCUITS = ("sunflow",)
#: A block of large clusters, and of small ones: there all is over in a quarter of the time, so that
#: few heartbeats go by in which nothing else happens.
_BLOCK_BYTES, SMALL_BLOCK_BYTES = 100_000_000, 25_000_000
#: How nodes may differ from ideal ones; each as often as not.
_DEVIATES = {
    "variance": 0.3,
    "stragglers": 0.1,
    "failures": 0.05,
    "launch_s": 0.2,
    "fetch_s": 0.01,
    "end_s": 0.05,
    "progress_s": 1.0,
}
_LIVENESS, _SMALL_LIVENESS = (
    Liveness(heartbeat=0.5, expiry_s=2.0),
    Liveness(heartbeat=0.2, expiry_s=0.6),
)


def topology(dice: random.Random) -> Topology:
    """A cluster of up to nine nodes, slow enough that jobs run while there are faults."""
    return _topology(dice, racks=dice.randint(1, 3), nodes_max=3)


def small_topology(dice: random.Random) -> Topology:
    """The same of two to four nodes."""
    racks = dice.randint(1, 2)
    return _topology(
        dice,
        racks=racks,
        nodes_max=2,
        nodes_min=3 - racks,
        block_bytes=SMALL_BLOCK_BYTES,
        liveness=_SMALL_LIVENESS,
    )


def _topology(
    dice: random.Random,
    *,
    racks: int,
    nodes_max: int,
    nodes_min: int = 1,
    block_bytes: int = _BLOCK_BYTES,
    liveness: Liveness = _LIVENESS,
) -> Topology:
    kind = dice.choice(("core", "core", "core", "tree", "ocs"))
    tree = SwitchTree(tor=2e8, aggregation=1.5e8, root=1e8, racks_per_aggregation=1)
    delta_s, elephant_bytes = dice.choice((0.0, 0.05)), dice.choice((1, 20_000_000))
    ocs = Ocs(port_bytes_per_s=5e8, delta_s=delta_s, elephant_bytes=elephant_bytes)
    return Topology(
        name="random",
        racks=RackShape(
            count=racks, nodes=dice.randint(nodes_min, nodes_max), slots=dice.randint(1, 2)
        ),
        links=Links(
            nic=dice.choice((5e7, 1e8)), uplink=None if kind == "tree" else dice.choice((5e7, 2e8))
        ),
        tree=tree if kind == "tree" else None,
        ocs=ocs if kind == "ocs" else None,
        storage=Storage(block=block_bytes, replication=dice.randint(1, 3)),
        compute=Compute(map_rate=5e7, reduce_rate=5e7),
        liveness=liveness,
    )


def flow_schedulers(topology: Topology) -> list[str]:
    """The flow schedulers that fit the topology: circuits need an optical switch."""
    return sorted(name for name in FLOW_SCHEDULERS if name not in CIRCUITS or topology.ocs)


def behaviour(dice: random.Random) -> Behaviour:
    """How nodes differ from ideal ones."""
    return _behaving(tuple([value if dice.choice((0, 1)) else 0.0 for value in _DEVIATES.values()]))


@functools.cache
def _behaving(values: tuple[float, ...]) -> Behaviour:
    return msgspec.convert(dict(zip(_DEVIATES, values, strict=True)), Behaviour)


def jobs(
    dice: random.Random,
    *,
    many: int = 4,
    maps: int = 6,
    reduces: int = 3,
    within_s: float = 10.0,
    block_bytes: int = _BLOCK_BYTES,
) -> list[WorkloadJob]:
    """At most so ``many`` jobs within a time, with at most so many ``maps`` each.

    They have up to two stages of at most so many ``reduces``.
    """
    numbers = range(dice.randint(1, many))
    drawn = [_job(dice, number, maps, reduces, within_s, block_bytes) for number in numbers]
    return sorted(drawn, key=lambda job: job.submit_s)


def _job(
    dice: random.Random,
    number: int,
    maps_max: int,
    reduces_max: int,
    within_s: float,
    block_bytes: int,
) -> WorkloadJob:
    """Maps with or without an input file, then none, one or two stages of reduces."""
    files: tuple[InputFile, ...] = ()
    maps = dice.randint(1, maps_max)
    if dice.random() < 0.8:
        size_bytes = dice.randint(1, maps * block_bytes)
        path = f"/in/{number}"
        files = (InputFile(path=path, size_bytes=size_bytes, block_bytes=block_bytes),)
        maps = files[0].blocks
    paths = tuple(file.path for file in files)
    output_bytes = _size(dice, block_bytes)
    stages = [
        WorkStage(
            name="m", files=paths, tasks=maps, output_bytes=output_bytes, task_s=dice.random()
        )
    ]
    reads = "m"
    for name in ("r", "s")[: dice.choice((0, 1, 1, 1, 2))]:
        tasks = dice.randint(1, reduces_max)
        weights = tuple(dice.random() + 0.01 for _ in range(tasks)) if dice.random() < 0.3 else ()
        output_bytes = _size(dice, block_bytes)
        stages.append(
            WorkStage(
                name=name, reads=(reads,), tasks=tasks, output_bytes=output_bytes, weights=weights
            )
        )
        reads = name
    return WorkloadJob(
        name=f"job-{number}",
        user=dice.choice("ab"),
        queue="default",
        submit_s=dice.uniform(0, within_s),
        stages=tuple(stages),
        files=files,
    )


def needing_less(job: WorkloadJob, dice: random.Random) -> WorkloadJob:
    """The same job, with some stages of which a few tasks are enough for those that read them."""
    read = {name for stage in job.stages for name in stage.reads}
    stages = [
        msgspec.structs.replace(stage, needed=dice.randint(1, stage.tasks))
        if dice.random() < 0.3 and stage.name in read
        else stage
        for stage in job.stages
    ]
    return msgspec.structs.replace(job, stages=tuple(stages))


def in_few_racks(job: WorkloadJob, racks: int, dice: random.Random) -> WorkloadJob:
    """The same job, more often than not with most of its input in one rack."""
    if dice.random() < 0.3:
        return job
    most = dice.randrange(racks)
    shares = tuple((0.1 + 0.9 * racks * (rack == most)) / racks for rack in range(racks))
    shares = tuple(share / sum(shares) for share in shares)
    files = tuple(msgspec.structs.replace(file, shares=shares) for file in job.files)
    return msgspec.structs.replace(job, files=files)


def predicted(job: WorkloadJob, dice: random.Random) -> WorkloadJob:
    """The same job, predicted to come when it does or later."""
    submit_s = max(0.0, job.submit_s + dice.uniform(-2, 20))
    return msgspec.structs.replace(job, recurrence=Recurrence(name=job.name, submit_s=submit_s))


def _size(dice: random.Random, block_bytes: int) -> int:
    return dice.choice((0, dice.randint(1, 1000), dice.randint(1, 3 * block_bytes)))
