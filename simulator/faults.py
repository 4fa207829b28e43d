"""A schedule of faults in a simulated cluster: of nodes, racks, slots, disks and links.

A node that goes down drops its attempts without a report and serves no data.  The core and the
NameNode notice it after one heartbeat; the loss of a whole rack after ``liveness.expiry_s``.  When
a node comes back, its replicas are still on disk, but its map output is gone.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence

from railyard.cluster.acceptance import Accepted, used
from railyard.cluster.errors import UsageError, printable, require, require_once, unknown_name
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages import NodeJoined, NodeLost, SlotsChanged
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import link_name, place_named
from railyard.cluster.units import parse_duration, whole_number
from railyard.simulator.clock import EventHeap, EventPriority
from railyard.simulator.daemons import Fault
from railyard.simulator.nodemanagers import NodeManagers

#: Interval at which the NameNode retries failed commands while there are faults.
_TICK_S = 1.0


class NodeDown(Fault, frozen=True, kw_only=True, tag="node-down"):
    """A node is down."""

    node: NodeId


class RackDown(Fault, frozen=True, kw_only=True, tag="rack-down"):
    """All nodes of a rack are down."""

    rack: RackId


class NodeSlow(Fault, frozen=True, kw_only=True, tag="node-slow"):
    """Attempts that begin to compute on a node meanwhile take ``factor`` times as long."""

    node: NodeId
    factor: float


class BlocksLost(Fault, frozen=True, kw_only=True, tag="blocks-lost"):
    """Every ``every``-th replica on a node's disk is lost."""

    node: NodeId
    every: int = 1


class CapacityDrop(Fault, frozen=True, kw_only=True, tag="capacity-drop"):
    """A link, such as "r3.up", has only the fraction ``share`` of its capacity."""

    link: str
    share: float


class SlotsChange(Fault, frozen=True, kw_only=True, tag="slots-change"):
    """A node has ``share`` times its slots, to the nearest whole number.

    At least 1 is left, unless ``share`` is 0.  What runs there runs on.
    """

    node: NodeId
    share: float


#: The most times its slots that a node can have.
_SHARE_MAX = 100


def check_faults(faults: Sequence[Fault], topology: Topology, links: Sequence[str]) -> None:
    """Raise ``UsageError`` for a value out of range, or an unknown node, rack or link."""
    nodes = {node.id for node in topology.nodes()}
    racks = {rack.id for rack in topology.rack_list()}
    for fault in faults:
        where = type(fault).__name__
        require(fault.at_s >= 0, f"{where}: at_s", fault.at_s, "seconds >= 0")
        require(fault.lasts_s >= 0, f"{where}: lasts_s", fault.lasts_s, "seconds >= 0")
        if isinstance(fault, NodeDown | NodeSlow | BlocksLost | SlotsChange):
            require(fault.node in nodes, f"{where}: node", fault.node, "a node of the topology")
        if isinstance(fault, RackDown):
            require(fault.rack in racks, f"{where}: rack", fault.rack, "a rack of the topology")
        if isinstance(fault, NodeSlow):
            require(fault.factor >= 1, f"{where}: factor", fault.factor, "a number >= 1")
        if isinstance(fault, BlocksLost):
            require(fault.every >= 1, f"{where}: every", fault.every, "a whole number >= 1")
        if isinstance(fault, CapacityDrop):
            if fault.link not in links:
                raise unknown_name("link", fault.link, links)
            require(0 <= fault.share <= 1, f"{where}: share", fault.share, "a share in [0, 1]")
        if isinstance(fault, SlotsChange):
            right = f"a number from 0 to {_SHARE_MAX}"
            require(0 <= fault.share <= _SHARE_MAX, f"{where}: share", fault.share, right)


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
        self._shares: dict[str, list[float]] = {}  #: {link: shares of its present faults}
        self._factors: dict[NodeId, list[float]] = {}  #: {node: factors of its present faults}
        #: {node: shares of its present faults of slots}
        self._slot_shares: dict[NodeId, list[float]] = {}
        begin: dict[type[Fault], Callable[..., None]] = {
            NodeDown: self._node_down,
            RackDown: self._rack_down,
            NodeSlow: self._node_slow,
            BlocksLost: self._blocks_lost,
            CapacityDrop: self._capacity_drop,
            SlotsChange: self._slots_change,
        }
        for fault in faults:
            heap.at(fault.at_s, begin[type(fault)], fault, priority=EventPriority.FAULT)
        if every := [*faults, *others]:
            changes_s = [s for f in every for s in (f.at_s, _end_s(f)) if math.isfinite(s)]
            self._last_s = max(changes_s)
            heap.at(min(fault.at_s for fault in every), self._tick, priority=EventPriority.FAULT)

    # Nodes and racks -----------------------------------------------------------------------------
    def _node_down(self, fault: NodeDown) -> None:
        self._go_down([fault.node], fault, self._liveness.heartbeat)

    def _rack_down(self, fault: RackDown) -> None:
        self._go_down(self._racks[fault.rack], fault, self._liveness.expiry_s)

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

    # Slots ---------------------------------------------------------------------------------------
    def _slots_change(self, fault: SlotsChange) -> None:
        self._slot_shares.setdefault(fault.node, []).append(fault.share)
        self._report_slots(fault.node)
        self._at_end(fault, self._slots_back, fault)

    def _slots_back(self, fault: SlotsChange) -> None:
        self._slot_shares[fault.node].remove(fault.share)
        self._report_slots(fault.node)

    def _report_slots(self, node: NodeId) -> None:
        """Report it to the core; for a node that is down, once that comes back."""
        if node not in self._workers.down:
            self._workers.report(SlotsChanged(node=node, slots=self.slots_of(node)))

    def slots_of(self, node: NodeId) -> int:
        """How many slots a node has now."""
        share = math.prod(self._slot_shares.get(node, ()))
        return max(1, math.floor(self._slots[node] * share + 0.5)) if share else 0

    # Slow nodes, lost replicas, narrow links ----------------------------------------------------
    def _node_slow(self, fault: NodeSlow) -> None:
        self._factors.setdefault(fault.node, []).append(fault.factor)
        self._update_slowness(fault.node)
        self._at_end(fault, self._node_quick, fault)

    def _node_quick(self, fault: NodeSlow) -> None:
        self._factors[fault.node].remove(fault.factor)
        self._update_slowness(fault.node)

    def _update_slowness(self, node: NodeId) -> None:
        self._workers.slowness[node] = math.prod(self._factors[node])

    def _blocks_lost(self, fault: BlocksLost) -> None:
        held = self._store.disks.held([fault.node])[fault.node]
        for replica in held[:: fault.every]:
            self._store.lose(fault.node, replica.block)

    def _capacity_drop(self, fault: CapacityDrop) -> None:
        self._shares.setdefault(fault.link, []).append(fault.share)
        self._update_capacity(fault.link)
        self._at_end(fault, self._capacity_back, fault)

    def _capacity_back(self, fault: CapacityDrop) -> None:
        self._shares[fault.link].remove(fault.share)
        self._update_capacity(fault.link)

    def capacity_of(self, link: str) -> float:
        """What a link can carry now, in bytes/s."""
        whole = self._capacities[link]
        return whole if math.isinf(whole) else whole * math.prod(self._shares.get(link, ()))

    def _update_capacity(self, link: str) -> None:
        capacity = self.capacity_of(link)
        if math.isfinite(capacity):
            self._network.set_capacity(link, capacity)

    def _at_end(self, fault: Fault, action: Callable[..., None], *args: object) -> None:
        if math.isfinite(_end_s(fault)):
            self._heap.at(_end_s(fault), action, *args, priority=EventPriority.FAULT)

    def _tick(self) -> None:
        self._store.tick()
        if self._heap.now_s <= self._last_s + self._liveness.expiry_s:
            self._heap.at(self._heap.now_s + _TICK_S, self._tick, priority=EventPriority.FAULT)


def _end_s(fault: Fault) -> float:
    return fault.at_s + fault.lasts_s


# Parses the value of ``--faults``, and draws random schedules of faults from a seed.
#
#     node:r0n1@10s+20s      the node is down from 10 s on, for 20 s (without "+20s": for good)
#     rack:r2@30s+60s        all nodes of the rack are down
#     slow:r1n0*4@5s+60s     attempts that begin to compute on the node take 4 times as long
#     link:r3.up*0.2@5s+60s  the link has a fifth of its capacity
#     slots:r3n0*0.5@5s+60s  the node has half its slots, to the nearest whole number, but at least
# 1
#                            (with *0 none, with *2 twice as many); what runs there runs on
#     blocks:r0n0/3@10s      every third replica on the node's disk is lost
#
# Sites may be called by their names: link:Tokyo.up, rack:Tokyo.  Several faults are separated by
# commas.  A number alone is a seed for random faults of all kinds.


#: The kinds of faults, and what one is like after its kind.
FAULTS = Accepted(
    "faults of a simulation: --faults",
    "fault",
    {
        "node": used("r0n1@10s+20s: it is down"),
        "rack": used("r2@30s+60s: all of its nodes are down"),
        "slow": used("r1n0*4@5s+60s: it computes four times as long"),
        "link": used("r3.up*0.2@5s+60s: it has a fifth of its capacity"),
        "slots": used("r3n0*0.5@5s+60s: it has half of its slots"),
        "blocks": used("r0n0/3@10s: every third replica is lost"),
    },
)
_FAULT = re.compile(r"(\w+):([\w. -]+)(?:([*/])(\d+(?:\.\d+)?))?@([^+]+)(?:\+(.+))?", re.ASCII)
_RIGHT = (
    "node:r0n1@10s+20s, rack:r2@.., slow:r1n0*4@.., link:r3.up*0.2@.., slots:r3n0*0.5@.. "
    "or blocks:r0n0/3@10s"
)
#: Longest text accepted as a factor or share.
_NUMBER_LETTERS_MAX = 15
_SHOWN_LETTERS_MAX = 80
#: Nodes per random fault, on average.
_NODES_PER_FAULT = 4
_KINDS = ("node", "rack", "slow", "blocks", "link", "slots")


def parse_faults(text: str, topology: Topology, until_s: float) -> list[Fault]:
    """The faults given by a text; those of a seed end by ``until_s``.  Raises ``UsageError``."""
    seed = whole_number(text)
    if seed is not None:
        return random_faults(random.Random(seed), topology, until_s)
    places = topology.places()
    require_once((part.strip() for part in text.split(",")), "--faults")
    return [_parse(part, places) for part in text.split(",")]


def random_faults(dice: random.Random, topology: Topology, until_s: float) -> list[Fault]:
    """About one fault per four nodes, at random times; all have ended by ``until_s``."""
    many = 1 + dice.randrange(1 + len(topology.nodes()) // _NODES_PER_FAULT * 2)
    return [random_fault(dice, topology, until_s) for _ in range(many)]


def random_fault(dice: random.Random, topology: Topology, until_s: float) -> Fault:
    """A fault of a node, a rack, a disk, a link or slots that has ended by ``until_s``."""
    nodes, racks, links = topology.derived(_names)
    at_s = dice.uniform(0, until_s)
    when = {"at_s": at_s, "lasts_s": dice.uniform(0, until_s - at_s)}
    kind = dice.choices(_KINDS, (4, 1, 2, 1, 2, 2))[0]
    if kind == "rack" and len(racks) == 1:
        kind = "node"
    match kind:
        case "node":
            return NodeDown(node=dice.choice(nodes), **when)
        case "rack":
            return RackDown(rack=dice.choice(racks), **when)
        case "slow":
            return NodeSlow(node=dice.choice(nodes), factor=dice.uniform(1, 10), **when)
        case "slots":
            share = dice.choice((0.0, 0.5, 2.0))
            return SlotsChange(node=dice.choice(nodes), share=share, **when)
        case "link":
            share = dice.choice((0.0, 0.1, 0.5))
            return CapacityDrop(link=dice.choice(links), share=share, **when)
        case _:
            return BlocksLost(node=dice.choice(nodes), every=dice.randint(1, 4), at_s=when["at_s"])


def _names(topology: Topology) -> tuple[list[NodeId], list[RackId], list[str]]:
    """Nodes, racks and links that may have faults."""
    racks = [rack.id for rack in topology.rack_list()]
    links = [f"{rack}.{way}" for rack in racks for way in ("up", "down")]
    if topology.tree is not None:
        links = [f"{rack}.tor" for rack in racks]
    return [node.id for node in topology.nodes()], racks, links


def _parse(text: str, places: Mapping[str, str]) -> Fault:
    found = _FAULT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--faults {text}: need {_RIGHT}")
    kind, what, sign, number, at, lasts = found.groups()
    FAULTS.check(kind, f"--faults {text}")
    is_long = number is not None and len(number) > _NUMBER_LETTERS_MAX
    if is_long or sign not in (None, "/" if kind == "blocks" else "*"):
        raise UsageError(f"--faults {printable(text, _SHOWN_LETTERS_MAX)}: need {_RIGHT}")
    at_s = parse_duration(at, f"--faults {text}")
    lasts_s = math.inf if lasts is None else parse_duration(lasts, f"--faults {text}")
    _require_effect(text, sign, number, lasts_s)
    match kind, number:
        case "node", None:
            return NodeDown(node=NodeId(what), at_s=at_s, lasts_s=lasts_s)
        case "rack", None:
            return RackDown(rack=RackId(place_named(what, places)), at_s=at_s, lasts_s=lasts_s)
        case "slow", str():
            return NodeSlow(node=NodeId(what), factor=float(number), at_s=at_s, lasts_s=lasts_s)
        case "link", str():
            link = link_name(what, places)
            return CapacityDrop(link=link, share=float(number), at_s=at_s, lasts_s=lasts_s)
        case "slots", str():
            return SlotsChange(node=NodeId(what), share=float(number), at_s=at_s, lasts_s=lasts_s)
        case "blocks", _ if lasts is None and "." not in (number or ""):
            return BlocksLost(node=NodeId(what), every=int(number or 1), at_s=at_s)
    raise UsageError(f"--faults {text}: need {_RIGHT}")


def _require_effect(text: str, sign: str | None, number: str | None, lasts_s: float) -> None:
    """Raise ``UsageError`` for a fault that would change nothing."""
    where = f"--faults {printable(text, _SHOWN_LETTERS_MAX)}"
    if sign == "*" and number is not None:
        require(float(number) != 1, f"{where}: factor", float(number), "another number than 1")
    require(lasts_s > 0, f"{where}: lasts", lasts_s, "a time above 0, or none: for good")
