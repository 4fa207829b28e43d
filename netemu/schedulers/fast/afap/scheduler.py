"""``afap``, compiled: an event costs time for what it frees, not for each flow that waits.

``netemu.schedulers.reference.afap`` decides the same.  A flow that gains bandwidth fills a link on
its path.  So of all flows that wait on one route only the first can gain, none where a link of the
route is full, and none that crosses only links that were not full before.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import RowGroup, Traffic
from railyard.netemu.schedulers.fast.afap.loops import Candidates, hand_out
from railyard.netemu.schedulers.fast.afap.places import Places
from railyard.netemu.schedulers.fast.afap.waiting import add_waiting, none_waiting, with_routes
from railyard.netemu.schedulers.fast.loops.grouparrays import grown
from railyard.netemu.schedulers.reference import afap
from railyard.netemu.schedulers.reference.afap import AsFastAsPossible


class CompiledAsFastAsPossible(AsFastAsPossible):
    """Hands out what is free, by priority."""

    rows_stay = True

    def __init__(self) -> None:
        self._layout = -1  #: the group's, at the last decision; another one: start anew
        self._capacities: Floats = np.empty(0)
        self._left: Floats = np.empty(0)  #: bytes/s of each link, after the last decision
        self._known = 0  #: rows at the last decision
        self._senders: Numbers = np.empty(0, dtype=np.int64)  #: rows, with room for all
        self._sending = 0  #: how many rows are in ``_senders``
        self._places = Places()
        self._routes: dict[tuple[int, ...], int] = {}  #: {links: number}
        self._waiting = none_waiting(0, 0)
        self._candidates = Candidates(*[np.empty(0, dtype=np.int64)] * 3)

    def decide(self, traffic: Traffic) -> float:
        """Hand out what is free."""
        for group in traffic.groups:  # at most one
            rows = group.as_rows
            assert rows is not None
            if self._is_known(rows, traffic):
                self._hand_out(rows, self._add_new(rows), traffic)
            else:
                afap.hand_out(group, traffic)
                self._begin(rows, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _is_known(self, group: RowGroup, traffic: Traffic) -> bool:
        """Whether rows' numbers and links' capacities are those of the last decision."""
        same = group.layout == self._layout and traffic.capacities is self._capacities
        return same and len(group.paths) + 1 == self._waiting.crossing.shape[2]

    def _begin(self, group: RowGroup, traffic: Traffic) -> None:
        """Start anew, after the reference has set all rates: note who sends and who waits."""
        self._layout, self._capacities = group.layout, traffic.capacities
        self._left = np.zeros(len(traffic.capacities))  # so that all links are looked at next time
        self._senders = np.flatnonzero(group.rates)
        self._sending = len(self._senders)
        self._places = Places()
        self._routes.clear()
        self._waiting = none_waiting(len(traffic.capacities), len(group.paths))
        self._known = 0
        self._add_new(group)

    def _add_new(self, group: RowGroup) -> Numbers:
        """Put new rows in the order of priorities; those that do not send wait.

        Returns the numbers of the routes on which new rows wait.
        """
        first, self._known = self._known, group.rows.count
        if first == self._known:
            return np.empty(0, dtype=np.int64)
        new = np.flatnonzero(group.weights[first:]) + first
        ways, routes = zip(*group.paths[:, new].tolist(), strict=True), self._routes
        numbers = [routes.setdefault(way, len(routes)) for way in ways]
        self._make_room(group.rows.whole[0].shape[1])
        keys = sorted((group.class_key(row), row) for row in new.tolist())
        self._places.add(keys, self._waiting.numbers)
        waits = group.rates[new] == 0
        fresh = np.array(numbers, dtype=np.int64)[waits]
        add_waiting(new[waits], fresh, self._waiting)
        return np.unique(fresh)

    def _make_room(self, rows: int) -> None:
        """Make room for so many rows, and for all routes."""
        waiting, known = self._waiting, len(self._waiting.tops)
        more = rows - len(waiting.numbers)
        if more > 0:
            waiting = waiting._replace(
                numbers=grown(waiting.numbers, more),
                lower=grown(waiting.lower, more),
                upper=grown(waiting.upper, more),
            )
        self._senders = grown(self._senders, max(rows - len(self._senders), 0))
        if len(self._routes) > known:
            waiting = with_routes(waiting, np.array(list(self._routes)[known:]))
        self._waiting = waiting
        room = rows + 2 * len(waiting.tops)
        if len(self._candidates.rows) < room:
            self._candidates = Candidates(*np.zeros((3, 2 * room), dtype=np.int64))

    def _hand_out(self, group: RowGroup, fresh: Numbers, traffic: Traffic) -> None:
        load = np.empty(len(self._left))
        self._sending, bytes_per_s, first_s = hand_out(
            *group.rows.whole,
            self._senders,
            self._sending,
            self._capacities,
            self._left,
            fresh,
            self._waiting,
            self._candidates,
            load,
            traffic.now_s,
        )
        group.timed(bytes_per_s, first_s, load, self._senders[: self._sending])
