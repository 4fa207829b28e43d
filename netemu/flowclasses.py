"""Flows that are served alike, kept as one row of arrays, and the groups of such rows.

All flows of a class have had the same service (bytes a unit of weight) since they joined, so the
class needs one number for its progress, and its flows finish in the order of the service at which
they will have had enough: an event costs O(classes) in numpy and O(log flows) in Python.

A group has the classes of one coflow (or of all flows) and a time of its own: as long as its rates
and members stay, nothing of it is touched, whatever happens elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from cluster.errors import InvariantError
from netemu.routes import Route
from netemu.schedulers.base import Floats, FlowSpec, Numbers
from netemu.schedulers.filling import load_of

#: Flows of one class whose needs differ by less finish together: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: What a class whose flows differ from finished by rounding only still has to send.
_LEAST_BYTES = 1e-6
#: The columns of a group's table.
_WEIGHT, _SERVED, _NEEDS, _RATE, _FINISH_S, _TOTAL = range(6)


@dataclass(slots=True)
class World:
    """What all groups of a network share."""

    links: int  #: how many there are, the last one standing for no link
    limits: Callable[[Route], tuple[int, ...]]  #: the links of a route that are limited
    now_s: float = 0.0
    retimed: list[FlowGroup] = field(default_factory=list)  #: groups whose rates have been set


class Flow:
    """An open flow."""

    __slots__ = (
        "belongs",
        "group",
        "joined_at",
        "more",
        "needs",
        "route",
        "sent_before",
        "sent_bytes",
        "sequence",
        "size_bytes",
        "spec",
        "weight",
    )

    def __init__(self, spec: FlowSpec, route: Route, sequence: int, belongs: FlowGroup) -> None:
        self.spec = spec
        self.route = route
        self.sequence = sequence  #: flows are numbered as they come
        self.belongs = belongs
        self.size_bytes = spec.size_bytes  #: as far as it is known
        self.more = spec.more  #: whether it will grow
        self.group: FlowClass | None = None  #: None as long as it takes part in no class
        self.weight = 0.0  #: its part of the class's service
        self.joined_at = 0.0  #: its class's service when it joined
        self.needs = 0.0  #: its class's service when it will be finished
        self.sent_before = 0.0  #: bytes sent before it joined
        self.sent_bytes = 0.0  #: known while it takes part in no class, and once it is closed

    def sent_at(self, service: float) -> float:
        """Bytes sent when its class has had that much service."""
        sent = self.sent_before + (service - self.joined_at) * self.weight
        return min(sent, float(self.size_bytes))


class FlowClass:
    """The flows of one row."""

    __slots__ = ("flows", "key", "members", "route", "row")

    def __init__(self, key: Hashable, route: Route) -> None:
        self.key = key
        self.route = route
        self.row = -1  #: none yet
        self.members = 0
        #: heap of (needs, sequence, flow); may hold entries of flows that left or grew
        self.flows: list[tuple[float, int, Flow]] = []

    def first(self) -> Flow:
        """The member that will finish first."""
        while True:
            needs, _, flow = self.flows[0]
            if flow.group is self and flow.needs == needs:
                return flow
            heapq.heappop(self.flows)


class FlowGroup:
    """All classes of a group that have flows.  Rows change places when a class ends."""

    def __init__(self, key: str, world: World) -> None:
        self.key = key
        self.arrived_s = world.now_s
        self.stale = False  #: whether its rates must be set again, as its flows have changed
        self.first_finish_s = np.inf  #: valid unless it is stale
        self.rate_bytes_per_s = 0.0
        #: bytes/s that it puts on each link
        self.load = np.zeros(world.links)
        self._world = world
        self._filler = world.links - 1
        self._by_key: dict[Hashable, FlowClass] = {}
        self._rows: list[FlowClass] = []
        self._paths: Numbers = np.empty((1, 0), dtype=np.int64)
        self._table: Floats = np.empty((6, 0))
        self._joining: list[Flow] = []
        self._settled_s = world.now_s
        self._sent_bytes = 0.0

    # What schedulers see -------------------------------------------------------------------------
    @property
    def paths(self) -> Numbers:
        """Numbers of the limited links of each class: [position, row]."""
        return self._paths[:, : len(self._rows)]

    @property
    def weights(self) -> Floats:
        """Sum of the weights of each class's flows."""
        return self._column(_WEIGHT)

    def remaining_bytes(self) -> Floats:
        """What each class has left to send."""
        self.settle()
        remaining = self._column(_TOTAL) - self._column(_SERVED) * self._column(_WEIGHT)
        return np.maximum(remaining, _LEAST_BYTES, out=remaining)

    def sent_bytes(self) -> float:
        """What all flows of the group have sent by now, those that ended included."""
        passed_s = self._world.now_s - self._settled_s
        return self._sent_bytes + (self.rate_bytes_per_s * passed_s if passed_s > 0 else 0.0)

    def set_rates(self, rates: Floats) -> None:
        """Serve at these bytes/s for each unit of weight from now on."""
        self.settle()
        if not (rates >= 0).all():
            raise InvariantError(f"rates of {self.key or 'all flows'}: need 0 or more")
        table = self._table[:, : len(self._rows)]
        bytes_per_s = rates * table[_WEIGHT]
        unlimited = np.isinf(bytes_per_s)
        if unlimited.any() and (self.paths[:, unlimited] != self._filler).any():
            raise InvariantError(f"rates of {self.key or 'all flows'}: endless on a limited link")
        table[_RATE] = rates
        needed = np.maximum(table[_NEEDS] - table[_SERVED], 0.0)
        after_s = np.divide(needed, rates, out=np.full(len(rates), np.inf), where=rates > 0)
        np.add(after_s, self._settled_s, out=table[_FINISH_S])
        self.first_finish_s = float(table[_FINISH_S].min(initial=np.inf))
        self.load = load_of(self.paths, bytes_per_s, len(self.load))
        self.rate_bytes_per_s = float(bytes_per_s.sum())
        self.stale = False
        self._world.retimed.append(self)

    # What the fabric does ------------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not self._by_key

    def add(self, flow: Flow, apart: Hashable, weight: float) -> None:
        """Let a flow that has bytes to send join the class of its route.

        It does so when ``settle`` is called: many that come at once are cheaper together.
        """
        key = (id(flow.route), apart)
        joined = self._by_key.get(key)
        if joined is None:
            joined = self._by_key[key] = FlowClass(key, flow.route)
        flow.group = joined
        flow.weight = weight
        flow.sent_before = flow.sent_bytes
        self._joining.append(flow)
        self.stale = True

    def remove(self, flow: Flow) -> None:
        """Let a flow leave its class."""
        self.settle()
        self.stale = True
        left = flow.group
        assert left is not None
        flow.sent_bytes = flow.sent_at(float(self._table[_SERVED, left.row]))
        self._leave(left, flow)
        self._after_leaving(left)

    def settle(self) -> None:
        """Account for the service until now; to be done before rates or members change."""
        now_s = self._world.now_s
        passed_s = now_s - self._settled_s
        if passed_s > 0:
            # An unlimited class has finished before time passes, so all rates are finite here.
            if self.rate_bytes_per_s:
                self._column(_SERVED)[:] += self._column(_RATE) * passed_s
                self._sent_bytes += self.rate_bytes_per_s * passed_s
            self._settled_s = now_s
        if self._joining:
            self._join()

    def quiet(self) -> None:
        """Note that it has nothing to send."""
        self.settle()
        self.stale = False
        self.first_finish_s = np.inf
        self.rate_bytes_per_s = 0.0
        self.load = np.zeros(len(self.load))

    def take_due(self, slack_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all now, or within ``slack_s`` from now."""
        rows = self._rows
        due = [
            (rows[row], bool(np.isinf(self._table[_RATE, row])))
            for row in np.flatnonzero(self._column(_FINISH_S) <= self._world.now_s + slack_s)
        ]
        if np.isinf(self.rate_bytes_per_s):  # unlimited classes finish without taking time
            rates = self._column(_RATE)
            rates[np.isinf(rates)] = 0.0
            self.rate_bytes_per_s = float((rates * self.weights).sum())
        self.settle()
        taken: list[Flow] = []
        for group, unlimited in due:
            taken += self._take(group, np.inf if unlimited else slack_s)
        return taken

    def service(self) -> list[float]:
        """The service of each class by now, by row."""
        passed_s = self._world.now_s - self._settled_s
        served = self._column(_SERVED)
        if passed_s > 0:  # 0 s at an unlimited rate would be no number
            served = served + self._column(_RATE) * passed_s
        service: list[float] = served.tolist()
        return service

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        if flow.group is None:
            return flow.sent_bytes
        row = flow.group.row
        served, passed_s = float(self._table[_SERVED, row]), self._world.now_s - self._settled_s
        if passed_s > 0:
            served += float(self._table[_RATE, row]) * passed_s
        return flow.sent_at(served)

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        return (
            0.0 if flow.group is None else float(self._table[_RATE, flow.group.row]) * flow.weight
        )

    def limits_changed(self) -> None:
        """Find each class's limited links anew."""
        self.stale = True
        if self._rows:
            self._set_paths(self._rows)

    # Inside --------------------------------------------------------------------------------------
    def _take(self, group: FlowClass, slack_s: float) -> list[Flow]:
        """Remove the members that finish along with the class's first."""
        table, row = self._table, group.row
        self.stale = True
        first = group.first()
        # exactly where its first flow finishes, so that rounding never piles up
        table[_SERVED, row] = max(float(table[_SERVED, row]), first.needs)
        enough = np.inf
        if slack_s < np.inf:
            enough = first.needs * _ROUNDING + float(table[_RATE, row]) * slack_s
        taken: list[Flow] = []
        while group.members and (flow := group.first()).needs <= enough:
            heapq.heappop(group.flows)
            flow.sent_bytes = float(flow.size_bytes)
            self._leave(group, flow)
            taken.append(flow)
        self._after_leaving(group)
        return taken

    def _leave(self, left: FlowClass, flow: Flow) -> None:
        flow.group = None
        left.members -= 1
        if left.members:
            self._table[_WEIGHT, left.row] -= flow.weight
            self._table[_TOTAL, left.row] -= flow.weight * flow.needs

    def _after_leaving(self, left: FlowClass) -> None:
        if left.members:
            self._table[_NEEDS, left.row] = left.first().needs
        else:
            self._end_class(left)

    def _join(self) -> None:
        """Let the flows that have been added take their rows."""
        joining, self._joining = self._joining, []
        fresh: list[FlowClass] = []
        first_row = len(self._rows)
        for flow in joining:
            joined = flow.group
            assert joined is not None
            remaining = flow.size_bytes - flow.sent_before
            if joined.row < 0:
                joined.row = first_row + len(fresh)
                fresh.append(joined)
            if joined.row >= first_row:
                flow.joined_at = 0.0
                flow.needs = remaining / flow.weight
            else:
                row = joined.row
                flow.joined_at = float(self._table[_SERVED, row])
                flow.needs = flow.joined_at + remaining / flow.weight
                self._table[_WEIGHT, row] += flow.weight
                self._table[_TOTAL, row] += flow.weight * flow.needs
                self._table[_NEEDS, row] = min(float(self._table[_NEEDS, row]), flow.needs)
            joined.members += 1
            heapq.heappush(joined.flows, (flow.needs, flow.sequence, flow))
        if fresh:
            self._add_rows(fresh)

    def _add_rows(self, fresh: list[FlowClass]) -> None:
        first_row = len(self._rows)
        self._rows += fresh
        while len(self._rows) > self._table.shape[1]:
            self._grow()
        new = self._table[:, first_row : len(self._rows)]
        new[:] = 0.0
        flows = [[entry[2] for entry in flow_class.flows] for flow_class in fresh]
        new[_WEIGHT] = [sum(flow.weight for flow in of_class) for of_class in flows]
        new[_TOTAL] = [sum(flow.weight * flow.needs for flow in of_class) for of_class in flows]
        new[_NEEDS] = [flow_class.flows[0][0] for flow_class in fresh]
        self._set_paths(fresh)

    def _set_paths(self, classes: list[FlowClass]) -> None:
        """Note which limited links these classes, whose rows follow one another, cross."""
        limits = [self._world.limits(flow_class.route) for flow_class in classes]
        most = max(len(links) for links in limits)
        if most > len(self._paths):
            more = np.full((most - len(self._paths), self._paths.shape[1]), self._filler)
            self._paths = np.concatenate([self._paths, more])
        new = self._paths[:, classes[0].row : classes[0].row + len(classes)]
        new[:] = self._filler
        if all(len(links) == most for links in limits):
            new[:most] = np.array(limits, dtype=np.int64).reshape(len(limits), most).T
        else:
            for row, links in enumerate(limits):
                new[: len(links), row] = links

    def _end_class(self, ended: FlowClass) -> None:
        """Forget a class; the last row moves to its place."""
        del self._by_key[ended.key]
        last = self._rows.pop()
        if last is not ended:
            self._paths[:, ended.row] = self._paths[:, last.row]
            self._table[:, ended.row] = self._table[:, last.row]
            self._rows[ended.row] = last
            last.row = ended.row

    def _grow(self) -> None:
        room = max(4, self._table.shape[1])
        self._table = np.concatenate([self._table, np.empty((6, room))], axis=1)
        more = np.full((len(self._paths), room), self._filler)
        self._paths = np.concatenate([self._paths, more], axis=1)

    def _column(self, number: int) -> Floats:
        return self._table[number, : len(self._rows)]
