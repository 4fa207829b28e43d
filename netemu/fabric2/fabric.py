"""The network as a fluid: between events, every flow sends at a constant rate."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.netemu.circuits2.plane import OpticalPlane, slots_of
from railyard.netemu.fabric2.places import Key, Places
from railyard.netemu.fabric2.planning import Planner
from railyard.netemu.fabric2.store import Store
from railyard.netemu.kernel.state import NONE
from railyard.netemu.model.circuits import CircuitChange, CircuitState
from railyard.netemu.model.flows import Coflow, Finished, FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.network import Network, check_capacity
from railyard.netemu.schedulers.newbase import FlowScheduler, Serves

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")


class Fabric:
    """Flows over the links of a topology, in the order that a flow scheduler says."""

    def __init__(
        self,
        topology: Topology,
        scheduler: FlowScheduler,
        *,
        has_circuit_log: bool = True,
        **_: Any,
    ) -> None:
        self.network = network = topology.derived(Network)
        self.together_s = 0.0
        self.finished_bytes = 0
        policy = scheduler.circuit_policy
        has_circuits = policy is not None and topology.ocs is not None
        self._store = Store(network, scheduler, slots_of(topology) if has_circuits else 0)
        self._planner = Planner(self._store, scheduler)
        self._stale = False
        self._flows: dict[FlowId, int] = {}
        self._coflows: dict[CoflowId, Coflow] = {}
        self._numbers: dict[str, int] = {}  #: {coflow, or flow without one: its number}
        self._keys: list[str | None] = []  #: [number]
        self._arrived_s: list[float] = []
        self._free: list[int] = []
        self._instant: dict[int, None] = {}
        self._sequence = 0
        self._order: list[int] = []  #: [flow]: flows are numbered as they come
        self.compile_from = 2000.0
        self._optics: OpticalPlane | None = None
        if has_circuits and policy is not None:
            self._optics = OpticalPlane(
                topology, policy, self._store, self._keys, has_log=has_circuit_log
            )
            self._planner.optics = self._optics
        by_priority = scheduler.serves is Serves.PRIORITIES
        self._places = Places(self._is_that) if by_priority else None

    def _is_that(self, key: Key, flow: int) -> bool:
        return self._flows.get(key[1]) == flow

    # What happens to it --------------------------------------------------------------------------
    def start(self, spec: FlowSpec) -> None:
        """Open a flow now."""
        self.start_all((spec,))

    def start_all(self, specs: Iterable[FlowSpec]) -> None:
        """Open flows now, in this order."""
        store, names, find_route = self._store, self._flows, self.network.route
        optics = self._optics
        new: list[int] = []
        crossing: list[int] = []
        groups: list[int] = []
        keys: list[tuple[Key, int]] = []
        try:
            for spec in specs:
                name, size_bytes, weight = spec.flow, spec.size_bytes, spec.weight
                coflow = None if spec.coflow is None else self._registered(spec.coflow)
                if name in names:
                    raise ValueError(f'flow "{name}" is open already')
                if size_bytes < 0 or not 0 < weight < inf:
                    raise ValueError(f'flow "{name}": need a size >= 0 and a weight > 0')
                route = store.route_number(find_route(spec.src, spec.dst))
                if optics is not None:
                    optics.note_route(route)
                number = self._number_of(spec)
                flow = store.add(name, number, route, size_bytes, weight)
                if spec.more:
                    store.view.flows.more[flow] = True
                names[name] = flow
                if self._places is not None:
                    keys.append(((spec.priority or (inf,), name), flow))
                while len(self._order) <= flow:
                    self._order.append(0)
                self._order[flow] = self._sequence
                self._sequence += 1
                if coflow is not None:
                    coflow.flows[name] = None
                    if coflow.started_s is None:
                        coflow.started_s = store.now_s
                if size_bytes and optics is not None and optics.takes(route):
                    crossing.append(flow)
                elif size_bytes and store.is_limited(route):
                    new.append(flow)
                    groups.append(number if store.serves is Serves.COFLOWS else 0)
                elif not spec.more:
                    self._instant[flow] = None
        finally:
            if self._places is not None:
                if self._places.add(keys, store.state.flows.key, len(names)):
                    store.renumber()
            if new:
                store.send(new, groups)
                self._changed()
            if crossing and optics is not None:
                optics.enter(crossing)
                self._changed()

    def grow(self, flow: FlowId, by_bytes: int, more: bool) -> None:
        """Add bytes to an open flow."""
        found = self._flows.get(flow)
        if found is None:
            raise ValueError(f'flow "{flow}" is not open')
        flows = self._store.view.flows
        if not flows.more[found]:
            raise ValueError(f'flow "{flow}" is complete: it was not started with "more"')
        if by_bytes < 0:
            raise ValueError(f'flow "{flow}" grows by {by_bytes} bytes: need 0 or more')
        self._store.stop([found])
        flows.size[found] += by_bytes
        flows.more[found] = more
        self._send(found)
        self._changed()

    def cancel(self, flow: FlowId) -> bool:
        """Close a flow before its end; False if none of that name is open."""
        found = self._flows.pop(flow, None)
        if found is None:
            return False
        self._instant.pop(found, None)
        self._store.stop([found])
        if self._optics is not None:
            self._optics.forget(found)
        number = self._store.view.flows.coflow[found]
        self._store.close(found)
        key = self._keys[number] if number != NONE else None
        if key in self._coflows:
            del self._coflows[key].flows[flow]
        elif key is not None:
            self._forget(key)
        self._changed()
        return True

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered."""
        if coflow in self._coflows:
            raise ValueError(f'coflow "{coflow}" is registered already')
        self._coflows[coflow] = Coflow()

    def finish_coflow(self, coflow: CoflowId) -> list[FlowId]:
        """Forget a coflow, cancelling (and returning) flows that are still open."""
        if coflow not in self._coflows:
            raise ValueError(f'coflow "{coflow}" is not registered')
        still_open = list(self._coflows[coflow].flows)
        for flow in still_open:
            self.cancel(flow)
        del self._coflows[coflow]
        if coflow in self._numbers:
            self._forget(coflow)
        return still_open

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity from now on; 0 stops it.  ``ValueError`` if unknown."""
        if link not in self.network.number:
            raise ValueError(f'"{link}" is no link of this topology')
        check_capacity(link, bytes_per_s)
        number, capacity = self.network.number[link], self._store.state.work.capacity
        was_limited, capacity[number] = np.isfinite(capacity[number]), bytes_per_s
        if was_limited != np.isfinite(bytes_per_s):
            kept = self._store.set_limits(capacity)
            packets = list(kept) if self._optics is None else self._optics.resend(list(kept))
            going = [*packets, *self._instant]
            self._instant.clear()
            for flow in going:
                self._send_by_packets(flow)
            if self._places is not None:
                self._store.keep(kept)
        if self._optics is not None:
            self._optics.limits_changed()
        self._changed()

    def advance(self, now_s: float) -> list[Finished]:
        """Let time pass until ``now_s``; returns what finished on the way, in order."""
        store = self._store
        if now_s < store.now_s:
            raise InvariantError(f"the network's clock is at {store.now_s}, beyond {now_s}")
        finished: list[Finished] = []
        while True:
            if self._instant:
                ended, self._instant = list(self._instant), {}
                for flow in ended if self._optics is not None else ():
                    self._optics.forget(flow)
                finished += self._finish(ended, store.now_s)
                self._changed()
            if now_s == store.now_s and self._stale:
                break
            self._refresh()
            if self._instant:
                continue
            self._stale = self._planner.run(now_s, self.together_s)
            if store.view.work.counts[1]:
                ended = store.take_ended().tolist()
                store.clear_freed()
                finished += self._finish(ended, None)
            if store.now_s >= now_s or not self._stale:
                break
        return finished

    # What can be seen ----------------------------------------------------------------------------
    @property
    def now_s(self) -> float:
        """The time of the last ``advance``."""
        return self._store.now_s

    @property
    def open_flows(self) -> int:
        """How many flows are open."""
        return len(self._flows)

    @property
    def decided(self) -> int:
        """How many times rates were set."""
        return self._planner.decided

    def next_event_s(self) -> float:
        """When the next flow ends or the scheduler wants to decide again; inf if neither will."""
        if self._instant:
            return self._store.now_s
        self._refresh()
        return self._store.now_s if self._instant else self._planner.next_s()

    def sent_bytes(self, flow: FlowId) -> int:
        """Whole bytes that an open flow could send by now; ``KeyError`` if it is not open."""
        return int(self._store.loops.rows.sent_by(self._flows[flow], self.now_s, self._store.run_on))

    def rate_bytes_per_s(self, flow: FlowId) -> float:
        """The rate at which an open flow sends; ``KeyError`` if it is not open."""
        self._refresh()
        found = self._flows[flow]
        if found in self._instant:
            return inf
        state = self._store.view
        row = state.flows.row[found]
        return 0.0 if row == NONE else state.rows.rate[row] * state.flows.weight[found]

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far."""
        totals = dict.fromkeys(_CATEGORIES, 0.0)
        for route, sent in zip(self._store.routes, self._carried().tolist()):
            for category in route.counted_as if sent else ():
                totals[category] = totals.get(category, 0.0) + sent
        return {category: round(total) for category, total in totals.items()}

    def bytes_by_link(self) -> dict[str, int]:
        """Bytes carried so far by each link."""
        totals = np.zeros(len(self.network.capacities))
        for route, sent in zip(self._store.routes, self._carried().tolist()):
            for link in route.links if sent else ():
                totals[link] += sent
        return {name: round(totals[number]) for name, number in self.network.number.items()}

    def circuits(self) -> list[CircuitState]:
        """All circuits, by the rack that sends."""
        self._refresh()
        return [] if self._optics is None else self._optics.circuits()

    def next_lit_s(self) -> float:
        """When the first circuit that is dark will carry; inf if none is dark."""
        self._refresh()
        return inf if self._optics is None else self._optics.next_ready_s()

    def circuit_changes(self, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """How many changes of circuits there have been, and those after the first ``after``."""
        self._refresh()
        return (0, []) if self._optics is None else self._optics.changes(after)

    # Inside --------------------------------------------------------------------------------------
    def _carried(self) -> Any:
        store = self._store
        carried = store.state.work.carried[: len(store.routes)].copy()
        for flow in self._flows.values():
            sent = store.loops.rows.sent_by(flow, self.now_s, store.run_on)
            carried[store.view.flows.route[flow]] += sent - store.view.flows.booked[flow]
        return carried

    def _changed(self) -> None:
        self._stale, self._planner.has_plan = True, False

    def _refresh(self) -> None:
        if self._stale:
            if len(self._flows) >= self.compile_from and self._store.run_on is self._store.view:
                self._store.compile()
            if self._optics is not None:
                packets = self._optics.sort_out()
                self._store.clear_freed()
                for flow in packets:
                    self._send_by_packets(flow)
            self._stale = False
            self._planner.set_rates()

    def _registered(self, name: CoflowId) -> Coflow:
        coflow = self._coflows.get(name)
        if coflow is None:
            raise ValueError(f'coflow "{name}" is not registered')
        return coflow

    def _number_of(self, spec: FlowSpec) -> int:
        """The number of a flow's coflow; where coflows are served, one without has its own."""
        if spec.coflow is not None:
            key: str = spec.coflow
        elif self._store.serves is Serves.COFLOWS or self._optics is not None:
            key = f"flow {spec.flow}"
        else:
            return NONE
        number = self._numbers.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._keys[number], self._arrived_s[number] = key, self.now_s
            else:
                number = len(self._keys)
                self._keys.append(key)
                self._arrived_s.append(self.now_s)
            self._numbers[key] = number
            if self._store.serves is Serves.COFLOWS:
                self._store._grow(groups=number + 1)
                groups = self._store.view.groups
                groups.sent[number], groups.rate[number], groups.since_s[number] = 0.0, 0.0, self.now_s
                self._planner.coflows.add(number, key, self.now_s)
        return number

    def _forget(self, key: str) -> None:
        number = self._numbers.pop(key)
        if self._store.serves is Serves.COFLOWS:
            self._store.loops.rows.close_group(number, self._store.run_on)
            self._planner.coflows.drop(number, key, self._arrived_s[number])
        self._keys[number] = None
        self._free.append(number)
        self._changed()

    def _send(self, flow: int) -> None:
        flows, optics = self._store.view.flows, self._optics
        if optics is not None and optics.takes(flows.route[flow]):
            if flows.size[flow] > flows.sent[flow]:
                optics.enter([flow])
                return
            optics.forget(flow)
        self._send_by_packets(flow)

    def _send_by_packets(self, flow: int) -> None:
        flows = self._store.view.flows
        if flows.size[flow] > flows.sent[flow] and self._store.is_limited(flows.route[flow]):
            number = flows.coflow[flow]
            self._store.send([flow], [number if self._store.serves is Serves.COFLOWS else 0])
        elif not flows.more[flow]:
            self._instant[flow] = None

    def _finish(self, ended: list[int], at_s: float | None) -> list[Finished]:
        store, view, finished = self._store, self._store.view, list[Finished]()
        order = self._order
        if at_s is None:
            ended = [flow for flow in ended if not view.flows.more[flow]]
            ended.sort(key=lambda flow: (view.flows.end_s[flow], order[flow]))
        for flow in ended:
            name, number = store.names[flow], view.flows.coflow[flow]
            end_s = view.flows.end_s[flow] if at_s is None else at_s
            view.flows.sent[flow] = view.flows.size[flow]
            key = self._keys[number] if number != NONE else None
            coflow = self._coflows.get(key)
            store.close(flow)
            del self._flows[name]
            self.finished_bytes += int(view.flows.size[flow])
            if coflow is not None:
                del coflow.flows[name]
                coflow.finished_s = end_s
            elif key is not None:
                self._forget(key)
            finished.append(Finished(name, end_s, key if coflow is not None else None))
        return finished
