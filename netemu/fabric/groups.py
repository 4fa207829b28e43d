"""Groups of classes of flows: those of one coflow, or all; one row of arrays for each class.

A group has a time of its own: as long as its rates and members stay, nothing of it is touched,
whatever happens elsewhere.  An event costs O(classes) in numpy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers, floats
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import Path, crossed, load_of
from railyard.netemu.model.openflows import ROUNDING, Flow, FlowClass
from railyard.netemu.model.rows import (
    COLUMNS,
    FINISH_S,
    NEEDS,
    RATE,
    SERVED,
    SINCE_S,
    TOTAL,
    WEIGHT,
    RowTable,
)

#: What a class whose flows differ from finished by rounding only still has to send.
_LEAST_BYTES = 1e-6
#: What rows that have ended and stay have in which columns.
_CLEARED = np.array([[WEIGHT], [SERVED], [RATE], [TOTAL], [FINISH_S]])
_CLEAR = np.array([[0.0], [0.0], [0.0], [0.0], [np.inf]])
#: Up to this share of the rows, only those whose rates change are touched,
_FEW = 0.25
#: so many times at most, and then all: rounding must not pile up.
_FEW_TIMES = 1000


class FlowGroup:
    """All classes of a group that have flows."""

    circuit_bytes_per_s = np.inf  #: it goes by packets

    def __init__(self, key: str, context: GroupContext) -> None:
        self.key = key
        self.arrived_s = context.now_s
        self.stale = False  #: whether its rates must be set or kept, as its flows have changed
        self.only_ended = True
        self.first_finish_s = np.inf  #: valid unless it is stale
        self.rate_bytes_per_s = 0.0
        #: bytes/s that it puts on each link
        self.load = np.zeros(context.links)
        self._context = context
        #: by links; where the scheduler tells flows of one route class_key, by both
        self._by_key: dict[Hashable, FlowClass] = {}
        self._classes: list[FlowClass] = []  #: by row
        self.rows = RowTable(len(COLUMNS), filler=context.links - 1)
        self.layout = 0  #: another number whenever rows have other numbers than before
        self._ended: list[Numbers] = []  #: rows that have ended and stay
        self._coming: list[Flow] = []  #: those that have no class yet
        self._few_times = 0  #: rates may be set so often before all are summed up anew
        self._those_sending: Numbers | None = None  #: their rows, if they are known
        self._sent_bytes = 0.0
        self._sent_s = context.now_s  #: the above is known as of then

    # What schedulers see -------------------------------------------------------------------------
    @property
    def as_group(self) -> FlowGroup:
        """Itself: flow schedulers set its rates."""
        return self

    @property
    def as_rows(self) -> FlowGroup:
        """Itself: it has rows of arrays."""
        return self

    @property
    def paths(self) -> Numbers:
        """Numbers of the limited links of each class: [position, row]."""
        return self.rows.paths

    @property
    def crossed(self) -> int:
        """The links on these paths, as bits."""
        return crossed(self.rows.paths, self._context.links)

    @property
    def weights(self) -> Floats:
        """Sum of the weights of each class's flows."""
        return self.rows.column(WEIGHT)

    @property
    def rates(self) -> Floats:
        """Bytes/s for each unit of weight."""
        return self.rows.column(RATE)

    def class_key(self, row: int) -> Any:
        """What tells a row's flows class_key from others on their route."""
        return self._classes[row].class_key

    def remaining_bytes(self, rows: Numbers | slice = slice(None)) -> Floats:
        """What each class, or each of those of these rows, has left to send."""
        remaining = self._served(rows)
        remaining *= self.weights[rows]
        np.subtract(self.rows.column(TOTAL)[rows], remaining, out=remaining)
        return np.maximum(remaining, _LEAST_BYTES, out=remaining)

    def sent_bytes(self) -> float:
        """What all flows of the group have sent by now, those that ended included."""
        passed_s = self._context.now_s - self._sent_s
        return self._sent_bytes + (self.rate_bytes_per_s * passed_s if passed_s > 0 else 0.0)

    def set_rates(self, rates: Floats) -> None:
        """Serve at these bytes/s for each unit of weight from now on."""
        rows = np.flatnonzero(rates != self.rates)
        new = rates[rows]
        self._check(rows, new)
        if self._few_times and len(rows) <= len(rates) * _FEW and not np.isinf(new).any():
            self._few_times -= 1
            self._set_few(rows, new)
        else:
            self._set_all(rates)
        self._rates_fit()

    def timed(
        self,
        bytes_per_s: float,
        first_finish_s: float,
        load: Floats,
        sending: Numbers | None = None,
    ) -> None:
        """Note that its rows have been given rates, and what comes of them.

        If they are told, only the rows that are ``sending`` will be looked at when some are due.
        """
        self._set_total(bytes_per_s)
        self._those_sending = sending
        self.first_finish_s = first_finish_s
        self.load = load
        self._few_times = 0  # they may have been given unlimited ones
        self._is_set()

    # What the fabric does ------------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not (self._by_key or self._coming)

    def add(self, flow: Flow) -> None:
        """Let a flow that has bytes to send join the class of its route.

        It does so when ``admit`` is called: many that come at once are cheaper together.
        """
        self._coming.append(flow)
        self.stale = True
        self.only_ended = False

    def admit(self) -> None:
        """Let the flows that have been added join classes, and take rows."""
        if not self._coming:
            return
        coming, self._coming = self._coming, []
        by_key, row = self._by_key, len(self._classes)
        first_row = row
        fresh: list[FlowClass] = []
        crowded: list[FlowClass] = []  # those of them that more than one flow joins
        joining: list[Flow] = []
        for flow in coming:
            route, class_key = flow.route, flow.class_key
            key = route.path if class_key == () else (route.path, class_key)
            joined = by_key.get(key)
            if flow.sent_bytes or flow.joined_at:  # most are new
                flow.sent_before, flow.joined_at = flow.sent_bytes, 0.0
            if joined is None:
                joined = by_key[key] = FlowClass(route, class_key, row, key, flow, 1)
                flow.flow_class = joined
                fresh.append(joined)
                row += 1
                continue
            flow.flow_class = joined
            if joined.only is not None:
                _note_needs(joined.only)
            if joined.row < first_row:
                joining.append(flow)
                continue
            _note_needs(flow)
            joined.join(flow)
            crowded.append(joined)
        if joining:
            self._admit_to_rows(joining)
        if fresh:
            self._add_rows(fresh, crowded)

    def remove(self, flow: Flow) -> None:
        """Let a flow leave its class."""
        self.admit()
        self.stale = True
        self.only_ended = False
        left = flow.flow_class
        assert left is not None
        flow.sent_bytes = flow.sent_at(self._settle(left.row))
        left.release(flow)
        if left.members:
            self._change_rows([(left, -flow.weight, -flow.weight * flow.needs)])
        else:
            del self._by_key[left.known_by]
            self._drop(np.array([left.row]))

    def quiet(self) -> None:
        """Note that it has nothing to send."""
        self._set_total(0.0)
        self.stale = False
        self.first_finish_s = np.inf
        self.load = np.zeros(len(self.load))

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all now, or will have by then.

        It is not noted of those that nobody will ask: that are complete, and never wanted circuits.
        """
        due = self._due(by_s)
        self.stale = True
        taken: list[Flow] = []
        stay: list[int] = []
        fewer: list[tuple[FlowClass, float, float]] = []
        classes, by_key = self._classes, self._by_key
        for row in due.tolist():
            flow_class = classes[row]
            flow = flow_class.only
            if flow is not None:  # as most are: like ``take``, without a call
                flow_class.only = None
                taken.append(flow)
            else:
                some = self._take_some(flow_class, float(self.rates[row]), by_s)
                taken += some
                if flow_class.members:
                    weight = sum(flow.weight for flow in some)
                    total = sum(flow.weight * flow.needs for flow in some)
                    fewer.append((flow_class, -weight, -total))
                    stay.append(row)
                    continue
            del by_key[flow_class.known_by]
        for flow in taken:
            if flow.more or flow.pair is not None:
                flow.flow_class, flow.sent_bytes = None, float(flow.size_bytes)
        if np.isinf(self.rate_bytes_per_s):
            self._end_endless()
        if fewer:
            self.only_ended = False
            self._change_rows(fewer)
        if len(stay) < len(due):
            self._drop(np.setdiff1d(due, stay) if stay else due)
        return taken

    def service(self) -> list[float]:
        """The service of each class by now, by row."""
        service: list[float] = self._served().tolist()
        return service

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        if flow.flow_class is None:
            return flow.sent_bytes
        return flow.sent_at(self._served_of(flow.flow_class.row))

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        return (
            0.0 if flow.flow_class is None else float(self.rates[flow.flow_class.row]) * flow.weight
        )

    def limits_changed(self) -> None:
        """Find each class's limited links anew."""
        self.admit()
        self.stale = True
        self.only_ended = False
        self._few_times = 0
        self.layout += 1
        if self._classes:
            self.rows.set_paths(0, self._limits(self._classes))

    # Inside: rates -------------------------------------------------------------------------------
    def _due(self, by_s: float) -> Numbers:
        """The rows that have sent all by then."""
        finish_s, rows = self.rows.column(FINISH_S), self._those_sending
        if rows is None:
            return np.flatnonzero(finish_s <= by_s)
        return np.sort(rows[finish_s[rows] <= by_s])

    def _check(self, rows: Numbers, rates: Floats) -> None:
        who = self.key or "all flows"
        if not rates.min(initial=0.0) >= 0:  # nor no number at all
            raise InvariantError(f"rates of {who}: need 0 or more")
        if rates.max(initial=0.0) == np.inf:
            limited = self.paths[:, rows[np.isinf(rates)]] != len(self.load) - 1
            if limited.any():
                raise InvariantError(f"rates of {who}: endless on a limited link")

    def _set_all(self, rates: Floats) -> None:
        now_s, table = self._context.now_s, self.rows.column
        bytes_per_s = rates * self.weights
        self._set_total(float(bytes_per_s.sum()))
        table(SERVED)[:] = served = self._served()
        table(SINCE_S)[:] = now_s
        table(RATE)[:] = rates
        needed = np.maximum(table(NEEDS) - served, 0.0)
        finish_s = table(FINISH_S)
        finish_s[:] = np.inf
        np.divide(needed, rates, out=finish_s, where=rates > 0)
        finish_s += now_s
        self.load = load_of(self.paths, bytes_per_s, len(self.load))
        self._few_times = _FEW_TIMES if self.rate_bytes_per_s < np.inf else 0

    def _set_few(self, rows: Numbers, rates: Floats) -> None:
        now_s, table = self._context.now_s, self.rows.column
        before = table(RATE)[rows]
        served = table(SERVED)[rows] + before * (now_s - table(SINCE_S)[rows])
        table(SERVED)[rows] = served
        table(SINCE_S)[rows] = now_s
        table(RATE)[rows] = rates
        needed = np.maximum(table(NEEDS)[rows] - served, 0.0)
        after_s = np.divide(needed, rates, out=np.full(len(rows), np.inf), where=rates > 0)
        table(FINISH_S)[rows] = after_s + now_s
        more = (rates - before) * table(WEIGHT)[rows]
        self._set_total(max(self.rate_bytes_per_s + float(more.sum()), 0.0))
        self._add_load(load_of(self.paths[:, rows], more, len(self.load)))

    def _set_total(self, bytes_per_s: float) -> None:
        """Note at which rate all of it sends from now on."""
        now_s = self._context.now_s
        passed_s = now_s - self._sent_s
        if passed_s > 0:
            self._sent_bytes += self.rate_bytes_per_s * passed_s
            self._sent_s = now_s
        self.rate_bytes_per_s = bytes_per_s

    def _add_load(self, more: Floats) -> None:
        more += self.load  # which others have as well, so that it must stay what it is
        self.load = np.maximum(more, 0.0, out=more)

    def _rates_fit(self) -> None:
        self.first_finish_s = float(self.rows.column(FINISH_S).min(initial=np.inf))
        if self.first_finish_s == np.inf:  # none sends: what its total is then is rounding
            self._set_total(0.0)
        self._those_sending = None
        self._is_set()

    def _is_set(self) -> None:
        self.stale = False
        self.only_ended = True
        self._context.retimed.append(self)

    def _end_endless(self) -> None:
        """Go on without the unlimited classes, which finish without taking time."""
        rates = self.rates
        rates[np.isinf(rates)] = 0.0
        self._set_total(float((rates * self.weights).sum()))

    # Inside: classes and their rows --------------------------------------------------------------
    def _served(self, rows: Numbers | slice = slice(None)) -> Floats:
        """The service of all rows, or of these, by now."""
        passed_s = self._context.now_s - self.rows.column(SINCE_S)[rows]
        # an unlimited class has finished before time passes; 0 s at its rate would be no number
        more = np.zeros(len(passed_s))
        np.multiply(self.rates[rows], passed_s, out=more, where=passed_s > 0)
        return np.add(self.rows.column(SERVED)[rows], more, out=more)

    def _served_of(self, row: int) -> float:
        served = float(self.rows.column(SERVED)[row])
        passed_s = self._context.now_s - float(self.rows.column(SINCE_S)[row])
        return served + float(self.rates[row]) * passed_s if passed_s > 0 else served

    def _settle(self, row: int) -> float:
        """Account for a row's service until now, and return it."""
        served = self._served_of(row)
        self.rows.column(SERVED)[row] = served
        self.rows.column(SINCE_S)[row] = self._context.now_s
        return served

    def _take_some(self, group: FlowClass, rate: float, by_s: float) -> list[Flow]:
        """The members that finish along with the class's first."""
        row, first = group.row, group.first()
        # exactly where its first flow finishes, so that rounding never piles up
        self.rows.column(SERVED)[row] = max(self._settle(row), first.needs)
        if rate == np.inf:
            return group.take(np.inf)
        return group.take(first.needs * ROUNDING + rate * (by_s - self._context.now_s))

    def _change_rows(self, changes: list[tuple[FlowClass, float, float]]) -> None:
        """Let rows whose service is known as of now go on with other flows.

        Each change is a class, and what is added to the sums of its weights and of its needs.
        """
        table = self.rows.column
        rows = np.array([group.row for group, _, _ in changes])
        weights = np.array([weight for _, weight, _ in changes])
        np.add.at(table(WEIGHT), rows, weights)
        np.add.at(table(TOTAL), rows, [total for _, _, total in changes])
        table(NEEDS)[rows] = [group.first().needs for group, _, _ in changes]
        sends = (self.rates[rows] > 0) & (self.rates[rows] < np.inf)
        rows, weights = rows[sends], weights[sends]
        rates = self.rates[rows]
        needed = np.maximum(table(NEEDS)[rows] - table(SERVED)[rows], 0.0)
        table(FINISH_S)[rows] = self._context.now_s + needed / rates
        more = rates * weights
        self._set_total(max(self.rate_bytes_per_s + float(more.sum()), 0.0))
        self._add_load(load_of(self.paths[:, rows], more, len(self.load)))

    def _admit_to_rows(self, joining: list[Flow]) -> None:
        """Let flows join classes that have rows."""
        changes: list[tuple[FlowClass, float, float]] = []
        for flow in joining:
            joined = flow.flow_class
            assert joined is not None
            flow.joined_at = self._settle(joined.row)
            _note_needs(flow)
            joined.join(flow)
            changes.append((joined, flow.weight, flow.weight * flow.needs))
        self._change_rows(changes)

    def _add_rows(self, fresh: list[FlowClass], crowded: list[FlowClass]) -> None:
        """Give rows to classes whose flows have only just come."""
        first_row = len(self._classes)
        self._classes += fresh
        self.rows.append(self._limits(fresh))
        firsts = [flow_class.only or flow_class.first() for flow_class in fresh]
        weights = floats([flow.weight for flow in firsts])
        needs = floats([flow.size_bytes - flow.sent_bytes for flow in firsts]) / weights
        new, table = slice(first_row, None), self.rows.column
        table(WEIGHT)[new] = weights
        table(TOTAL)[new] = weights * needs
        table(NEEDS)[new] = needs
        table(SINCE_S)[new] = self._context.now_s
        table(FINISH_S)[new] = np.inf
        for flow_class in crowded:
            flows = flow_class.all()
            table(WEIGHT)[flow_class.row] = sum(flow.weight for flow in flows)
            table(TOTAL)[flow_class.row] = sum(flow.weight * flow.needs for flow in flows)

    def _limits(self, classes: list[FlowClass]) -> list[Path]:
        if not self._context.unlimited:
            return [flow_class.route.path for flow_class in classes]
        return [self._context.path(flow_class.route) for flow_class in classes]

    def _drop(self, ended: Numbers) -> None:
        """Forget rows of classes that have no flows any more, and what they sent at."""
        bytes_per_s = self.rates[ended] * self.weights[ended]
        self._set_total(max(self.rate_bytes_per_s - float(bytes_per_s.sum()), 0.0))
        self._add_load(load_of(self.paths.take(ended, axis=1), -bytes_per_s, len(self.load)))
        if self._context.rows_stay:
            self.rows.whole[0][_CLEARED, ended] = _CLEAR
            self._ended.append(ended)
            if self.rows.count <= 2 * len(self._by_key):
                return
            ended, self._ended = np.sort(np.concatenate(self._ended)), []
        self.layout += 1
        self._those_sending = None
        moved, places = self.rows.drop(ended)
        for place, row in zip(places, moved, strict=True):
            flow_class = self._classes[place] = self._classes[row]
            flow_class.row = place
        del self._classes[self.rows.count :]


def _note_needs(flow: Flow) -> None:
    """Note what a flow needs; as long as it is the only one of its class, its row knows."""
    flow.needs = flow.joined_at + (flow.size_bytes - flow.sent_before) / flow.weight
