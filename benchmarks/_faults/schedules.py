"""Schedules of faults as data: a cluster, its jobs and what goes wrong, drawn from a seed.

A large one has up to nine nodes, four jobs and faults of nodes, disks, links and slots.  A small
one has few nodes and one or two jobs, and daemons die, too: thousands of them run in the time of
a few hundred large ones.

Not here: running them (``scenarios.py``), and making a failing one smaller (``shrinking.py``).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

import msgspec

from railyard.benchmarks._faults import drawing, toys
from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import WorkloadJob
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Option, Recipe, option_names
from railyard.resourcemanager.interface.speculation import Speculation
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.faults.faultspec import random_fault, random_faults
from railyard.simulator.network.ends import DATA_NODE, NODE_MANAGER
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped, Fault

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
    topology = drawing.topology(dice)
    flow_scheduler = dice.choice(drawing.flow_schedulers(topology))
    jobs = _suited(drawing.jobs(dice), recipe_of(scheduler), seed, topology.racks.count)
    faults = random_faults(dice, topology, LARGE_END_S)
    behaviour = drawing.behaviour(dice)
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
    jobs = drawing.jobs(
        dice,
        many=many,
        maps=_MAPS_MAX,
        reduces=_REDUCES_MAX,
        within_s=1.0,
        block_bytes=drawing.SMALL_BLOCK_BYTES,
    )
    jobs = _suited(jobs, recipe_of(scheduler), seed, topology.racks.count)
    faults = [_fault(dice, topology) for _ in range(dice.randint(1, _FAULTS_MAX))]
    toss = random.Random(f"{scheduler} {seed} flows")
    faults = [
        _among_flows(toss, fault)
        if isinstance(fault, DaemonDown) and fault.daemon == "network"
        else fault
        for fault in faults
    ]
    faults = [_half_heard(toss, fault) for fault in faults]
    faults += _stopped_manager(random.Random(f"{scheduler} {seed} pause"), topology)
    faults += _other_stops(random.Random(f"{scheduler} {seed} stops"), topology)
    return Schedule(
        name=f"small {scheduler} {seed}",
        config=_config(scheduler, seed, topology, flow_scheduler),
        jobs=tuple(jobs),
        faults=tuple(faults),
        behaviour=drawing.behaviour(dice),
        ends_s=SMALL_END_S,
    )


@functools.cache
def _small_cluster(number: int) -> tuple[Topology, list[str]]:
    """A cluster of two to four nodes, and the flow schedulers that fit it."""
    topology = drawing.small_topology(random.Random(f"cluster {number}"))
    return topology, drawing.flow_schedulers(topology)


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
        return DaemonStopped(daemon=daemon, at_s=at_s, lasts_s=lasts_s)
    return DaemonDown(
        daemon=daemon,
        at_s=at_s,
        lasts_s=lasts_s,
        after=dice.randrange(4),
        sent=dice.choice((0, 0, 1, 2, 100)),
        lost=dice.choice((0, 0, 1, 3)),
        again=dice.choice((0, 4)),
        rejoin_s=dice.choice((0.0, 0.0, 0.2)),
    )


def _half_heard(dice: random.Random, fault: Fault) -> Fault:
    """The network may hear more or less of a dying ResourceManager's last orders than others do."""
    if not isinstance(fault, DaemonDown) or fault.daemon != "resourcemanager":
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
        hears_first = dice.random() < 0.5
        stop = DaemonStopped(daemon="network", at_s=at_s, lasts_s=lasts_s, hears_first=hears_first)
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
    return DaemonStopped(daemon=kind + rack, at_s=at_s, lasts_s=lasts_s)


def _suited(jobs: list[WorkloadJob], recipe: Recipe, seed: int, racks: int) -> list[WorkloadJob]:
    """The jobs, with what schedulers look at that do more than place tasks."""
    if recipe.copies.first_counts is not CopyPolicy.first_counts:
        toss = random.Random(f"{seed} toys")
        jobs = [drawing.in_few_racks(drawing.needing_less(j, toss), racks, toss) for j in jobs]
    if recipe.uses_forecasts and recipe.uses_data:
        toss = random.Random(f"{seed} forecasts")
        jobs = [drawing.predicted(job, toss) for job in jobs]
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
    if Speculation in recipe.with_settings() and not seed % 3:
        options |= {"speculation.on": True, "speculation.after_s": 1.0, "speculation.cap": 0.3}
    return options
