"""The plan of faults on a live cluster: which, on what, when and for how long.  Pure.

A plan depends on its arguments alone.  What is not known before, such as the attempts that run or
the blocks that there are, is chosen when it is time, by the fault's number ``draw``.

A daemon is killed less often than the supervisor bears, and nothing happens to one while it is
stopped.  Of a link or of a rack's disks there is one fault at a time.  Replicas are damaged only
where another one is left: see ``replica_to_damage`` and ``nodes_to_lose``.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from railyard.cluster.config import DEATHS_MAX, WITHIN_S
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.faults import CENTRAL, DEADLY, DESTROYING, GROUPS, KILLS, KINDS, Fault
from railyard.cluster.ids import NodeId
from railyard.cluster.topology import Topology
from railyard.netemu.model.network import Network

#: Roles of processes that belong to no rack for long.
_OF_JOBS = ("JobHelper", "Attempt")
#: Deaths of a daemon within ``WITHIN_S``: pauses before its restarts stay short, and some are left
#: for what is not planned.
DEATHS_PLANNED_MAX = DEATHS_MAX - 3
#: {kind that lasts: least and most seconds}
_LASTS_S = {"stop": (1.0, 4.0), "cut": (1.0, 3.0), "slow": (2.0, 5.0), "fill": (0.5, 2.0)}
#: Share of its capacity that a slow link keeps.
_SHARES = (0.05, 0.5)


class LiveFault(Fault, frozen=True, kw_only=True):
    """A fault of a plan.

    Its target is a daemon ("datanode-r1") that it happens to, or to whose helper or disks; a link;
    or "": chosen when it is time.  A link has ``amount`` times its capacity.
    """

    draw: float  #: chooses among what there is then, from 0 to below 1


def kinds_named(words: str, possible: Collection[str]) -> tuple[str, ...]:
    """The kinds that words such as "kill,stop" name, of those that are ``possible`` here.

    Raises ``UsageError`` for an unknown word, and for a kind that is not possible.
    """
    found: dict[str, None] = {}
    for word in (each.strip() for each in words.split(",")):
        if word in GROUPS:
            found |= dict.fromkeys(kind for kind in GROUPS[word] if kind in possible)
        elif word not in KINDS:
            raise unknown_name("kind of fault", word, (*GROUPS, *KINDS))
        elif word not in possible:
            raise UsageError(f"--kinds {word}: cannot be here: need of {', '.join(possible)}")
        else:
            found[word] = None
    return tuple(found)


def possible_kinds(topology: Topology) -> tuple[str, ...]:
    """The kinds that a cluster bears: where blocks have one replica, none may be destroyed."""
    unborne: set[str] = set()
    if min(topology.storage.replication, len(topology.nodes())) < 2:
        unborne.update(DESTROYING)
    if not Network(topology).cross_rack:
        unborne.update(("cut", "slow"))
    return tuple(kind for kind in KINDS if kind not in unborne)


def plan_faults(
    seed: int,
    topology: Topology,
    kinds: Sequence[str],
    count: int,
    every_s: float,
    deaths_max: int = DEATHS_PLANNED_MAX,
) -> tuple[LiveFault, ...]:
    """So many faults of these kinds, ``every_s`` apart on average, in the order of their times.

    Each kind comes about as often as the others.  A fault is later, and all after it, where its
    daemon would otherwise die more than ``deaths_max`` times within ``WITHIN_S``.
    """
    planner = _Planner(random.Random(seed), topology, deaths_max)
    faults: list[LiveFault] = []
    bag: list[str] = []
    at_s = 0.0
    for _ in range(count):
        if not bag:
            bag = list(kinds)
            planner.dice.shuffle(bag)
        at_s += planner.dice.uniform(0, 2 * every_s)
        fault = planner.fault(bag.pop(), at_s)
        at_s = fault.at_s
        faults.append(fault)
    return tuple(faults)


class _Planner:
    def __init__(self, dice: random.Random, topology: Topology, deaths_max: int) -> None:
        self.dice = dice
        self._deaths_max = deaths_max
        self._racks = [str(rack.id) for rack in topology.rack_list()]
        self._links = Network(topology).cross_rack
        self._deaths_s: dict[str, list[float]] = {}  #: {daemon: its deaths, planned so far}
        self._until_s: dict[str, float] = {}  #: {daemon or link: the end of the fault that it has}

    def fault(self, kind: str, at_s: float) -> LiveFault:
        """A fault of this kind, at this time or as soon afterwards as it may be."""
        targets = self._targets(kind)
        self.dice.shuffle(targets)
        free_s = {target: self._free_s(kind, target, at_s) for target in targets}
        target = min(targets, key=free_s.__getitem__)  # the first of equal ones
        begin_s = free_s[target]
        lasts_s = self.dice.uniform(*_LASTS_S.get(kind, (0.0, 0.0)))
        if target:
            self._until_s[target] = max(begin_s + lasts_s, self._until_s.get(target, 0.0))
        if kind in DEADLY and target:
            self._deaths_s.setdefault(target, []).append(begin_s)
        share = self.dice.uniform(*_SHARES) if kind == "slow" else 0.0
        draw = self.dice.random()
        return LiveFault(
            at_s=begin_s, kind=kind, target=target, draw=draw, lasts_s=lasts_s, amount=share
        )

    def _targets(self, kind: str) -> list[str]:
        if kind in ("cut", "slow"):
            return list(self._links)
        if kind in ("fill", "lose-node"):
            return self._of_racks("DataNode")
        if kind == "stop":
            every = [*self._of_racks("NodeManager"), *self._of_racks("DataNode")]
            return every + [name for role, name in CENTRAL.items() if role != "Gateway"]
        role = KILLS.get(kind)
        if role is None or role in _OF_JOBS:
            return [""]
        if role == "Helper":
            return self._of_racks("NodeManager")  # which dies with its helper
        return [CENTRAL[role]] if role in CENTRAL else self._of_racks(role)

    def _of_racks(self, role: str) -> list[str]:
        return [f"{role.lower()}-{rack}" for rack in self._racks]

    def _free_s(self, kind: str, target: str, at_s: float) -> float:
        """When the target may have a fault of this kind, ``at_s`` at the earliest."""
        if not target:
            return at_s
        free_s = max(at_s, self._until_s.get(target, 0.0))
        if kind in DEADLY:
            latest = self._deaths_s.get(target, [])[-self._deaths_max :]
            if len(latest) == self._deaths_max:
                free_s = max(free_s, latest[0] + WITHIN_S)
        return free_s


# When it is time ----------------------------------------------------------------------------------
def replica_to_damage(
    replicas: Mapping[str, Sequence[NodeId]], spared: Collection[str], draw: float
) -> tuple[str, NodeId] | None:
    """A block and the node of the replica that may be damaged; None if there is none.

    ``replicas``: {block: nodes with a sound replica}.  One is always left, and no block of
    ``spared``, which lack replicas already, is chosen.
    """
    possible = sorted(
        (block, node)
        for block, nodes in replicas.items()
        if len(nodes) > 1 and block not in spared
        for node in nodes
    )
    return possible[int(draw * len(possible))] if possible else None


def nodes_to_lose(
    replicas: Mapping[str, Sequence[NodeId]], spared: Collection[str], nodes: Iterable[NodeId]
) -> list[NodeId]:
    """The nodes whose disks may be lost: each of their blocks has a replica elsewhere.

    ``replicas`` and ``spared`` are as above; nodes with a replica of a spared block stay.
    """
    needed = {
        node
        for block, held in replicas.items()
        if len(held) < 2 or block in spared
        for node in held
    }
    return sorted(node for node in nodes if node not in needed)
