"""``sjf``, compiled: what an event does not reach is left as it is.

``netemu.schedulers.reference.sjf`` decides the same.

Rows that send have records (``senders``), the shortest first, and each decision goes through them
once.  Rows that have equally much left are served together, as a *tie*; if a tie has the rows of
the last decision, and as much is left of their links, its rates stay: of 150 ties, 130 do.

Rows that wait have an entry in a list for each link that they cross (``waiting``), and keep it as
long as they send nothing.  Each of them is longer than the rows that filled one of its links.  So
none of them can send unless more is left of a link than at the last decision: such a link is
*reopened*, and its list is looked at from the length on at which the link was full.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import Ahead, RowGroup, Traffic
from railyard.netemu.schedulers.fast.sjf.ahead import Span, go_ahead
from railyard.netemu.schedulers.fast.sjf.senders import (
    COUNT,
    PATH,
    ROWS,
    Senders,
    no_senders,
    with_room,
)
from railyard.netemu.schedulers.fast.sjf.serving import (
    CAPACITY,
    LOAD,
    ROUNDING,
    Links,
    fresh_links,
    pause,
    serve,
)
from railyard.netemu.schedulers.fast.sjf.waiting import Waiting, none_waiting
from railyard.netemu.schedulers.filling import rounding_of
from railyard.netemu.schedulers.reference.sjf import ShortestFirst


class CompiledShortestFirst(ShortestFirst):
    """Flows in the order of what they have left to send."""

    rows_stay = True
    _senders: Senders
    _waiting: Waiting
    _links: Links

    def __init__(self) -> None:
        self._layout = -1  #: the group's, at the last decision; another one: start anew
        self._begin(0, 0)

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            rows = group.as_rows
            assert rows is not None
            self._follow(rows, traffic.capacities)
            (table, paths), now_s = rows.rows.whole, traffic.now_s
            paused, bytes_per_s, first_s = serve(
                table, paths, rows.rows.count, self._senders, self._waiting, self._links, now_s
            )
            if paused:
                self._waiting = pause(table, self._senders, self._waiting, paused, now_s)
            rows.timed(bytes_per_s, first_s, self._load(), self._sending())
        return np.inf

    def go_ahead(self, traffic: Traffic, before_s: float, together_s: float) -> Ahead | None:
        """End rows, and serve the others anew, as long as these keep their numbers."""
        for group in traffic.groups:  # at most one
            rows = group.as_rows
            assert rows is not None
            table, paths = rows.rows.whole
            reached, self._waiting = go_ahead(
                table,
                paths,
                rows.rows.count,
                rows.open_rows,
                self._senders,
                self._waiting,
                self._links,
                rows.rate_bytes_per_s,
                rows.first_finish_s,
                Span(traffic.now_s, before_s, together_s),
            )
            if reached.steps == 0:
                return None
            rows.went_ahead(
                rows.sent_bytes() + reached.sent_bytes,
                reached.now_s,
                reached.bytes_per_s,
                reached.first_s,
                self._load(),
                self._sending(),
            )
            return Ahead(
                now_s=reached.now_s,
                events=reached.steps,
                decide_s=np.inf,
                ends_s=reached.ends_s,
                groups=np.zeros(len(reached.rows), dtype=np.int64),
                rows=reached.rows,
            )
        return None

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, positions: int, links: int) -> None:
        """Start anew, with all rows as new ones."""
        self._senders = no_senders(positions)
        self._waiting = none_waiting(links)
        self._links = fresh_links(links)
        self._capacities: Floats = np.zeros(0)

    def _follow(self, group: RowGroup, capacities: Floats) -> None:
        """Have room for a group's rows, and know the links' capacities."""
        table, paths = group.rows.whole
        if group.layout != self._layout or len(paths) != self._senders.marks.shape[1] - PATH:
            self._layout = group.layout
            self._begin(len(paths), len(capacities))
        if capacities is not self._capacities:
            self._capacities, amounts = capacities, self._links.amounts
            amounts[CAPACITY], amounts[ROUNDING] = capacities, rounding_of(capacities)
        if group.rows.count > len(self._senders.facts):
            self._senders = with_room(self._senders, len(table[0]))

    def _load(self) -> Floats:
        """[link]: bytes/s."""
        load: Floats = self._links.amounts[LOAD].copy()
        return load

    def _sending(self) -> Numbers:
        """The rows that send."""
        return self._senders.lists[ROWS, : self._senders.counts[COUNT]]
