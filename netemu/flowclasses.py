"""Flows that are served alike, kept as one row of arrays.

All flows of a class have had the same service (bytes a unit of weight) since they joined, so the
class needs one number for its progress, and its flows finish in the order of the service at which
they will have had enough: an event costs O(classes) in numpy and O(log flows) in Python.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable

import numpy as np

from netemu.routes import Route
from netemu.schedulers.base import Floats, FlowSpec, Numbers

#: Flows of one class whose needs differ by less finish together: they differ by rounding only.
_ROUNDING = 1 + 1e-12


class Flow:
    """An open flow."""

    __slots__ = ("group", "joined_at", "needs", "route", "sent_bytes", "sequence", "spec")

    def __init__(self, spec: FlowSpec, route: Route, sequence: int) -> None:
        self.spec = spec
        self.route = route
        self.sequence = sequence  #: flows are numbered as they come
        self.group: FlowClass | None = None  #: None as long as it takes part in no class
        self.joined_at = 0.0  #: its class's service when it joined
        self.needs = 0.0  #: its class's service when it will be finished
        self.sent_bytes = 0.0  #: known once it is closed

    def sent_at(self, service: float) -> float:
        """Bytes sent when its class has had that much service."""
        return min((service - self.joined_at) * self.spec.weight, float(self.spec.size_bytes))


class FlowClass:
    """The flows of one row."""

    __slots__ = ("flows", "key", "members", "row")

    def __init__(self, key: Hashable, row: int) -> None:
        self.key = key
        self.row = row
        self.members = 0
        #: heap of (needs, sequence, flow); may hold flows that left
        self.flows: list[tuple[float, int, Flow]] = []

    def first(self) -> Flow:
        """The member that will finish first."""
        while self.flows[0][2].group is not self:
            heapq.heappop(self.flows)
        return self.flows[0][2]


class FlowClasses:
    """All classes that have flows.  Rows are dense and change places when a class ends."""

    def __init__(self, longest_route: int, filler: int) -> None:
        self._filler = filler
        self._by_key: dict[Hashable, FlowClass] = {}
        self._rows: list[FlowClass] = []
        self._paths = np.empty((0, longest_route), dtype=np.int64)
        #: one column for each of the class's numbers
        self._numbers = np.empty((5, 0))
        self._settled_s = 0.0
        self.first_finish_s = np.inf  #: valid from ``set_rates`` until something changes

    @property
    def paths(self) -> Numbers:
        """Link numbers of each class."""
        return self._paths[: len(self._rows)]

    @property
    def weights(self) -> Floats:
        """Sum of the weights of each class's flows."""
        return self._column(0)

    @property
    def _served(self) -> Floats:
        """Each class's service at ``_settled_s``."""
        return self._column(1)

    @property
    def _needs(self) -> Floats:
        """The service at which each class's next flow finishes."""
        return self._column(2)

    @property
    def _rates(self) -> Floats:
        return self._column(3)

    @property
    def _finish_s(self) -> Floats:
        """When each class's next flow finishes."""
        return self._column(4)

    def add(self, flow: Flow, group: Hashable, now_s: float) -> None:
        """Let a flow of at least one byte join the class of its route and group."""
        self.settle(now_s)
        key = (flow.route.links, group)
        joined = self._by_key.get(key) or self._new_class(key, flow.route)
        row = joined.row
        flow.group = joined
        flow.joined_at = float(self._served[row])
        flow.needs = flow.joined_at + flow.spec.size_bytes / flow.spec.weight
        heapq.heappush(joined.flows, (flow.needs, flow.sequence, flow))
        joined.members += 1
        self.weights[row] += flow.spec.weight
        self._needs[row] = joined.first().needs

    def remove(self, flow: Flow, now_s: float) -> None:
        """Let a flow leave its class."""
        self.settle(now_s)
        left = flow.group
        assert left is not None
        flow.group = None
        left.members -= 1
        if left.members == 0:
            self._end_class(left)
        else:
            self.weights[left.row] -= flow.spec.weight
            self._needs[left.row] = left.first().needs

    def settle(self, now_s: float) -> None:
        """Account for the service until now; to be done before rates or members change."""
        if now_s > self._settled_s:
            # An unlimited class has finished before time passes, so all rates are finite here.
            self._served[:] += self._rates * (now_s - self._settled_s)
        self._settled_s = now_s

    def set_rates(self, rates: Floats) -> None:
        """Serve at these rates from the time of the last ``settle`` on."""
        self._rates[:] = rates
        needed = np.maximum(self._needs - self._served, 0.0)
        after_s = np.divide(needed, rates, out=np.full(len(rates), np.inf), where=rates > 0)
        self._finish_s[:] = self._settled_s + after_s
        self.first_finish_s = float(self._finish_s.min()) if len(rates) else np.inf

    def take_due(self, now_s: float, slack_s: float) -> list[Flow]:
        """Remove and return the flows that finish now, or within ``slack_s`` from now."""
        due = [
            (self._rows[row], bool(np.isinf(self._rates[row])))
            for row in np.flatnonzero(self._finish_s <= now_s + slack_s)
        ]
        self._rates[np.isinf(self._rates)] = 0.0  # unlimited classes finish without taking time
        self.settle(now_s)
        taken: list[Flow] = []
        for group, unlimited in due:
            taken += self._take(group, np.inf if unlimited else slack_s)
        return taken

    def progress(self, now_s: float) -> list[float]:
        """The service of each class by now, by row."""
        passed_s = now_s - self._settled_s
        served = self._served
        if passed_s > 0:  # 0 s at an unlimited rate would be no number
            served = served + self._rates * passed_s
        service: list[float] = served.tolist()
        return service

    def rate(self, flow: Flow) -> float:
        """Bytes/s of a member."""
        assert flow.group is not None
        return float(self._rates[flow.group.row]) * flow.spec.weight

    # Inside --------------------------------------------------------------------------------------
    def _take(self, group: FlowClass, slack_s: float) -> list[Flow]:
        """Remove the members that finish along with the class's first."""
        row = group.row
        first = group.first()
        # exactly where its first flow finishes, so that rounding never piles up
        self._served[row] = max(float(self._served[row]), first.needs)
        enough = np.inf
        if slack_s < np.inf:
            enough = first.needs * _ROUNDING + float(self._rates[row]) * slack_s
        taken: list[Flow] = []
        while group.members and group.first().needs <= enough:
            flow = heapq.heappop(group.flows)[2]
            flow.group = None
            group.members -= 1
            self.weights[row] -= flow.spec.weight
            taken.append(flow)
        if group.members:
            self._needs[row] = group.first().needs
        else:
            self._end_class(group)
        return taken

    def _new_class(self, key: Hashable, route: Route) -> FlowClass:
        row = len(self._rows)
        if row == len(self._paths):
            self._grow()
        made = FlowClass(key, row)
        self._rows.append(made)
        self._by_key[key] = made
        self._paths[row] = self._filler
        self._paths[row, : len(route.links)] = route.links
        self._numbers[:, row] = 0.0
        return made

    def _end_class(self, ended: FlowClass) -> None:
        """Forget a class; the last row moves to its place."""
        del self._by_key[ended.key]
        last = self._rows.pop()
        if last is not ended:
            self._paths[ended.row] = self._paths[last.row]
            self._numbers[:, ended.row] = self._numbers[:, last.row]
            self._rows[ended.row] = last
            last.row = ended.row

    def _grow(self) -> None:
        room = max(16, len(self._paths))
        self._paths = np.concatenate([self._paths, np.empty((room, self._paths.shape[1]), int)])
        self._numbers = np.concatenate(
            [self._numbers, np.empty((len(self._numbers), room))], axis=1
        )

    def _column(self, number: int) -> Floats:
        return self._numbers[number, : len(self._rows)]
