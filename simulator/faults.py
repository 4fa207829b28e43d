"""Faults of a simulated cluster: of nodes, racks, slots, disks and links; parsed, drawn and done.

    node:r0n1@10s+20s      the node is down from 10 s on, for 20 s (without "+20s": for good)
    rack:r2@30s+60s        all nodes of the rack are down
    slow:r1n0*4@5s+60s     attempts that begin to compute on the node take 4 times as long
    link:r3.up*0.2@5s+60s  the link has a fifth of its capacity
    slots:r3n0*0.5@5s+60s  the node has half its slots, to the nearest whole number, but at least 1
                           (with *0 none, with *2 twice as many); what runs there runs on
    blocks:r0n0/3@10s      every third replica on the node's disk is lost

Sites may be called by their names: link:Tokyo.up, rack:Tokyo.  Several faults are separated by
commas.  A number alone is a seed for random faults of all kinds.

A node that goes down drops its attempts without a report and serves no data.  The core and the
NameNode notice it after one heartbeat; the loss of a whole rack after ``liveness.expiry_s``.  When
a node comes back, its replicas are still on disk, but its map output is lost.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from railyard.cluster.errors import UsageError, printable, require, require_once, unknown_name
from railyard.cluster.faults import FAULTS, Fault
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages import NodeJoined, NodeLost, SlotsChanged
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import link_name, place_named
from railyard.cluster.units import parse_duration, whole_number
from railyard.simulator.clock import EventHeap, EventPriority
from railyard.simulator.workers import NodeManagers


class _Kind(NamedTuple):
    target: str
    sign: str = ""  #: stands before the amount; "": it has none
    least: float = 0.0  #: amounts
    most: float = math.inf
    right: str = ""  #: amounts in words


_KINDS = {
    "node": _Kind("node"),
    "rack": _Kind("rack"),
    "slow": _Kind("node", "*", 1, math.inf, "a number >= 1"),
    "blocks": _Kind("node", "/", 1, math.inf, "a whole number >= 1"),
    "link": _Kind("link", "*", 0, 1, "a share in [0, 1]"),
    "slots": _Kind("node", "*", 0, 100, "a number from 0 to 100"),
}
#: How often random faults are of each of these kinds.
_WEIGHTS = (4, 1, 2, 1, 2, 2)
_FAULT = re.compile(r"(\w+):([\w. -]+)(?:([*/])(\d+(?:\.\d+)?))?@([^+]+)(?:\+(.+))?", re.ASCII)
_RIGHT = (
    "node:r0n1@10s+20s, rack:r2@.., slow:r1n0*4@.., link:r3.up*0.2@.., slots:r3n0*0.5@.. "
    "or blocks:r0n0/3@10s"
)
#: Longest text accepted as an amount.
_NUMBER_LETTERS_MAX = 15
_SHOWN_LETTERS_MAX = 80
#: Nodes per random fault, on average.
_NODES_PER_FAULT = 4
#: Interval at which the NameNode retries failed commands while there are faults.
_TICK_S = 1.0


def check_faults(faults: Sequence[Fault], topology: Topology, links: Sequence[str]) -> None:
    """Raise ``UsageError`` for a value out of range, or an unknown node, rack or link."""
    nodes = {node.id for node in topology.nodes()}
    racks = {rack.id for rack in topology.rack_list()}
    for fault in faults:
        kind, where = _KINDS[fault.kind], f"fault {fault.kind}"
        require(fault.at_s >= 0, f"{where}: at_s", fault.at_s, "seconds >= 0")
        require(fault.lasts_s >= 0, f"{where}: lasts_s", fault.lasts_s, "seconds >= 0")
        if kind.target == "link":
            if fault.target not in links:
                raise unknown_name("link", fault.target, links)
        else:
            is_known = fault.target in (racks if kind.target == "rack" else nodes)
            right = f"a {kind.target} of the topology"
            require(is_known, f"{where}: {kind.target}", fault.target, right)
        is_right = kind.least <= fault.amount <= kind.most
        require(is_right, f"{where}: amount", fault.amount, kind.right)


# Parsed and drawn --------------------------------------------------------------------------------
def parse_faults(text: str, topology: Topology, until_s: float) -> list[Fault]:
    """The faults given by a text; those of a seed end by ``until_s``.  Raises ``UsageError``."""
    seed = whole_number(text)
    if seed is not None:
        return random_faults(random.Random(seed), topology, until_s)
    places = topology.places()
    require_once((part.strip() for part in text.split(",")), "--faults")
    return [_parse(part, places) for part in text.split(",")]


def _parse(text: str, places: Mapping[str, str]) -> Fault:
    where = f"--faults {printable(text, _SHOWN_LETTERS_MAX)}"
    found = _FAULT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--faults {text}: need {_RIGHT}")
    name, target, sign, number, at, lasts = found.groups()
    FAULTS.check(name, f"--faults {text}")
    kind, is_blocks = _KINDS[name], name == "blocks"
    is_well = (sign or "") == kind.sign or (is_blocks and sign is None)
    if not is_well or len(number or "") > _NUMBER_LETTERS_MAX:
        raise UsageError(f"{where}: need {_RIGHT}")
    at_s = parse_duration(at, f"--faults {text}")
    lasts_s = math.inf if lasts is None else parse_duration(lasts, f"--faults {text}")
    amount = float(number or 1)
    if sign == "*":
        require(amount != 1, f"{where}: factor", amount, "another number than 1")
    require(lasts_s > 0, f"{where}: lasts", lasts_s, "a time above 0, or none: for good")
    if is_blocks:
        if lasts is not None or "." in (number or ""):
            raise UsageError(f"{where}: need {_RIGHT}")
        lasts_s = 0.0
    if kind.target == "rack":
        target = place_named(target, places)
    elif kind.target == "link":
        target = link_name(target, places)
    return Fault(kind=name, target=target, at_s=at_s, lasts_s=lasts_s, amount=amount)


def random_faults(dice: random.Random, topology: Topology, until_s: float) -> list[Fault]:
    """About one fault per four nodes, at random times; all have ended by ``until_s``."""
    many = 1 + dice.randrange(1 + len(topology.nodes()) // _NODES_PER_FAULT * 2)
    return [random_fault(dice, topology, until_s) for _ in range(many)]


def random_fault(dice: random.Random, topology: Topology, until_s: float) -> Fault:
    """A fault of a node, a rack, a disk, a link or slots that has ended by ``until_s``."""
    nodes, racks, links = topology.derived(_names)
    at_s = dice.uniform(0, until_s)
    lasts_s = dice.uniform(0, until_s - at_s)
    kind, amount = dice.choices(list(_KINDS), _WEIGHTS)[0], 1.0
    if kind == "rack" and len(racks) == 1:
        kind = "node"
    if kind in ("slots", "link"):
        amount = dice.choice((0.0, 0.5, 2.0) if kind == "slots" else (0.0, 0.1, 0.5))
    target = dice.choice({"rack": racks, "link": links}.get(kind, nodes))
    if kind == "slow":
        amount = dice.uniform(1, 10)
    elif kind == "blocks":
        amount, lasts_s = dice.randint(1, 4), 0.0
    return Fault(kind=kind, target=target, at_s=at_s, lasts_s=lasts_s, amount=amount)


def _names(topology: Topology) -> tuple[list[str], list[str], list[str]]:
    """Nodes, racks and links that may have faults."""
    racks: list[str] = [rack.id for rack in topology.rack_list()]
    links = [f"{rack}.{way}" for rack in racks for way in ("up", "down")]
    if topology.tree is not None:
        links = [f"{rack}.tor" for rack in racks]
    return [node.id for node in topology.nodes()], racks, links


# Done --------------------------------------------------------------------------------------------
class Faults:
    """Begins and ends each fault at its time."""

    def __init__(
        self,
        faults: Sequence[Fault],
        topology: Topology,
        heap: EventHeap,
        workers: NodeManagers,
        others: Sequence[Fault] = (),
    ) -> None:
        """``others``: faults that somebody else begins.  Raises as ``check_faults`` does."""
        self._heap = heap
        self._workers = workers
        self._store = workers.store
        self._network = workers.network
        self._liveness = topology.liveness
        self._slots = {node.id: node.slots for node in topology.nodes()}
        self._racks = {rack.id: tuple(n.id for n in rack.nodes) for rack in topology.rack_list()}
        self._capacities = self._network.fabric.capacities_bytes_per_s()
        check_faults(faults, topology, list(self._capacities))
        #: {(kind, target): amounts of its present faults}
        self._amounts: dict[tuple[str, str], list[float]] = {}
        for fault in faults:
            heap.at(fault.at_s, self._begin, fault, priority=EventPriority.FAULT)
        if every := [*faults, *others]:
            changes_s = [s for f in every for s in (f.at_s, _end_s(f)) if math.isfinite(s)]
            self._last_s = max(changes_s)
            heap.at(min(fault.at_s for fault in every), self._tick, priority=EventPriority.FAULT)

    def slots_of(self, node: NodeId) -> int:
        share = self._factor("slots", node)
        return max(1, math.floor(self._slots[node] * share + 0.5)) if share else 0

    def capacity_of(self, link: str) -> float:
        whole = self._capacities[link]
        return whole if math.isinf(whole) else whole * self._factor("link", link)

    def _begin(self, fault: Fault) -> None:
        node = NodeId(fault.target)
        match fault.kind:
            case "node":
                self._go_down([node], fault, self._liveness.heartbeat)
            case "rack":
                nodes = self._racks[RackId(fault.target)]
                self._go_down(nodes, fault, self._liveness.expiry_s)
            case "blocks":
                for replica in self._store.disks.held([node])[node][:: int(fault.amount)]:
                    self._store.disks.remove(replica.block, node)  # noticed when it is read
            case _:
                self._amounts.setdefault((fault.kind, fault.target), []).append(fault.amount)
                self._change(fault)
                self._at_end(fault, self._change_back, fault)

    def _at_end(self, fault: Fault, action: Callable[..., None], *args: object) -> None:
        if math.isfinite(_end_s(fault)):
            self._heap.at(_end_s(fault), action, *args, priority=EventPriority.FAULT)

    def _tick(self) -> None:
        self._store.tick()
        if self._heap.now_s <= self._last_s + self._liveness.expiry_s:
            self._heap.at(self._heap.now_s + _TICK_S, self._tick, priority=EventPriority.FAULT)

    # Nodes and racks -----------------------------------------------------------------------------
    def _go_down(self, nodes: Sequence[NodeId], fault: Fault, unnoticed_s: float) -> None:
        for node in nodes:
            self._store.down.begin(node)
            self._workers.down.begin(node)
        for node in nodes:
            self._workers.go_down(node)
        self._heap.after(unnoticed_s, self._notice, nodes)
        self._at_end(fault, self._come_back, nodes)

    def _notice(self, nodes: Sequence[NodeId]) -> None:
        """Report the nodes that are still down to the core and to the NameNode."""
        down = [node for node in nodes if node in self._workers.down]
        for node in down:
            self._workers.report(NodeLost(node=node, reason="it was silent for too long"))
        for rack in dict.fromkeys(rack_of(node) for node in nodes if node in self._store.down):
            self._store.send_heartbeat(rack)

    def _come_back(self, nodes: Sequence[NodeId]) -> None:
        up = [node for node in nodes if self._store.down.end(node)]
        for rack in dict.fromkeys(map(rack_of, up)):
            self._store.register(rack)
        back = [node for node in nodes if self._workers.down.end(node)]
        if len(back) > 1:  # as ``resourcemanager.process.nodemanagers`` does
            for node in back:
                self._workers.report(NodeLost(node=node, reason="its NodeManager started anew"))
        for node in back:
            slots = self.slots_of(node)
            self._workers.report(NodeJoined(node=node, rack=rack_of(node), slots=slots))

    # Slow nodes, slots and links -----------------------------------------------------------------
    def _change(self, fault: Fault) -> None:
        node = NodeId(fault.target)
        if fault.kind == "slow":
            self._workers.slowness[node] = self._factor("slow", node)
        elif fault.kind == "link":
            capacity = self.capacity_of(fault.target)
            if math.isfinite(capacity):
                self._network.set_capacity(fault.target, capacity)
        elif node not in self._workers.down:  # one that is down reports it once it comes back
            self._workers.report(SlotsChanged(node=node, slots=self.slots_of(node)))

    def _change_back(self, fault: Fault) -> None:
        self._amounts[fault.kind, fault.target].remove(fault.amount)
        self._change(fault)

    def _factor(self, kind: str, target: str) -> float:
        return math.prod(self._amounts.get((kind, target), ()))


def _end_s(fault: Fault) -> float:
    return fault.at_s + fault.lasts_s
