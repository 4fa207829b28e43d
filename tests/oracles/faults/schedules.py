"""Schedules of faults as data: a cluster, its jobs and what goes wrong, drawn from a seed.

A large one has up to nine nodes, four jobs and faults of nodes, disks, links and slots.  A small
one has few nodes and one or two jobs, and daemons die, too: thousands of them run in the time of
a few hundred large ones.

Not here: running them, and making a failing one smaller (``scenarios``).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.faults import Fault
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import (
    Compute,
    Links,
    Liveness,
    Ocs,
    RackShape,
    Storage,
    SwitchTree,
)
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.oracles.faults import toys
from railyard.oracles.faults.daemons import (
    DATA_NODE,
    NODE_MANAGER,
    DaemonDown,
    DaemonStopped,
)
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Option, Recipe, option_names
from railyard.resourcemanager.interface.speculation import Speculation
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.faults import random_fault, random_faults

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


def drawn_topology(dice: random.Random) -> Topology:
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


def drawn_behaviour(dice: random.Random) -> Behaviour:
    """How nodes differ from ideal ones."""
    return _behaving(tuple([value if dice.choice((0, 1)) else 0.0 for value in _DEVIATES.values()]))


@functools.cache
def _behaving(values: tuple[float, ...]) -> Behaviour:
    return msgspec.convert(dict(zip(_DEVIATES, values, strict=True)), Behaviour)


def drawn_jobs(
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


# Schedules ----------------------------------------------------------------------------------------
#: All faults have ended by this time, in seconds.
LARGE_END_S, SMALL_END_S = 30.0, 4.0
#: How many clusters small schedules have; they are made once.
_SMALL_CLUSTERS = 64
_FAULTS_MAX, _MAPS_MAX, _REDUCES_MAX = 3, 2, 2
#: The share of small schedules that have two jobs, more or less.
_TWO_JOBS = 0.3
#: The share of small schedules in which a NodeManager is stopped, too; the network; a DataNode.
_STOPPED_MANAGER, _STOPPED_NETWORK, _STOPPED_DATA_NODE = 0.15, 0.1, 0.1
#: Settings of schedulers that are tried because of what is off, or hardly ever done, by default.
_TRIED: dict[str, Option] = {
    "iridium.move_data": True,
    "shadow.duplicates_max": 1.0,
    "kmn.extra": 1.0,
}


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, and what goes wrong."""

    name: str  #: as ``shrinking`` finds it again
    config: ClusterConfig
    jobs: tuple[WorkloadJob, ...]
    faults: tuple[Fault, ...]
    behaviour: Behaviour
    ends_s: float  #: all faults have ended by then

    def only(self, jobs: Sequence[int], faults: Sequence[int]) -> Schedule:
        """The same with some of the jobs and faults, by their places."""
        return msgspec.structs.replace(
            self,
            jobs=tuple([self.jobs[place] for place in jobs]),
            faults=tuple([self.faults[place] for place in faults]),
        )


@functools.cache  # the search for other packages' schedulers takes longer than a schedule
def recipe_of(scheduler: str) -> Recipe:
    """The recipe of that name; the toys' is found here alone."""
    return toys.RECIPE if scheduler == toys.RECIPE.name else recipe_named(scheduler)


def large_schedule(scheduler: str, seed: int) -> Schedule:
    """A large one."""
    dice = random.Random(seed)
    topology = drawn_topology(dice)
    flow_scheduler = dice.choice(flow_schedulers(topology))
    jobs = _suited(drawn_jobs(dice), recipe_of(scheduler), seed, topology.racks.count)
    faults = random_faults(dice, topology, LARGE_END_S)
    behaviour = drawn_behaviour(dice)
    return Schedule(
        name=f"large {scheduler} {seed}",
        config=_config(scheduler, seed, topology, flow_scheduler),
        jobs=tuple(jobs),
        faults=tuple(faults),
        behaviour=behaviour,
        ends_s=LARGE_END_S,
    )


def small_schedule(scheduler: str, seed: int) -> Schedule:
    """A small one."""
    dice = random.Random(f"{scheduler} {seed}")  # other ones for each scheduler
    topology, flow_schedulers = _small_cluster(dice.randrange(_SMALL_CLUSTERS))
    flow_scheduler = dice.choice(flow_schedulers)
    many = 2 if dice.random() < _TWO_JOBS else 1
    jobs = drawn_jobs(
        dice,
        many=many,
        maps=_MAPS_MAX,
        reduces=_REDUCES_MAX,
        within_s=1.0,
        block_bytes=SMALL_BLOCK_BYTES,
    )
    jobs = _suited(jobs, recipe_of(scheduler), seed, topology.racks.count)
    faults = [_fault(dice, topology) for _ in range(dice.randint(1, _FAULTS_MAX))]
    toss = random.Random(f"{scheduler} {seed} flows")
    faults = [
        _among_flows(toss, fault)
        if isinstance(fault, DaemonDown) and fault.target == "network"
        else fault
        for fault in faults
    ]
    faults = [_half_delivered(toss, fault) for fault in faults]
    faults += _stopped_manager(random.Random(f"{scheduler} {seed} pause"), topology)
    faults += _other_stops(random.Random(f"{scheduler} {seed} stops"), topology)
    return Schedule(
        name=f"small {scheduler} {seed}",
        config=_config(scheduler, seed, topology, flow_scheduler),
        jobs=tuple(jobs),
        faults=tuple(faults),
        behaviour=drawn_behaviour(dice),
        ends_s=SMALL_END_S,
    )


@functools.cache
def _small_cluster(number: int) -> tuple[Topology, list[str]]:
    """A cluster of two to four nodes, and the flow schedulers that fit it."""
    topology = small_topology(random.Random(f"cluster {number}"))
    return topology, flow_schedulers(topology)


def _fault(dice: random.Random, topology: Topology) -> Fault:
    """A fault of a daemon, mostly; else one of a node, a disk, a link or slots."""
    if dice.random() < 0.3:
        return random_fault(dice, topology, SMALL_END_S)
    at_s = dice.uniform(0.001, 1.8)
    lasts_s = dice.choice((0.01, 0.1, 0.4, 1.2))
    racks = [rack.id for rack in topology.rack_list()]
    kind = dice.choices(
        ("resourcemanager", "namenode", "network", "nodemanager", "datanode"), (5, 3, 3, 2, 1)
    )[0]
    daemon = f"{kind}-{dice.choice(racks)}" if kind in ("nodemanager", "datanode") else kind
    if kind in ("resourcemanager", "namenode") and dice.random() < 0.2:
        return DaemonStopped(target=daemon, at_s=at_s, lasts_s=lasts_s)
    return DaemonDown(
        target=daemon,
        at_s=at_s,
        lasts_s=lasts_s,
        after=dice.randrange(4),
        sent=dice.choice((0, 0, 1, 2, 100)),
        lost=dice.choice((0, 0, 1, 3)),
        again=dice.choice((0, 4)),
        rejoin_s=dice.choice((0.0, 0.0, 0.2)),
    )


def _half_delivered(dice: random.Random, fault: Fault) -> Fault:
    """The network may receive more or less of a dying ResourceManager's last orders than others."""
    if not isinstance(fault, DaemonDown) or fault.target != "resourcemanager":
        return fault
    if (fault.lost and not fault.sent) or dice.random() < 0.5:
        return fault
    return msgspec.structs.replace(fault, to_network=dice.choice((0, 1, 2, 100)))


def _stopped_manager(dice: random.Random, topology: Topology) -> list[Fault]:
    """A stop of a NodeManager, or none."""
    if dice.random() >= _STOPPED_MANAGER:
        return []
    return [_among_flows(dice, _stopped_in_rack(dice, topology, NODE_MANAGER))]


def _other_stops(dice: random.Random, topology: Topology) -> list[Fault]:
    """A stop of the network, one of a DataNode, both or none."""
    stops: list[Fault] = []
    if dice.random() < _STOPPED_NETWORK:
        at_s, lasts_s = dice.uniform(0.001, 1.8), dice.choice((0.01, 0.1, 0.4, 1.2))
        orders_first = dice.random() < 0.5
        stop = DaemonStopped(
            target="network", at_s=at_s, lasts_s=lasts_s, orders_first=orders_first
        )
        stops.append(_among_flows(dice, stop))
    if dice.random() < _STOPPED_DATA_NODE:
        stops.append(_among_flows(dice, _stopped_in_rack(dice, topology, DATA_NODE)))
    return stops


def _among_flows(dice: random.Random, fault: DaemonDown | DaemonStopped) -> Fault:
    """The same fault, more often than not while bytes move through the daemon."""
    flows, lag_s = dice.choice((0, 1, 1, 2)), dice.choice((0.0, 0.05, 0.2))
    at_s = fault.at_s / 2 if flows else fault.at_s  # it waits for flows
    return msgspec.structs.replace(fault, at_s=at_s, flows=flows, lag_s=lag_s if flows else 0.0)


def _stopped_in_rack(dice: random.Random, topology: Topology, kind: str) -> DaemonStopped:
    """A stop of a rack's daemon that ends before it counts as lost."""
    rack = dice.choice(topology.rack_list()).id
    lasts_s = topology.liveness.expiry_s * dice.choice((0.02, 0.2, 0.5, 0.9))
    at_s = dice.uniform(0.001, 1.8)
    return DaemonStopped(target=kind + rack, at_s=at_s, lasts_s=lasts_s)


def _suited(jobs: list[WorkloadJob], recipe: Recipe, seed: int, racks: int) -> list[WorkloadJob]:
    """The jobs, with what schedulers look at that do more than place tasks."""
    if recipe.copies.first_counts is not CopyPolicy.first_counts:
        toss = random.Random(f"{seed} toys")
        jobs = [in_few_racks(needing_less(j, toss), racks, toss) for j in jobs]
    if recipe.uses_forecasts and recipe.uses_data:
        toss = random.Random(f"{seed} forecasts")
        jobs = [predicted(job, toss) for job in jobs]
    return jobs


def _config(scheduler: str, seed: int, topology: Topology, flow_scheduler: str) -> ClusterConfig:
    return ClusterConfig(
        topology=topology,
        scheduler=scheduler,
        flow_scheduler=flow_scheduler,
        seed=seed,
        scheduler_options=_options(recipe_of(scheduler), seed),
    )


def _options(recipe: Recipe, seed: int) -> dict[str, Option]:
    """Copies of slow tasks in every third schedule, much sooner than they would be made.

    Settings of ``_TRIED`` count in every other one.
    """
    known = option_names(recipe) if seed % 2 else ()
    options = {name: value for name, value in _TRIED.items() if name in known}
    if Speculation in recipe.with_settings and not seed % 3:
        options |= {"speculation.on": True, "speculation.after_s": 1.0, "speculation.cap": 0.3}
    return options
