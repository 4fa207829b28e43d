"""The rows of a group: how far their flows have been served, their rates, and when they end.

``SharedRows`` is what the two kinds of groups have in common: ``FlowGroup``, with an object for
each flow, and ``FlowTable``.  Service is bytes sent per unit of weight; the flows of a row are
served alike.  An event costs O(rows) in numpy.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import crossed, load_of
from railyard.netemu.model.openflows import ROUNDING
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
from railyard.netemu.model.ties import SAME_BYTES, SAME_SHARE

#: What a row that has ended but for rounding still has to send.
_LEAST_BYTES = 1e-6
#: If at most this share of the rows have new rates, only these rows are updated,
_FEW = 0.25
#: so many times at most, then all rows, so that rounding errors do not add up.
_FEW_TIMES = 1000
#: Fewer rows than this that end at once are handled one by one: 7 take 28 us, with arrays 46.
_FEW_ROWS = 8
#: The values of a row that has ended, by column.
_ENDED = np.where(np.array(COLUMNS) == FINISH_S, np.inf, 0.0)


class ServedRows:
    """The rows of one group."""

    circuit_bytes_per_s = np.inf  #: it goes by packets

    def __init__(self, key: str, context: GroupContext) -> None:
        self.key = key
        self.arrived_s = context.now_s
        self.stale = False  #: whether its flows have changed since its rates were set
        self.only_ended = True
        self.first_finish_s = np.inf  #: out of date while it is stale
        self.rate_bytes_per_s = 0.0
        #: bytes/s on each link
        self.load = np.zeros(context.links)
        self.rows = RowTable(len(COLUMNS), filler=context.links - 1)
        self.layout = 0  #: changes whenever rows get other numbers
        self._context = context
        self._few_times = 0  #: how often few rates may be set before all rows are updated
        self._those_sending: Numbers | None = None  #: rows with a rate above 0, if known
        self._sent_bytes = 0.0
        self._sent_s = context.now_s  #: the time as of which ``_sent_bytes`` counts

    # What schedulers see -------------------------------------------------------------------------
    @property
    def paths(self) -> Numbers:
        """Numbers of the limited links of each class: [position, row]."""
        return self.rows.paths

    @property
    def crossed(self) -> int:
        """The links on these paths, as the bits of an int."""
        return crossed(self.rows.paths, self._context.links)

    @property
    def weights(self) -> Floats:
        """Sum of the weights of each class's flows."""
        return self.rows.column(WEIGHT)

    @property
    def rates(self) -> Floats:
        """Bytes/s for each unit of weight."""
        return self.rows.column(RATE)

    def remaining_bytes(self, rows: Numbers | slice = slice(None)) -> Floats:
        """Bytes that each row, or each of these rows, has left to send."""
        remaining = self._served(rows)
        remaining *= self.weights[rows]
        np.subtract(self.rows.column(TOTAL)[rows], remaining, out=remaining)
        return np.maximum(remaining, _LEAST_BYTES, out=remaining)

    def sent_bytes(self) -> float:
        """Bytes that all flows of the group have sent by now, ended ones included."""
        passed_s = self._context.now_s - self._sent_s
        return self._sent_bytes + (self.rate_bytes_per_s * passed_s if passed_s > 0 else 0.0)

    def has_sent(self, more_bytes: float) -> None:
        """Count what flows of it have sent elsewhere."""
        self._sent_bytes += more_bytes

    def set_rates(self, rates: Floats) -> None:
        """Set the rates of all rows, in bytes/s per unit of weight."""
        rows = (rates != self.rates).nonzero()[0]
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
        """See ``RowGroup.timed``."""
        self._set_total(bytes_per_s)
        self._those_sending = sending
        self.first_finish_s = first_finish_s
        self.load = load
        self._few_times = 0  # they may have been given unlimited ones
        self._is_set()

    def sent_as_of(self) -> tuple[float, float]:
        """See ``RowGroup.sent_as_of``."""
        return self._sent_bytes, self._sent_s

    def went_ahead(
        self,
        sent_bytes: float,
        sent_s: float,
        bytes_per_s: float,
        first_finish_s: float,
        load: Floats,
        sending: Numbers | None = None,
    ) -> None:
        """See ``RowGroup.went_ahead``."""
        self._sent_bytes, self._sent_s = sent_bytes, sent_s
        self.rate_bytes_per_s = bytes_per_s
        self.timed(bytes_per_s, first_finish_s, load, sending)

    def service(self) -> list[float]:
        """The service of each row by now."""
        service: list[float] = self._served().tolist()
        return service

    # For the flows in the rows -------------------------------------------------------------------
    def _served(self, rows: Numbers | slice = slice(None)) -> Floats:
        """The service of all rows, or of these, by now."""
        passed_s = self._context.now_s - self.rows.column(SINCE_S)[rows]
        # unlimited rows end before time passes; 0 s times inf would be nan
        more = np.zeros(len(passed_s))
        np.multiply(self.rates[rows], passed_s, out=more, where=passed_s > 0)
        return np.add(self.rows.column(SERVED)[rows], more, out=more)

    def _served_of(self, row: int) -> float:
        served = float(self.rows.column(SERVED)[row])
        passed_s = self._context.now_s - float(self.rows.column(SINCE_S)[row])
        return served + float(self.rates[row]) * passed_s if passed_s > 0 else served

    def _settle(self, row: int) -> float:
        """Bring a row's service up to now, and return it."""
        served = self._served_of(row)
        self.rows.column(SERVED)[row] = served
        self.rows.column(SINCE_S)[row] = self._context.now_s
        return served

    def _due(self, by_s: float) -> list[int]:
        """The rows that have sent all their bytes by ``by_s``, ascending."""
        rows = self._those_sending
        if rows is None:
            found: list[int] = (self.rows.column(FINISH_S) <= by_s).nonzero()[0].tolist()
            return found
        return sorted(rows[self.rows.column(FINISH_S)[rows] <= by_s].tolist())

    def _check(self, rows: Numbers, rates: Floats) -> None:
        who = self.key or "all flows"
        if not rates.min(initial=0.0) >= 0:  # nor nan
            raise InvariantError(f"rates of {who}: need 0 or more", (self.key,))
        if rates.max(initial=0.0) == np.inf:
            limited = self.paths[:, rows[np.isinf(rates)]] != len(self.load) - 1
            if limited.any():
                raise InvariantError(f"rates of {who}: endless on a limited link", (self.key,))

    def _set_all(self, rates: Floats) -> None:
        now_s, table = self._context.now_s, self.rows.column
        bytes_per_s = rates * self.weights
        self._set_total(float(bytes_per_s.sum()))
        served = self._served()
        table(FINISH_S)[:] = self._finish_s(slice(None), served, rates)
        table(SERVED)[:] = served
        table(SINCE_S)[:] = now_s
        table(RATE)[:] = rates
        self.load = load_of(self.paths, bytes_per_s, len(self.load))
        self._few_times = _FEW_TIMES if self.rate_bytes_per_s < np.inf else 0

    def _set_few(self, rows: Numbers, rates: Floats) -> None:
        now_s, table = self._context.now_s, self.rows.column
        before = table(RATE)[rows]
        served = table(SERVED)[rows] + before * (now_s - table(SINCE_S)[rows])
        table(FINISH_S)[rows] = self._finish_s(rows, served, rates)
        table(SERVED)[rows] = served
        table(SINCE_S)[rows] = now_s
        table(RATE)[rows] = rates
        more = (rates - before) * table(WEIGHT)[rows]
        self._set_total(max(self.rate_bytes_per_s + float(more.sum()), 0.0))
        self._add_load(load_of(self.paths[:, rows], more, len(self.load)))

    def _finish_s(self, rows: Numbers | slice, served: Floats, rates: Floats) -> Floats:
        """When rows end that have been served so far, at new rates.

        A row whose rate falls has ended if it had the same left as one that has (``SAME_SHARE`` of
        what it sent at its last rate, ``SAME_BYTES``), which might take it long otherwise: that
        rate may have been what others leave of a link, a small difference of large numbers.
        """
        table = self.rows.column
        needed = np.maximum(table(NEEDS)[rows] - served, 0.0)
        after_s = np.divide(needed, rates, out=np.full(len(needed), np.inf), where=rates > 0)
        sent = served - table(SERVED)[rows]
        done = (needed <= sent * SAME_SHARE) & (needed * table(WEIGHT)[rows] <= SAME_BYTES)
        after_s[done & (rates < table(RATE)[rows])] = 0.0
        finish_s: Floats = np.add(after_s, self._context.now_s, out=after_s)
        return finish_s

    def _set_total(self, bytes_per_s: float) -> None:
        """Set the rate of all rows together from now on, in bytes/s."""
        now_s = self._context.now_s
        passed_s = now_s - self._sent_s
        if passed_s > 0:
            self._sent_bytes += self.rate_bytes_per_s * passed_s
            self._sent_s = now_s
        self.rate_bytes_per_s = bytes_per_s

    def _add_load(self, more: Floats) -> None:
        more += self.load  # not in place: the fabric keeps the array before
        self.load = np.maximum(more, 0.0, out=more)

    def _clear(self, rows: list[int]) -> None:
        """Set the rates of rows that have ended to 0."""
        if len(rows) < _FEW_ROWS:
            self._clear_few(rows)
            return
        table, paths = self.rows.whole
        bytes_per_s = table[RATE, rows] * table[WEIGHT, rows]
        self._set_total(max(self.rate_bytes_per_s - float(bytes_per_s.sum()), 0.0))
        self._add_load(load_of(paths[:, rows], -bytes_per_s, len(self.load)))
        table[:, rows] = _ENDED[:, np.newaxis]

    def _clear_few(self, rows: list[int]) -> None:
        """``_clear`` row by row: most events end one row, where arrays take five times as long."""
        table, paths = self.rows.whole
        total, freed = 0.0, dict[int, float]()
        for row in rows:
            bytes_per_s = table.item(RATE, row) * table.item(WEIGHT, row)
            total += bytes_per_s
            for link in paths[:, row].tolist():
                freed[link] = freed.get(link, 0.0) + bytes_per_s
            table[:, row] = _ENDED
        self._set_total(max(self.rate_bytes_per_s - total, 0.0))
        self.load = load = self.load.copy()  # a copy, as the fabric keeps the array before
        for link, bytes_per_s in freed.items():
            load[link] = max(load.item(link) - bytes_per_s, 0.0)
        load[-1] = 0.0  # stands for no link

    def _rates_fit(self) -> None:
        self.first_finish_s = float(self.rows.column(FINISH_S).min(initial=np.inf))
        if self.first_finish_s == np.inf:  # no row sends: its total is rounding
            self._set_total(0.0)
        self._those_sending = None
        self._is_set()

    def _is_set(self) -> None:
        self.stale = False
        self.only_ended = True

    def _end_endless(self) -> None:
        """Set unlimited rates to 0: those flows have ended, in no time."""
        rates = self.rates
        rates[np.isinf(rates)] = 0.0
        self._set_total(float((rates * self.weights).sum()))


class SharedRows(ServedRows):
    """The rows of a group, and how many of them have flows."""

    def __init__(self, key: str, context: GroupContext) -> None:
        super().__init__(key, context)
        self._serving = 0  #: rows that have flows
        self._done: list[int] = []  #: rows that have ended and were not removed yet
        self._flows = 0  #: flows that have a row

    # What schedulers see -------------------------------------------------------------------------
    @property
    def as_group(self) -> Self:
        """Itself: flow schedulers set its rates."""
        return self

    @property
    def as_rows(self) -> Self:
        """Itself: it has rows of arrays."""
        return self

    @property
    def open_rows(self) -> int:
        """How many rows have flows."""
        return self._serving

    @property
    def has_shared_rows(self) -> bool:
        """Whether any row has several flows."""
        return self._flows != self._serving

    # What the fabric does ------------------------------------------------------------------------
    def quiet(self) -> None:
        """Note that it has nothing to send."""
        self._set_total(0.0)
        self.stale = False
        self.first_finish_s = np.inf
        self.load = np.zeros(len(self.load))

    # Inside --------------------------------------------------------------------------------------
    def _changed(self) -> None:
        """Note that flows have come or gone otherwise than by ending."""
        self.stale = True
        self.only_ended = False

    def _links_changed(self) -> None:
        """Note that the limited links of all rows are looked up again."""
        self._changed()
        self._few_times = 0
        self.layout += 1

    def _serve_first(self, rows: Numbers, needs: Floats, by_s: float) -> Floats:
        """Have rows served as their first flows need that end now.

        Returns, by row, the service with which others of its flows end, too.
        """
        table, now_s = self.rows.column, self._context.now_s
        # exactly what its first flow needs, so that rounding errors never add up
        table(SERVED)[rows] = np.maximum(self._served(rows), needs)
        table(SINCE_S)[rows] = now_s
        rates = self.rates[rows]
        endless = np.isinf(rates)
        rates[endless] = 0.0
        enough: Floats = needs * ROUNDING + rates * (by_s - now_s)
        enough[endless] = np.inf
        return enough

    def _change(self, rows: Numbers, weights: Floats, totals: Floats, needs: Floats) -> None:
        """Update rows whose flows have changed; their service was brought up to now.

        Each row, which may be there several times, gets more weight and more bytes in all;
        ``needs`` is the service that its first flow needs.
        """
        table = self.rows.column
        np.add.at(table(WEIGHT), rows, weights)
        np.add.at(table(TOTAL), rows, totals)
        table(NEEDS)[rows] = needs
        sends = (self.rates[rows] > 0) & (self.rates[rows] < np.inf)
        rows, weights = rows[sends], weights[sends]
        rates = self.rates[rows]
        needed = np.maximum(table(NEEDS)[rows] - table(SERVED)[rows], 0.0)
        table(FINISH_S)[rows] = self._context.now_s + needed / rates
        more = rates * weights
        self._set_total(max(self.rate_bytes_per_s + float(more.sum()), 0.0))
        self._add_load(load_of(self.paths[:, rows], more, len(self.load)))

    def _remove_rows(self, ended: list[int]) -> tuple[list[int], list[int]]:
        """Clear rows that have no flows any more; remove them at once, or once they are many.

        Returns the rows that have moved, and the places that they have now.
        """
        self._clear(ended)
        self._serving -= len(ended)
        if self._context.rows_stay:
            self._done += ended
            if self.rows.count <= 2 * self._serving:
                return [], []
            ended, self._done = sorted(self._done), []
        self.layout += 1
        self._those_sending = None
        return self.rows.drop(np.array(ended))
