"""``afap`` for crowds: flows that wait are looked at by route, not one by one.

``netemu.schedulers.afap`` is the simple version, and decides the same.  Whoever gains bandwidth
fills a link on its way.  So of all flows that wait on one route only the first can gain, and none
where a link on it is full: an event costs O(routes) in numpy, and in Python only what gains.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from netemu.flowgroups import FlowGroup
from netemu.routes import pack
from netemu.rowtable import FINISH_S, NEEDS, RATE, SERVED, SINCE_S, WEIGHT, RowTable
from netemu.schedulers.afap import AsFastAsPossible, free_of, hand_out, rest_of
from netemu.schedulers.base import Floats, Numbers, Traffic
from netemu.schedulers.filling import load_of


class CrowdAsFastAsPossible(AsFastAsPossible):
    """Hands out what is free, by priority."""

    def __init__(self) -> None:
        self._layout = -1  #: of the rows that all of this is about
        self._capacities: Floats = np.empty(0)
        self._count = 0  #: rows that are known
        self._sending: Numbers = np.empty(0, dtype=np.int64)
        self._routes: dict[tuple[int, ...], int] = {}
        self._ways = RowTable(0, 0)  #: the links of each route
        #: by route: a heap of rows that wait, by priority; those that have ended may be there
        self._waiting: list[list[tuple[Hashable, int]]] = []

    def decide(self, traffic: Traffic) -> float:
        """Hand out what is free."""
        for group in traffic.groups:  # at most one
            assert isinstance(group, FlowGroup)
            if group.layout == self._layout and np.array_equal(
                traffic.capacities, self._capacities
            ):
                self._hand_out(group, traffic)
            else:
                hand_out(group, traffic)
                self._begin(group, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, group: FlowGroup, traffic: Traffic) -> None:
        """Know who sends and who waits, after all rows have been looked at."""
        self._layout, self._capacities = group.layout, traffic.capacities
        self._sending = np.flatnonzero(group.rates)
        self._routes.clear()
        self._ways = RowTable(0, len(traffic.capacities) - 1)
        self._waiting.clear()
        self._count = 0
        self._line_up(group)

    def _line_up(self, group: FlowGroup) -> None:
        """Let rows that have come, and do not send, wait."""
        first, self._count = self._count, group.rows.count
        new = np.flatnonzero((group.weights[first:] > 0) & (group.rates[first:] == 0)) + first
        ways = group.paths[:, new].T.tolist()
        for row, way in zip(new.tolist(), ways, strict=True):
            route = self._routes.setdefault(tuple(way), len(self._waiting))
            if route == len(self._waiting):
                self._waiting.append([])
                self._ways.append([pack(way)])
            heappush(self._waiting[route], (group.apart(row), row))

    def _hand_out(self, group: FlowGroup, traffic: Traffic) -> None:
        self._line_up(group)
        rows = self._sending[group.weights[self._sending] > 0]
        bytes_per_s = group.rates[rows] * group.weights[rows]
        bytes_per_s[np.isinf(bytes_per_s)] = 0.0
        free = free_of(traffic.capacities, group.paths[:, rows], bytes_per_s)
        left = free.tolist()
        sends = dict(zip(rows.tolist(), bytes_per_s.tolist(), strict=True))
        changed: dict[int, float] = {}
        for _, row, waiting in sorted(self._who_can_gain(group, rows, free), key=_turn):
            links = group.paths[:, row].tolist()
            more = min(left[link] for link in links)
            if more > 0:
                if waiting:
                    heappop(waiting)
                sends[row] = changed[row] = sends.get(row, 0.0) + more
                for link in links:
                    left[link] = rest_of(left[link], more)
        _set_rates(group, changed, traffic.now_s)
        self._note(group, np.array(list(sends), dtype=np.int64), np.array(list(sends.values())))

    def _who_can_gain(
        self, group: FlowGroup, rows: Numbers, left: Floats
    ) -> list[tuple[Any, int, list[tuple[Hashable, int]]]]:
        """Of those that send, and of those that wait on each route: priority, row and heap."""
        is_free = left > 0
        some = rows[is_free.take(group.paths[:, rows]).all(axis=0)]
        found: list[tuple[Any, int, list[tuple[Hashable, int]]]] = [
            (group.apart(row), row, []) for row in some.tolist()
        ]
        for route in np.flatnonzero(is_free.take(self._ways.paths).all(axis=0)).tolist():
            waiting, weights = self._waiting[route], group.weights
            while waiting and not weights[waiting[0][1]]:
                heappop(waiting)
            if waiting:
                found.append((*waiting[0], waiting))
        return found

    def _note(self, group: FlowGroup, rows: Numbers, bytes_per_s: Floats) -> None:
        self._sending = rows
        first_s = float(group.rows.column(FINISH_S)[rows].min(initial=np.inf))
        load = load_of(group.paths[:, rows], bytes_per_s, len(self._capacities))
        group.timed(float(bytes_per_s.sum()), first_s, load, rows)


def _turn(found: tuple[Any, int, object]) -> Any:
    return found[0]


def _set_rates(group: FlowGroup, bytes_per_s: dict[int, float], now_s: float) -> None:
    """Serve these rows at these bytes/s from now on."""
    table, rows = group.rows.column, np.array(list(bytes_per_s), dtype=np.int64)
    rates = np.array(list(bytes_per_s.values())) / table(WEIGHT)[rows]
    passed_s = np.maximum(now_s - table(SINCE_S)[rows], 0.0)
    table(SERVED)[rows] += np.where(passed_s > 0, table(RATE)[rows], 0.0) * passed_s
    table(SINCE_S)[rows] = now_s
    table(RATE)[rows] = rates
    needed = np.maximum(table(NEEDS)[rows] - table(SERVED)[rows], 0.0)
    table(FINISH_S)[rows] = now_s + needed / rates
