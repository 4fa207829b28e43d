"""The network as a fluid: between events, every flow sends at a constant rate.

``Fabric`` is a state machine without a clock: whoever drives it says what time it is.  The
emulator drives it with real time, a simulator from event to event; neither can be told apart
here.  It never does I/O and knows nothing of real bytes.

    fabric.advance(now_s) -> flows that finished, each with its exact time
    fabric.start(...), fabric.cancel(...), fabric.set_capacity(...)       (at fabric.now_s)
    fabric.next_event_s() -> when the next flow will finish, if nothing else happens
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cluster.errors import InvariantError
from cluster.ids import CoflowId, FlowId
from cluster.topology import Topology
from netemu.flowclasses import Flow, FlowClasses
from netemu.routes import Network, Route
from netemu.schedulers.base import Demand, Floats, FlowScheduler, FlowSpec

#: Flows that finish this close together finish at once.
_SAME_TIME_S = 1e-9
#: How far a scheduler's rates may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Finished:
    """A flow has sent all its bytes."""

    flow: FlowId
    finished_s: float


class Fabric:
    """Flows over the links of a topology, at the rates that a flow scheduler sets."""

    def __init__(self, topology: Topology, scheduler: FlowScheduler) -> None:
        self.now_s = 0.0
        self.network = Network(topology)
        self._scheduler = scheduler
        unlimited = [np.inf]  # the link that fills up short routes
        self._capacities = np.concatenate([self.network.capacities, unlimited])
        #: what all racks' links together can carry; inf if one of them is unlimited
        self.cross_rack_bytes_per_s = self._cross_rack_bytes_per_s()
        self._classes = FlowClasses(self.network.longest, filler=len(self._capacities) - 1)
        self._flows: dict[FlowId, Flow] = {}
        #: {coflow: its open flows}
        self._coflows: dict[CoflowId, dict[FlowId, None]] = {}
        #: flows with nothing to send or no link to cross; they finish before time passes
        self._instant: list[Flow] = []
        self._rates_stale = False
        self._sequence = 0
        #: bytes of flows that are no longer open: by link, and by category
        self._link_bytes = np.zeros(len(self._capacities))
        self._bytes = dict.fromkeys(("local", "rack", "cross_rack", "eps", "ocs", "wan"), 0.0)

    # What happens to it --------------------------------------------------------------------------
    def start(self, spec: FlowSpec) -> None:
        """Open a flow now.

        Raises ``ValueError`` if its name is in use, or if its nodes or its coflow do not exist.
        """
        if spec.flow in self._flows:
            raise ValueError(f'flow "{spec.flow}" is open already')
        if spec.coflow is not None and spec.coflow not in self._coflows:
            raise ValueError(f'coflow "{spec.coflow}" is not registered')
        if spec.size_bytes < 0 or not 0 < spec.weight < np.inf:
            raise ValueError(f'flow "{spec.flow}": need a size >= 0 and a weight > 0')
        route = self.network.route(spec.src, spec.dst)
        flow = Flow(spec, route, self._sequence)
        self._sequence += 1
        self._flows[spec.flow] = flow
        if spec.coflow is not None:
            self._coflows[spec.coflow][spec.flow] = None
        if spec.size_bytes == 0 or not route.links:
            self._instant.append(flow)
        else:
            self._classes.add(flow, self._scheduler.group(spec), self.now_s)
            self._rates_stale = True

    def cancel(self, flow: FlowId) -> bool:
        """Close a flow before its end; False if none of that name is open."""
        found = self._flows.get(flow)
        if found is None:
            return False
        if found in self._instant:
            self._instant.remove(found)
        else:
            found.sent_bytes = self._sent(found)
            self._classes.remove(found, self.now_s)
            self._rates_stale = True
        self._close(found)
        return True

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered."""
        if coflow in self._coflows:
            raise ValueError(f'coflow "{coflow}" is registered already')
        self._coflows[coflow] = {}

    def finish_coflow(self, coflow: CoflowId) -> list[FlowId]:
        """Forget a coflow, cancelling (and returning) flows of it that are still open.

        Raises ``ValueError`` if it is not registered.
        """
        if coflow not in self._coflows:
            raise ValueError(f'coflow "{coflow}" is not registered')
        still_open = list(self._coflows[coflow])
        for flow in still_open:
            self.cancel(flow)
        del self._coflows[coflow]
        return still_open

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity from now on; 0 stops it.  ``ValueError`` if unknown."""
        if link not in self.network.number:
            raise ValueError(f'"{link}" is no link of this topology')
        if not bytes_per_s >= 0:
            raise ValueError(f"{link} = {bytes_per_s} bytes/s: need 0 or more")
        self._classes.settle(self.now_s)
        self._capacities[self.network.number[link]] = bytes_per_s
        self.cross_rack_bytes_per_s = self._cross_rack_bytes_per_s()
        self._rates_stale = True

    def advance(self, now_s: float) -> list[Finished]:
        """Let time pass until ``now_s``; returns what finished on the way, in order.

        Raises ``InvariantError`` if ``now_s`` is in the past.
        """
        if now_s < self.now_s:
            raise InvariantError(f"the network's clock is at {self.now_s}, beyond {now_s}")
        finished: list[Finished] = []
        while (due_s := self.next_event_s()) <= now_s:
            self.now_s = due_s
            ended = self._take_instant() + self._classes.take_due(due_s, _SAME_TIME_S)
            for flow in sorted(ended, key=lambda flow: flow.sequence):
                flow.sent_bytes = float(flow.spec.size_bytes)
                self._close(flow)
                finished.append(Finished(flow.spec.flow, due_s))
            self._rates_stale = True
        self.now_s = now_s
        return finished

    # What can be seen of it ----------------------------------------------------------------------
    def next_event_s(self) -> float:
        """When the next flow finishes if nothing else happens; inf if none will."""
        self._refresh()
        if self._instant:
            return self.now_s
        return max(self.now_s, self._classes.first_finish_s)

    def is_open(self, flow: FlowId) -> bool:
        """Whether there is such a flow, and it has not finished."""
        return flow in self._flows

    @property
    def open_flows(self) -> int:
        """How many flows are open."""
        return len(self._flows)

    def sent_bytes(self, flow: FlowId) -> int:
        """Whole bytes that an open flow could send by now; ``KeyError`` if it is not open."""
        self._refresh()
        return int(self._sent(self._flows[flow]))

    def sent_bytes_of(self, flows: Iterable[FlowId]) -> list[int]:
        """Like ``sent_bytes`` of each, at less than a third of the cost."""
        self._refresh()
        progress = self._classes.progress(self.now_s)
        return [int(self._sent_at(self._flows[flow], progress)) for flow in flows]

    def rate_bytes_per_s(self, flow: FlowId) -> float:
        """The rate at which an open flow sends; ``KeyError`` if it is not open."""
        self._refresh()
        found = self._flows[flow]
        return np.inf if found in self._instant else self._classes.rate(found)

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far: local, rack, cross_rack, and the last's eps, ocs and wan."""
        totals = dict(self._bytes)
        for route, sent in self._under_way():
            for category in route.counted_as:
                totals[category] += sent
        return {category: round(total) for category, total in totals.items()}

    def bytes_by_link(self) -> dict[str, int]:
        """Bytes carried so far by each link."""
        totals = self._link_bytes.copy()
        for route, sent in self._under_way():
            totals[list(route.links)] += sent
        return {name: round(totals[number]) for name, number in self.network.number.items()}

    # Inside --------------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Have rates that fit the flows."""
        if not self._rates_stale:
            return
        self._rates_stale = False
        classes = self._classes
        demand = Demand(classes.paths, classes.weights, self._capacities)
        rates = self._scheduler.rates(demand)
        self._check(demand, rates)
        classes.set_rates(rates)

    def _check(self, demand: Demand, rates: Floats) -> None:
        """A scheduler's mistake must not become a network that carries more than it can."""
        limited = np.isfinite(self._capacities)
        finite = np.where(np.isfinite(rates), rates, 0.0) * demand.weights
        width = demand.paths.shape[1]
        used = np.bincount(demand.paths.ravel(), np.repeat(finite, width), len(self._capacities))
        over = used > self._capacities * _ROUNDING
        endless = limited[demand.paths[np.isinf(rates)]].any()
        if over.any() or endless or not (rates >= 0).all():
            names = [name for name, number in self.network.number.items() if over[number]]
            where = ", ".join(names) or "a limited link"
            raise InvariantError(f"{self._scheduler.name} set rates beyond the capacity of {where}")

    def _cross_rack_bytes_per_s(self) -> float:
        numbers = [self.network.number[name] for name in self.network.cross_rack]
        return float(self._capacities[numbers].sum())

    def _sent(self, flow: Flow) -> float:
        return self._sent_at(flow, self._classes.progress(self.now_s))

    @staticmethod
    def _sent_at(flow: Flow, progress: list[float]) -> float:
        return 0.0 if flow.group is None else flow.sent_at(progress[flow.group.row])

    def _take_instant(self) -> list[Flow]:
        taken, self._instant = self._instant, []
        return taken

    def _close(self, flow: Flow) -> None:
        del self._flows[flow.spec.flow]
        if flow.spec.coflow is not None:
            del self._coflows[flow.spec.coflow][flow.spec.flow]
        for category in flow.route.counted_as:
            self._bytes[category] += flow.sent_bytes
        for link in flow.route.links:
            self._link_bytes[link] += flow.sent_bytes

    def _under_way(self) -> list[tuple[Route, float]]:
        self._refresh()
        progress = self._classes.progress(self.now_s)
        return [(flow.route, self._sent_at(flow, progress)) for flow in self._flows.values()]
