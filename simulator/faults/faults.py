"""A schedule of faults in a simulated cluster: of nodes, racks, slots, disks and links.

A node that goes down drops its attempts without a report and serves no data.  The core and the
NameNode notice it after one heartbeat; the loss of a whole rack after ``liveness.expiry_s``.  When
a node comes back, its replicas are still on disk, but its map output is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from railyard.cluster.errors import require, unknown_name
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages.execution import NodeJoined, NodeLost, SlotsChanged
from railyard.cluster.topology import Topology
from railyard.simulator.heap import EventHeap, EventPriority
from railyard.simulator.nodes.nodemanagers import NodeManagers
from railyard.simulator.silence.daemons import Fault

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
