"""The optical part of a network: what ``pairs`` and a circuit policy do, for the fabric around it.

It numbers slots and rows, makes room, puts coflows in order and takes the log of changes.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

import numpy as np

from railyard.cluster.topology import Topology
from railyard.netemu.circuits import pairs, sunflow
from railyard.netemu.circuits.arrays import (
    ALONE,
    CHANGED,
    DELTA,
    FACTS,
    FLOWS,
    FREE,
    HOLDS,
    LOOK_AGAIN,
    PACKETS,
    REORDER,
    Circuits,
    grown,
    new_circuits,
)
from railyard.netemu.circuits.policies import (
    CoflowPairs,
    CoflowsOnCircuits,
    RackPair,
    StatelessPolicy,
    Switch,
    circuit_policy,
)
from railyard.netemu.fabric.coflows import OpenCoflows
from railyard.netemu.fabric.store import Store
from railyard.netemu.kernel.state import NONE, Array, views
from railyard.netemu.model.arrays import Floats, Numbers, instant_s, ranks
from railyard.netemu.model.flows import Change, CircuitChange, CircuitState
from railyard.netemu.model.network import Network

#: This many changes are kept; who reads them all must do so in time.
CHANGES_KEPT = 50_000
_WHAT: tuple[Change, ...] = ("set-up", "up", "down")


class OpticalPlane:
    """The pairs, slots and ports of one network."""

    def __init__(self, topology: Topology, policy: str, store: Store, coflows: OpenCoflows) -> None:
        assert topology.ocs is not None
        self.racks = tuple(rack.id for rack in topology.rack_list())
        delta_s, self.wavelengths = topology.ocs.delta_s, topology.ocs.wavelengths
        self.policy = circuit_policy(policy, Switch(self.racks, self.wavelengths, delta_s))
        self.order: Array = np.zeros(0, np.int32)  #: coflows with pairs by circuit
        self._store, self._coflows = store, coflows
        self._network: Network = store.network
        self._elephant_bytes = float(topology.ocs.elephant_bytes)
        racks, network = len(self.racks), self._network
        #: ends of rows in a rack: each node with a limited link, and all others together
        self._ends = 1 + max(len(rack.nodes) for rack in topology.rack_list())
        ports = [f"{rack}.ocs.{way}" for way in ("up", "down") for rack in self.racks]
        self._ports = np.array([network.number[name] for name in ports])
        place = {node.id: at for r in topology.rack_list() for at, node in enumerate(r.nodes, 1)}
        self._places = np.array([place.get(node, 0) for node in network.node_number])
        slots = slots_of(topology)
        first = store.state.none - slots
        made = new_circuits(
            racks, self.wavelengths, delta_s, first, 0, self._ends**2, len(network.node_number)
        )
        made.ports.bytes_per_s[:] = topology.ocs.port_bytes_per_s
        for port in range(2 * racks):
            sunflow.put(made.sets.works, port // racks * made.words, port % racks, True)
        self.state, self.view = made, views(made)
        self._pointers: Any = None
        store.reserve_rows(slots * self._ends**2)
        #: how many changes there were before; times; coflows; the rest, as in ``Lists.change``
        self._changes: deque[tuple[int, Floats, Array, Array]] = deque()
        self._changed = 0
        self._find_limits()
        self.limits_have_changed = True  #: since ports were last given theirs
        near, far = np.divmod(np.arange(store.routes.local) % store.routes.packets, racks + 1)
        #: [route]: whether it is between racks
        self._crosses = np.append((near != far) & (near < racks) & (far < racks), False)

    # Arrays --------------------------------------------------------------------------------------
    def _take(self, c: Circuits) -> None:
        self.view = views(c, self.state, self.view)
        self.state, self._pointers = c, None

    @property
    def _c(self) -> Any:
        if self._store.on is self._store.view:
            return self.view
        if self._pointers is None:
            self._pointers = self._store.loops.pointers(self.state)
        return self._pointers

    @property
    def _loops(self) -> Any:
        return self._store.loops.pairs

    def _make_room(self, more_pairs: int) -> None:
        c, flows, coflows = self.state, len(self._store.view.flows.row), len(self._coflows.keys)
        missing = (
            flows > len(self.view.flows.pair)
            or coflows > len(self.view.coflows.pairs)
            or more_pairs > self.view.lists.counts[FREE]
        )
        if missing:
            self._take(grown(c, flows=flows, pairs=more_pairs, coflows=coflows))

    def _find_limits(self) -> None:
        """Note which links of nodes are limited; others tell no rows apart."""
        network, is_limited, nodes = self._network, self._store.is_limited, self.state.nodes
        nodes.place_up[:] = np.where(is_limited[network.up], self._ends * self._places, 0)
        nodes.place_down[:] = np.where(is_limited[network.down], self._places, 0)

    # What flows do -------------------------------------------------------------------------------
    def enter(self, coming: Numbers) -> Numbers:
        """Take in those of these new flows that have bytes for another rack; returns the others."""
        store, of, others = self._store, self._store.state.flows, np.zeros_like(coming)
        self._make_room(len(coming))
        store.make_room(0)
        left = (of.size[coming] - of.sent[coming]) / of.weight[coming]
        coming = coming[left.argsort(kind="stable")]
        given = map(store.given, (coming, self._crosses, others))
        many = self._loops.enter(*given, store.now_s, store.on, self._c)
        return others[:many]

    def forget_all(self, flows: Numbers) -> None:
        """Forget flows, in no row, that have sent all or are closed, unless that was done."""
        store, pair = self._store, self.state.flows.pair
        known = flows[flows < len(pair)]
        for flow in known[pair[known] != NONE].tolist():
            pairs.forget(flow, store.now_s, store.view, self.view)

    def resend(self, flows: list[int]) -> list[int]:
        """Have flows, which were in rows, be in rows again: links have got limits, or lost them.

        Returns those that go by packets.
        """
        self._find_limits()
        self._make_room(0)
        self._store.make_room(0)
        self._loops.attach_all(self._store.now_s, self._store.on, self._c)
        pair_of, slot_of = self.view.flows.pair, self.view.pairs.slot
        return [f for f in flows if pair_of[f] == NONE or slot_of[pair_of[f]] == NONE]

    def add_to_ports(self, load: Floats) -> None:
        """Have the load of each circuit, in bytes/s by link, also be one of its ports."""
        of, first = self.state.of, self.state.first_link
        for slot in np.flatnonzero(of.user != NONE).tolist():
            for port in (slot // self.wavelengths, len(self.racks) + int(of.peer[slot])):
                load[self._ports[port]] += load[first + slot]

    # Decisions -----------------------------------------------------------------------------------
    def sort_out(self) -> Numbers:
        """Let pairs go by circuit or by packets; returns the flows that go by packets now."""
        store = self._store
        if self.limits_have_changed:
            self.limits_have_changed = False
            self._apply_limits()
        self._make_room(0)
        self._loops.sort_out(self._elephant_bytes, store.now_s, store.on, self._c)
        by_packets: Numbers = self.state.lists.flows[: self.view.lists.counts[FLOWS]].copy()
        return by_packets

    def set_rates(self) -> bool:
        """Choose circuits, if there is a reason to, and set rates; returns whether it could."""
        store = self._store
        is_new = bool(self.view.lists.counts[REORDER]) and self._put_in_order()
        policy, times = self.policy, self.view.lists.times
        if isinstance(policy, StatelessPolicy) and pairs.has_to_choose(store.now_s, self.view):
            chosen = policy.choose(store.now_s, self._in_order())
            self._loops.follow(store.now_s, np.array(chosen, np.int32), store.on, self._c)
            times[LOOK_AGAIN] = inf
        is_set = store.settle(
            lambda: self._loops.set_rates(store.now_s, self.order, is_new, store.on, self._c)
        )
        if isinstance(policy, StatelessPolicy):
            times[LOOK_AGAIN] = policy.look_again_s
        self.take_changes()
        return is_set

    def _in_order(self) -> list[CoflowPairs]:
        """The coflows that want circuits, in order, as policies of others see them."""
        of, names = self.state.pairs, self._coflows.keys
        there: dict[int, list[RackPair]] = {coflow: [] for coflow in self.order.tolist()}
        for number in np.flatnonzero(of.state != PACKETS).tolist():
            coflow, (src, dst) = of.coflow[number].item(), of.port[2 * number :][:2].tolist()
            left_bytes, has_circuit = of.counted[number].item(), of.state[number] == HOLDS
            pair = RackPair(number, str(names[coflow]), src, dst, left_bytes, has_circuit)
            there[coflow].append(pair)
        came_s = self.state.coflows.arrived_s
        for found in there.values():
            found.sort(key=lambda pair: (pair.src, pair.dst))
        return [
            CoflowPairs(str(names[coflow]), came_s[coflow].item(), tuple(found))
            for coflow, found in there.items()
        ]

    def next_s(self) -> float:
        """When something happens by itself; rates are set."""
        ready_s, store = self.next_ready_s(), self._store
        return float(pairs.next_event_s(store.now_s, ready_s, store.view, self.view))

    def run(self, until_s: float, together_s: float) -> tuple[float, int, bool]:
        store = self._store
        store.make_room(0)
        asks = isinstance(self.policy, StatelessPolicy)
        span = store.now_s, until_s, together_s
        ran: tuple[float, int, bool] = self._loops.run(span, asks, self.order, store.on, self._c)
        self.take_changes()
        return ran

    def _put_in_order(self) -> bool:
        """Put coflows with pairs by circuit in order; whether it is another one than before."""
        store, of, now_s = self._store, self.state.coflows, self._store.now_s
        self._loops.count_holding(now_s, store.on, self._c)
        there = np.flatnonzero(of.by_circuit[: len(self._coflows.keys)])
        moved = there[of.is_moved[there]]
        if len(moved):
            racks, times = len(self.racks), self.state.lists.times
            of.urgency[moved] = self.policy.urgency(
                CoflowsOnCircuits(
                    of.port_bytes.reshape(-1, 2, racks)[moved],
                    of.port_pairs.reshape(-1, 2, racks)[moved],
                    self.state.ports.bytes_per_s.reshape(2, -1),
                    float(times[DELTA]),
                    self.wavelengths,
                )
            )
            of.is_moved[moved] = False
        rank = ranks(of.urgency[there], instant_s(now_s)).tolist()
        came_s, names = of.arrived_s[there].tolist(), self._coflows.keys
        keyed = sorted(
            zip(rank, came_s, [names[k] for k in there.tolist()], there.tolist(), strict=True)
        )
        order = np.array([number for *_, number in keyed], np.int32)
        is_new = not np.array_equal(order, self.order)
        self.order = order
        of.rank[order] = np.arange(len(order))
        return is_new

    # Ports ---------------------------------------------------------------------------------------
    def _apply_limits(self) -> None:
        store, loops, now_s = self._store, self._loops, self._store.now_s
        capacity = store.state.work.capacity
        counts = self.state.lists.counts
        before = self.state.ports.bytes_per_s.copy()
        after = capacity[self._ports] / self.wavelengths
        for port in np.flatnonzero(before != after).tolist():
            if not after[port] or not before[port]:
                for coflow in np.flatnonzero(self.state.coflows.pairs).tolist():
                    loops.leave_port(port, coflow, not after[port], now_s, store.on, self._c)
            store.loops.switch.set_port(port, float(after[port]), now_s, store.on, self._c)
            self.state.coflows.is_moved[:] = True
            counts[REORDER] = 1
        counts[ALONE] = not np.isfinite(capacity[list(self._network.nics)]).any()
        if (self.state.of.user != NONE).any():
            loops.expect_ends(now_s, store.on, self._c)
        self.take_changes()
        store.free_rows()

    # What can be seen ----------------------------------------------------------------------------
    def circuits(self) -> list[CircuitState]:
        of, found = self.state.of, []
        for src, rack in enumerate(self.racks):
            slots = range(src * self.wavelengths, (src + 1) * self.wavelengths)
            for slot in sorted(slots, key=lambda slot: of.number[slot]):
                if of.peer[slot] != NONE:
                    user = of.user[slot]
                    number = NONE if user == NONE else int(self.state.pairs.coflow[user])
                    name = self._coflows.key_of(number)
                    ready_s = float(of.ready_s[slot])
                    found.append(CircuitState(rack, self.racks[of.peer[slot]], name, ready_s))
        return found

    def next_ready_s(self) -> float:
        """When the first dark circuit will carry, in seconds; inf if none is dark."""
        return float(np.minimum.reduce(self.state.of.dark_s))

    def changes(self, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """How many changes there have been in all, and those after the first ``after``, by time.

        At least the last ``CHANGES_KEPT`` of these.
        """
        found, racks = list[CircuitChange](), self.racks
        for first, at_s, coflows, rest in self._changes:
            new = slice(max(after - first, 0), None)
            for at, coflow, (what, src, dst, _, circuit) in zip(
                at_s[new].tolist(), coflows[new].tolist(), rest[new].tolist(), strict=True
            ):
                change = CircuitChange(at, _WHAT[what], racks[src], racks[dst], coflow, circuit)
                found.append(change)
        return self._changed, found

    def take_changes(self) -> None:
        """Take what the loops have logged; coflows' numbers may be used again from now on."""
        lists, kept = self.state.lists, self._changes
        many = int(lists.counts[CHANGED])
        if not many:
            return
        lists.counts[CHANGED] = 0
        rest = lists.change[: FACTS * many].reshape(-1, FACTS).copy()
        names = np.array([*self._coflows.keys, None], object)[rest[:, 3]]  # NONE is the last
        kept.append((self._changed, lists.change_s[:many].copy(), names, rest))
        self._changed += many
        while len(kept) > 1 and self._changed - kept[1][0] >= CHANGES_KEPT:
            kept.popleft()


def slots_of(topology: Topology) -> int:
    """How many links there are for circuits."""
    assert topology.ocs is not None
    return len(topology.rack_list()) * topology.ocs.wavelengths
