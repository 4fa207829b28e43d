"""The network as a fluid: between events, every flow sends at a constant rate.

``Fabric`` is a state machine without a clock: the time is an argument.  The emulator drives it in
real time, the simulator from event to event, and it does the same for both.  It does no I/O and
knows nothing of real bytes.

    fabric.handle(order, now_s) -> flows that finished, each with its exact time
    fabric.next_event_s() -> when something will happen by itself: a flow finishes, or the flow
                             scheduler wants to be asked again

All else only reads.  However much happens at one instant, rates are set once: when time comes to
it, the flows that are due end, then come its orders, and rates are set when they are next read or
time goes on.
Times that differ by rounding only are one instant (``instant_s``).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, cast

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.coflows import Key, OpenCoflows, Places
from railyard.netemu.fabric.optics import OpticalPlane, slots_of
from railyard.netemu.fabric.planning import Planner
from railyard.netemu.fabric.store import TRUNKS_FROM, Store
from railyard.netemu.kernel.state import NONE
from railyard.netemu.messages import (
    CloseFlow,
    FinishCoflow,
    NetworkStats,
    RegisterCoflow,
    SetCapacity,
)
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.flows import (
    CircuitChange,
    CircuitState,
    CoflowPast,
    Finished,
    FlowRows,
    FlowSpec,
)
from railyard.netemu.model.network import Network, check_capacity
from railyard.netemu.schedulers.base import FlowScheduler, Serves

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")
#: From so many flows on, compiled loops are worth the half second that it takes to load them.
MANY_FLOWS = 5_000


@dataclass(frozen=True, slots=True)
class StartFlows:
    """Open flows, in this order; those before a wrong one stay open, unlike ``FlowRows``."""

    flows: Sequence[FlowSpec]
    sent_bytes: float = 0.0  #: what another fabric has carried of each: 0 to its size


@dataclass(frozen=True, slots=True)
class TakeUpCoflow:
    """Accept flows of a coflow that another fabric knew; ``past``: on this fabric's clock."""

    coflow: CoflowId
    past: CoflowPast


Order = (
    StartFlows | FlowRows | CloseFlow | RegisterCoflow | TakeUpCoflow | FinishCoflow | SetCapacity
)


#: Changes kept, and lines shown of them.
_KEPT, _SHOWN = 200, 8


class RecentChanges:
    """The last changes, as (seconds, what happened, to which flow, coflow or link, details).

    For several flows that start or finish together, there is one, with a list of them.
    """

    def __init__(self) -> None:
        self._changes: deque[tuple[float, str, Any, object]] = deque(maxlen=_KEPT)
        self.add = self._changes.append

    def add_to(self, error: InvariantError) -> None:
        """Add to an error the last changes of what it is about, or of all if it names nothing."""
        about = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in error.about)
        lines = [
            f"    {at_s:.3f}  {what} {name}{'' if details is None else f' {details}'}"
            for at_s, what, names, details in self._changes
            for name in ([names] if isinstance(names, str) else names)
        ]
        error.add_events([line for line in lines if re.search(about, line)][-_SHOWN:])


class Fabric:
    """Flows over the links of a topology, in the order that a flow scheduler says.

    Once ``compiled_from`` flows have been started, loops are compiled ones.  Flows that finish
    within ``together_s`` of each other finish at once: for a rough, quick answer.  From
    ``trunks_from`` open flows a node and pair of racks on, new ones join trunks (``kernel.state``).
    """

    def __init__(
        self,
        topology: Topology,
        scheduler: FlowScheduler,
        *,
        compiled_from: float = inf,
        together_s: float = 0.0,
        trunks_from: float = TRUNKS_FROM,
    ) -> None:
        self.network = network = topology.derived(Network)
        self.finished_bytes = 0  #: sizes of the flows that have finished
        policy = None if topology.ocs is None else scheduler.circuit_policy
        slots = 0 if policy is None else slots_of(topology)
        self._store = Store(network, scheduler, slots, trunks_from)
        self._open = OpenCoflows(self._store)
        self._optics: OpticalPlane | None = None
        if policy is not None:
            self._optics = OpticalPlane(topology, policy, self._store, self._open)
        self._planner = Planner(self._store, scheduler, self._open, self._optics)
        self._by_coflow = scheduler.serves is Serves.COFLOWS
        by_priority = scheduler.serves is Serves.PRIORITIES
        self._places = Places() if by_priority else None
        self._compiled_from = compiled_from
        self._together_s = together_s
        self._is_stale = False  #: whether rates must be set before time passes
        self._flows: dict[FlowId, int] = {}
        #: {flow: its name, or its number if it was started with one}
        self._names: dict[int, Any] = {}
        #: those that are registered, with what is known from before; None: it has had no flow
        self._coflows: dict[CoflowId, CoflowPast | None] = {}
        #: flows that send nothing yet, and begin to before time passes
        self._coming: dict[int, None] = {}
        #: flows with nothing to send or no limit to it; they finish before time passes
        self._instant: dict[int, None] = {}
        self._finished: list[Finished] = []  #: not reported yet
        self._active_s = self._room_bytes = 0.0  #: see ``NetworkStats``
        self._cross_rack_bytes_per_s = self.network.cross_rack_bytes_per_s(self._capacities)
        self._recent = RecentChanges()

    # What happens to it --------------------------------------------------------------------------
    def handle(self, order: Order | None, now_s: float) -> list[Finished]:
        """Let time pass until ``now_s``, then carry out the order, if there is one.

        Returns the flows that finished on the way, in order.  Those that finish at ``now_s`` are
        among them once time comes to it, or there is no order.

        Raises ``ValueError`` for an order that can't be carried out: one that names a flow, a
        coflow, a node or a link that there is not, starts what there is already, or has a figure
        out of range.  What has finished is then returned by the next call.  Raises
        ``InvariantError`` if ``now_s`` is in the past.
        """
        if order is None or now_s != self._store.now_s:
            self._advance(now_s)
        if order is not None:
            self._ACTS[type(order)](self, order)
        finished, self._finished = self._finished, []
        return finished

    def pass_time(self, now_s: float) -> None:
        """Let time pass until ``now_s``, which is before ``next_event_s()``; cheaper."""
        began_s, self._store.now_s = self._store.now_s, now_s
        if self._flows:
            self._count_time(began_s, now_s)

    # What can be asked ---------------------------------------------------------------------------
    @property
    def now_s(self) -> float:
        """The time of the last order."""
        return self._store.now_s

    @property
    def open_flows(self) -> int:
        return len(self._flows)

    @property
    def decided(self) -> int:
        """How many times rates were set; while it stays the same, so do the rates."""
        return self._planner.decided

    def next_event_s(self) -> float:
        """When the next flow ends or the scheduler is asked again; inf if neither will be."""
        self._set_rates()
        return self._store.now_s if self._instant else self._planner.next_s()

    def is_open(self, flow: FlowId) -> bool:
        return flow in self._flows

    def flows_of(self, coflow: CoflowId) -> list[FlowId]:
        names = self._names
        return [names[flow] for flow in self._store.flows_of(self._open.known(coflow))]

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """What another fabric must know of the coflows that have had flows, to go on with them."""
        ended = self._ended_bytes() if self._by_coflow else {}
        return {
            name: past._replace(ended_bytes=ended.get(name, past.ended_bytes))
            for name, past in self._coflows.items()
            if past is not None
        }

    def sent_bytes(self, flow: FlowId) -> int:
        """Whole bytes that an open flow could send by now; ``KeyError`` if it is not open."""
        self._begin()
        return int(self._store.sent_bytes(self._flows[flow]))

    def rate_bytes_per_s(self, flow: FlowId) -> float:
        """The rate at which an open flow sends; ``KeyError`` if it is not open."""
        self._set_rates()
        found = self._flows[flow]
        return inf if found in self._instant else self._store.rate_bytes_per_s(found)

    def rates_bytes_per_s(self) -> dict[FlowId, float]:
        return {flow: self.rate_bytes_per_s(flow) for flow in self._flows}

    def free_bytes_per_s(self) -> dict[str, float]:
        self._set_rates()
        load = self._store.load()
        if self._optics is not None:
            self._optics.add_to_ports(load)
        free = np.maximum(self._capacities - load[: len(self._capacities)], 0.0).tolist()
        return dict(zip(self.network.number, free, strict=True))

    def capacities_bytes_per_s(self) -> dict[str, float]:
        return dict(zip(self.network.number, self._capacities.tolist(), strict=True))

    def changed_capacities(self) -> dict[str, float]:
        """Of links that carry more or less than the topology says, what they carry, in bytes/s."""
        now, stated = self._capacities.tolist(), self.network.capacities.tolist()
        return {name: now[n] for name, n in self.network.number.items() if now[n] != stated[n]}

    def circuits(self) -> list[CircuitState]:
        """The circuits that there are now; none where the flow scheduler uses none."""
        if self._optics is None:
            return []
        self._set_rates()
        return self._optics.circuits()

    def next_ready_s(self) -> float:
        """When the first circuit that is being set up will be ready; inf if none is."""
        if self._optics is None:
            return inf
        self._set_rates()
        return self._optics.next_ready_s()

    def circuit_changes(self, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """The changes of circuits after the first ``after``, and how many there were in all."""
        if self._optics is None:
            return 0, []
        self._set_rates()
        return self._optics.changes(after)

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes that were local, rack or cross_rack, and eps, ocs and wan, the parts of cross_rack.

        There is also "client" once clients outside the racks have sent or got bytes over a link.
        """
        self._begin()
        totals = dict.fromkeys(_CATEGORIES, 0.0)
        by_route, _ = self._store.carried(list(self._flows.values()))
        for route in np.flatnonzero(by_route).tolist():
            for category in self._store.routes.between(route).counted_as:
                totals[category] = totals.get(category, 0.0) + by_route[route]
        return {category: round(total) for category, total in totals.items()}

    def bytes_by_link(self) -> dict[str, int]:
        self._begin()
        by_link = self._store.carried(list(self._flows.values()))[1].tolist()
        return dict(zip(self.network.number, map(round, by_link), strict=True))

    def stats(self, opened: int = 0, finished: int = 0, cancelled: int = 0) -> NetworkStats:
        """All that it has carried, in the format of the emulator's counters, and so many flows."""
        by_link = self.bytes_by_link()
        return NetworkStats(
            active_s=self._active_s,
            cross_rack_room_bytes=self._room_bytes,
            bytes=self.bytes_by_category(),
            cross_rack_links={name: by_link[name] for name in self.network.cross_rack},
            ports={name: by_link[name] for name in self.network.ports},
            capacities=self.changed_capacities(),
            grant_lags=(),
            cpu_samples=0,
            cpu_saturated=0,
            flows_opened=opened,
            flows_finished=finished,
            flows_cancelled=cancelled,
            flows_open=self.open_flows,
        )

    # Orders and time -----------------------------------------------------------------------------
    def _advance(self, now_s: float) -> None:
        store, was_open = self._store, bool(self._flows)
        began_s = store.now_s
        if now_s < store.now_s:
            raise InvariantError(f"the network's clock is at {store.now_s}, beyond {now_s}")
        while True:
            self._begin()
            if self._instant:
                ended, self._instant = np.array(list(self._instant), np.int32), {}
                if self._optics is not None:
                    self._optics.forget_all(ended)
                store.state.flows.sent[ended] = store.state.flows.size[ended]
                self._finish(ended, [store.now_s] * len(ended))
                self._changed()
            if self._is_stale and now_s == store.now_s:
                break
            self._set_rates()
            if self._instant:
                continue
            try:
                self._is_stale = self._planner.run(now_s, self._together_s)
            except InvariantError as error:
                self._recent.add_to(error)
                raise
            self._take_ended()
            if not self._is_stale or store.now_s >= now_s:
                break
        if was_open and now_s > began_s:
            self._count_time(began_s, now_s if self._flows else self._finished[-1].finished_s)

    def _count_time(self, began_s: float, ended_s: float) -> None:
        """Count time in which a flow was open."""
        if ended_s > began_s:
            self._active_s += ended_s - began_s
            self._room_bytes += (ended_s - began_s) * self._cross_rack_bytes_per_s

    def _start(self, order: StartFlows) -> None:
        opened: list[int] = []
        keys: list[tuple[Key, int]] = []
        try:
            for spec in order.flows:
                flow = self._add(spec, order.sent_bytes)
                opened.append(flow)
                keys.append(((spec.priority or (inf,), spec.flow), flow))
                self._recent.add((self._store.now_s, "start", spec.flow, spec))
        finally:
            self._place(keys)
            self._coming.update(dict.fromkeys(opened))

    def _start_rows(self, rows: FlowRows) -> None:
        for coflow in rows.coflows:
            self._check_registered(coflow)
        names = cast("Sequence[FlowId]", rows.names)
        if not self._flows.keys().isdisjoint(names):
            open_already = next(name for name in names if name in self._flows)
            raise ValueError(f'flow "{open_already}" is open already')
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f'flow "{twice}" is started twice')
        weights = np.ones(len(names))
        if rows.asks:
            weights[:] = [weight for weight, _ in rows.asks]
        if np.minimum.reduce(rows.size_bytes, initial=0) < 0 or not all(
            0 < weight < inf for weight, _ in rows.asks
        ):
            raise ValueError("flows: need sizes >= 0 and weights > 0")
        groups = np.array([self._open.number_of(name) for name in rows.coflows], np.int64)
        store = self._store
        flows = store.add((rows.src, rows.dst, groups[rows.coflow], rows.size_bytes, weights))
        self._names.update(zip(flows, names, strict=True))
        self._flows.update(zip(names, flows, strict=True))
        for coflow in rows.coflows:
            self._coflows[coflow] = self._coflows[coflow] or CoflowPast(store.now_s)
        self._recent.add((store.now_s, "start", names, None))
        if self._places is not None:
            priorities = [priority or (inf,) for _, priority in rows.asks] or [(inf,)] * len(flows)
            self._place(list(zip(zip(priorities, names, strict=True), flows, strict=True)))
        self._coming.update(dict.fromkeys(flows))

    def _close(self, order: CloseFlow) -> None:
        if order.flow in self._flows:
            self._cancel(order.flow)

    def _cancel(self, flow: FlowId) -> None:
        found = self._flows[flow]
        self._coming.pop(found, None)
        self._instant.pop(found, None)
        self._store.stop(found)
        closing = np.array([found], np.int32)
        if self._optics is not None:
            self._optics.forget_all(closing)
        self._recent.add((self._store.now_s, "cancel", flow, None))
        self._close_all(closing)
        self._changed()

    def _set_capacity(self, order: SetCapacity) -> None:
        link, bytes_per_s = order.link, order.bytes_per_s
        number, store = self.network.number.get(link), self._store
        if number is None:
            raise ValueError(f'"{link}" is no link of this topology')
        check_capacity(link, bytes_per_s)
        self._recent.add((store.now_s, "capacity of", link, bytes_per_s))
        self._begin()  # with the links that have limits now
        was_limited = store.is_limited[number]
        sending = store.set_capacity(number, bytes_per_s, list(self._flows.values()))
        if was_limited != store.is_limited[number]:
            if self._optics is not None:
                sending = self._optics.resend(sending)
            instant, self._instant = list(self._instant), {}
            self._send_by_packets(np.array([*sending, *instant], np.int32))
            if self._places is not None:
                store.keep(sending)
        self._cross_rack_bytes_per_s = self.network.cross_rack_bytes_per_s(self._capacities)
        if self._optics is not None:
            self._optics.limits_have_changed = True
        self._changed()

    def _register(self, order: RegisterCoflow | TakeUpCoflow) -> None:
        name = order.coflow
        if name in self._coflows:
            raise ValueError(f'coflow "{name}" is registered already')
        self._coflows[name] = None
        if isinstance(order, TakeUpCoflow):
            self._coflows[name] = order.past
            self._open.take_up(name, *order.past)

    def _finish_coflow(self, order: FinishCoflow) -> None:
        self._check_registered(order.coflow)
        for flow in self.flows_of(order.coflow):
            self._cancel(flow)
        del self._coflows[order.coflow]
        self._open.forget(order.coflow)

    _ACTS: ClassVar[dict[type, Callable[..., None]]] = {
        StartFlows: _start,
        FlowRows: _start_rows,
        CloseFlow: _close,
        RegisterCoflow: _register,
        TakeUpCoflow: _register,
        FinishCoflow: _finish_coflow,
        SetCapacity: _set_capacity,
    }

    # Inside --------------------------------------------------------------------------------------
    @property
    def _capacities(self) -> Floats:
        capacities: Floats = self._store.state.work.capacity[: len(self.network.capacities)]
        return capacities

    def _ended_bytes(self) -> dict[CoflowId, float]:
        """What flows of coflows have sent over links with limits that are not open any more."""
        names = [name for name in self._coflows if self._open.known(name) != NONE]
        numbers = np.array([self._open.known(name) for name in names], np.int32)
        going, store = np.array(list(self._flows.values()), np.int32), self._store
        of_open = np.zeros(len(store.state.groups.sent))
        limited = going[store.ways(going)[0] != NONE]
        sent = [store.sent_bytes(flow) for flow in limited.tolist()]
        np.add.at(of_open, store.state.flows.coflow[limited], sent)
        ended = np.maximum(self._open.sent_by(numbers) - of_open[numbers], 0.0)
        return dict(zip(names, ended.tolist(), strict=True))

    def _changed(self) -> None:
        """Note that the flow scheduler must be asked again before time passes."""
        self._is_stale, self._planner.holds = True, False

    def _set_rates(self) -> None:
        self._begin()
        if not self._is_stale:
            return
        if self._store.started >= self._compiled_from:
            self._store.compile()
        self._is_stale = False
        if self._optics is not None:
            by_packets = self._optics.sort_out()
            self._store.free_rows()
            self._send_by_packets(by_packets)
            self._is_stale = False
        try:
            self._planner.set_rates()
        except InvariantError as error:
            self._recent.add_to(error)
            raise
        self._instant.update(
            dict.fromkeys(self._store.take_ended().tolist())
        )  # they lacked rounding
        self._store.free_rows()

    def _add(self, spec: FlowSpec, sent_bytes: float) -> int:
        """Add a flow, which does not send yet."""
        name, size_bytes, weight = spec.flow, spec.size_bytes, spec.weight
        if spec.coflow is not None:
            self._check_registered(spec.coflow)
        if name in self._flows:
            raise ValueError(f'flow "{name}" is open already')
        if size_bytes < 0 or not 0 < weight < inf:
            raise ValueError(f'flow "{name}": need a size >= 0 and a weight > 0')
        if not 0 <= sent_bytes <= size_bytes:
            right = f"need 0 to its size, {size_bytes}"
            raise ValueError(f'flow "{name}" has sent {sent_bytes} bytes: {right}')
        src, dst = self.network.ends(spec.src, spec.dst)
        number = NONE
        if spec.coflow is not None or self._by_coflow or self._optics is not None:
            number = self._open.number_of(spec.coflow or f"flow {name}")
        columns = [src], [dst], [number], [size_bytes], [weight]
        [flow] = self._store.add(columns)
        self._names[flow], self._flows[name] = name, flow
        if sent_bytes:
            flows = self._store.view.flows
            flows.sent[flow] = flows.booked[flow] = sent_bytes
            if self._by_coflow and self._store.ways(np.array([flow], np.int32))[0][0] != NONE:
                self._store.view.groups.sent[number] += sent_bytes
        if spec.coflow is not None:
            past = self._coflows[spec.coflow]
            self._coflows[spec.coflow] = past or CoflowPast(self._store.now_s)
        return flow

    def _place(self, keys: Sequence[tuple[Key, int]]) -> None:
        """Give flows their places in the order of priorities, if there is one."""
        if self._places is not None and self._places.add(keys, self._store.state.flows.key):
            self._store.renumber()

    def _begin(self) -> None:
        """Have the flows that are to send do so."""
        if not self._coming:
            return
        coming, self._coming = np.array(list(self._coming), np.int32), {}
        if self._optics is not None:
            by_packets = self._optics.enter(coming)
            if len(by_packets) < len(coming):
                self._changed()
            coming = by_packets
        self._send_by_packets(coming)

    def _send_by_packets(self, new: Numbers) -> None:
        if not len(new):
            return
        store = self._store
        ways, idle = store.ways(new)
        if idle:  # seldom
            flows = store.state.flows
            sends = (ways != NONE) & (flows.sent[new] < flows.size[new])
            self._instant.update(dict.fromkeys(new[~sends].tolist()))
            new, ways = new[sends], ways[sends]
        if len(new):
            store.send(new, ways)
            self._changed()

    def _check_registered(self, name: CoflowId) -> None:
        if name not in self._coflows:
            raise ValueError(f'coflow "{name}" is not registered')

    def _take_ended(self) -> None:
        """Close the flows that have sent all."""
        store = self._store
        ended, flows = store.take_ended(), store.state.flows
        if not len(ended):
            return
        store.free_rows()
        if len(ended) > 1:
            ended = ended[flows.number[ended].argsort()]
            ended = ended[flows.end_s[ended].argsort(kind="stable")]
        self._finish(ended, flows.end_s[ended].tolist())

    def _finish(self, ended: Numbers, end_s: Sequence[float]) -> None:
        """Close flows that have sent all, in this order."""
        names, coflows, sent_bytes = self._close_all(ended)
        self.finished_bytes += sent_bytes
        done = list(map(Finished, names, end_s, coflows))
        if done:
            self._recent.add((end_s[-1], "finish", names, None))
        self._finished += done

    def _close_all(self, closing: Numbers) -> tuple[list[FlowId], list[CoflowId | None], int]:
        """Forget flows that send nothing; returns names, coflows, and bytes sent in all."""
        numbers = self._store.state.flows.coflow[closing].tolist()
        numbers_free, sent_bytes = self._store.close(closing)
        names = list(map(self._names.pop, numbers_free))
        if self._places is not None:
            self._places.remove(numbers_free)
        for name in names:
            del self._flows[name]
        coflows = dict[int, CoflowId | None]()
        for number in set(numbers):
            key = self._open.key_of(number)
            is_registered = key in self._coflows
            coflows[number] = cast("CoflowId", key) if is_registered else None
            if key is not None and not is_registered:
                self._open.forget(key)  # a flow of no coflow had a number by itself
        return names, [coflows[number] for number in numbers], round(sent_bytes)
