"""Draws random small clusters, jobs and behaviours of nodes from dice.

Not here: faults, and which of these a schedule has.
"""

from __future__ import annotations

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


def topology(dice: random.Random) -> Topology:
    """A cluster of up to nine nodes, slow enough that jobs run while there are faults."""
    return _topology(dice, racks=dice.randint(1, 3), nodes_max=3)


def small_topology(dice: random.Random) -> Topology:
    """The same of two to four nodes."""
    racks = dice.randint(1, 2)
    return _topology(dice, racks=racks, nodes_max=2, nodes_min=3 - racks)


def _topology(dice: random.Random, *, racks: int, nodes_max: int, nodes_min: int = 1) -> Topology:
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
        storage=Storage(block=100_000_000, replication=dice.randint(1, 3)),
        compute=Compute(map_rate=5e7, reduce_rate=5e7),
        liveness=Liveness(heartbeat=0.5, expiry_s=2.0),
    )


def flow_schedulers(topology: Topology) -> list[str]:
    """The flow schedulers that fit the topology: circuits need an optical switch."""
    return sorted(name for name in FLOW_SCHEDULERS if name not in CIRCUITS or topology.ocs)


def behaviour(dice: random.Random) -> Behaviour:
    """How nodes differ from ideal ones."""
    return Behaviour(
        variance=dice.choice((0.0, 0.3)),
        stragglers=dice.choice((0.0, 0.1)),
        failures=dice.choice((0.0, 0.05)),
        launch_s=dice.choice((0.0, 0.2)),
        fetch_s=dice.choice((0.0, 0.01)),
        end_s=dice.choice((0.0, 0.05)),
        progress_s=dice.choice((0.0, 1.0)),
    )


def jobs(dice: random.Random, *, many: int = 4, maps: int = 6) -> list[WorkloadJob]:
    """At most so ``many`` jobs, with at most so many ``maps`` each, within ten seconds."""
    drawn = [_job(dice, number, maps) for number in range(dice.randint(1, many))]
    return sorted(drawn, key=lambda job: job.submit_s)


def _job(dice: random.Random, number: int, maps_max: int) -> WorkloadJob:
    """Maps with or without an input file, then none, one or two stages of reduces."""
    files: tuple[InputFile, ...] = ()
    maps = dice.randint(1, maps_max)
    if dice.random() < 0.8:
        size_bytes = dice.randint(1, maps * 100_000_000)
        path = f"/in/{number}"
        files = (InputFile(path=path, size_bytes=size_bytes, block_bytes=100_000_000),)
        maps = files[0].blocks
    paths = tuple(file.path for file in files)
    stages = [
        WorkStage(name="m", files=paths, tasks=maps, output_bytes=_size(dice), task_s=dice.random())
    ]
    reads = "m"
    for name in ("r", "s")[: dice.choice((0, 1, 1, 1, 2))]:
        tasks = dice.randint(1, 3)
        weights = tuple(dice.random() + 0.01 for _ in range(tasks)) if dice.random() < 0.3 else ()
        stages.append(
            WorkStage(
                name=name, reads=(reads,), tasks=tasks, output_bytes=_size(dice), weights=weights
            )
        )
        reads = name
    return WorkloadJob(
        name=f"job-{number}",
        user=dice.choice("ab"),
        queue="default",
        submit_s=dice.uniform(0, 10),
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


def _size(dice: random.Random) -> int:
    return dice.choice((0, dice.randint(1, 1000), dice.randint(1, 300_000_000)))
