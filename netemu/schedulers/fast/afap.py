"""``afap`` with many open flows: an event costs what it frees, not how many flows wait.

The reference, which decides the same, is ``netemu.schedulers.reference.afap``.  Whoever gains
bandwidth fills a link on its way.  So of all flows that wait on one route only the first can gain,
and none where a link on it is full.  Compiled loops find out what is free, who sends over free
links only, and on which such routes flows wait; what these gain is handed out in Python, by
priority: few do.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import pack
from railyard.netemu.model.rows import FINISH_S, RATE, WEIGHT, RowTable
from railyard.netemu.model.traffic import RowGroup, Traffic
from railyard.netemu.schedulers.fast.loops.rows import change_rate
from railyard.netemu.schedulers.fast.loops.slots import grown
from railyard.netemu.schedulers.reference.afap import ROUNDING, AsFastAsPossible, hand_out, rest_of

_NONE = -1
#: A flow that can gain: its place in the order, its row, the heap that it waits in, if it does, and
#: the links on its way.
_Able = tuple[Any, int, list[tuple[Hashable, int]] | None, list[int]]


class Routes(NamedTuple):
    """The routes on which flows have waited: chains of them, by the first link."""

    first: Numbers  #: by link: the first route that begins there, or none
    following: Numbers  #: by route: the next one that begins at the same link, or none
    waiting: Numbers  #: by route: how many flows wait, some of which may have ended


@njit(cache=True)
def find_able(
    table: Floats,
    paths: Numbers,
    senders: Numbers,
    capacities: Floats,
    ways: Numbers,
    routes: Routes,
    able: Numbers,
    open_routes: Numbers,
) -> tuple[Floats, int, int, int]:
    """What is left of each link, and who can gain by it.

    Rows that have ended are taken from the ``senders``.  Returns also how many of these are left,
    and how many rows among them (``able``) and how many routes (``open_routes``) are free.
    """
    left, kept = _left(table, paths, senders, capacities)
    many = found = 0
    for number in range(kept):
        if _is_open(paths, senders[number], left):
            able[many] = senders[number]
            many += 1
    for link in range(len(left)):
        route = routes.first[link] if left[link] > 0 else _NONE
        while route != _NONE:
            if routes.waiting[route] > 0 and _is_open(ways, route, left):
                open_routes[found] = route
                found += 1
            route = routes.following[route]
    return left, kept, many, found


@njit(cache=True)
def _left(
    table: Floats, paths: Numbers, senders: Numbers, capacities: Floats
) -> tuple[Floats, int]:
    """What senders leave of each link, but for rounding; and how many have not ended."""
    used, kept = np.zeros(len(capacities)), 0
    for number in range(len(senders)):
        row = senders[number]
        if table[WEIGHT, row] == 0:
            continue
        senders[kept] = row
        kept += 1
        bytes_per_s = table[RATE, row] * table[WEIGHT, row]
        if bytes_per_s < np.inf:
            for position in range(len(paths)):
                used[paths[position, row]] += bytes_per_s
    used[-1] = 0.0  # stands for no link
    left = capacities - used
    for link in range(len(left)):
        if abs(left[link]) <= ROUNDING * used[link]:
            left[link] = 0.0
    return left, kept


@njit(cache=True)
def _is_open(paths: Numbers, row: int, left: Floats) -> bool:
    """Whether something is left on all of a way."""
    least = np.inf
    for position in range(len(paths)):
        least = min(least, left[paths[position, row]])
    return bool(least > 0)


@njit(cache=True)
def set_rates(
    table: Floats,
    paths: Numbers,
    rows: Numbers,
    bytes_per_s: Floats,
    senders: Numbers,
    links: int,
    now_s: float,
) -> tuple[float, float, Floats]:
    """Have rows send so many bytes/s; what all send, when the first one ends, and their load."""
    for number in range(len(rows)):
        row = rows[number]
        change_rate(table, row, bytes_per_s[number] / table[WEIGHT, row], now_s)
    total, first_s, load = 0.0, np.inf, np.zeros(links)
    for row in senders:
        more = table[RATE, row] * table[WEIGHT, row]
        total += more
        first_s = min(first_s, table[FINISH_S, row])
        for position in range(len(paths)):
            load[paths[position, row]] += more
    load[-1] = 0.0  # stands for no link
    return total, first_s, load


class CompiledAsFastAsPossible(AsFastAsPossible):
    """Hands out what is free, by priority."""

    def __init__(self) -> None:
        self._layout = -1  #: of the rows that all of this is about
        self._capacities: Floats = np.empty(0)
        self._count = 0  #: rows that are known
        self._senders: Numbers = np.empty(0, dtype=np.int64)  #: rows, with room for more
        self._sending = 0  #: how many they are
        self._able: Numbers = np.empty(0, dtype=np.int64)
        self._numbers: dict[tuple[int, ...], int] = {}  #: of routes
        self._ways = RowTable(0, 0)  #: the links of each route
        self._routes = Routes(*[np.empty(0, dtype=np.int64)] * 3)
        self._open_routes: Numbers = np.empty(0, dtype=np.int64)
        #: by route: a heap of rows that wait, by priority; those that have ended may be there
        self._heaps: list[list[tuple[Hashable, int]]] = []
        self._links: list[list[int]] = []  #: by route, for Python

    def decide(self, traffic: Traffic) -> float:
        """Hand out what is free."""
        for group in traffic.groups:  # at most one
            rows = group.as_rows
            assert rows is not None
            if group.layout == self._layout and np.array_equal(
                traffic.capacities, self._capacities
            ):
                self._hand_out(rows, traffic)
            else:
                hand_out(group, traffic)
                self._begin(rows, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, group: RowGroup, traffic: Traffic) -> None:
        """Know who sends and who waits, after all rows have been looked at."""
        self._layout, self._capacities = group.layout, traffic.capacities
        self._senders = np.flatnonzero(group.rates)
        self._sending = len(self._senders)
        self._numbers.clear()
        self._heaps.clear()
        self._links.clear()
        links = len(traffic.capacities)
        self._ways = RowTable(0, links - 1)
        nothing = np.empty(0, dtype=np.int64)
        self._routes = Routes(np.full(links, _NONE), nothing, nothing)
        self._open_routes = nothing
        self._count = 0
        self._line_up(group)

    def _line_up(self, group: RowGroup) -> None:
        """Let rows that have come, and do not send, wait."""
        first, self._count = self._count, group.rows.count
        if first == self._count:
            return
        new = np.flatnonzero((group.weights[first:] > 0) & (group.rates[first:] == 0)) + first
        ways, numbers, heaps = group.paths[:, new].T.tolist(), self._numbers, self._heaps
        for row, way in zip(new.tolist(), ways, strict=True):
            route = numbers.setdefault(tuple(way), len(heaps))
            if route == len(heaps):
                self._add_route(way)
            heappush(heaps[route], (group.class_key(row), row))
            self._routes.waiting[route] += 1

    def _add_route(self, way: list[int]) -> None:
        number = len(self._heaps)
        self._heaps.append([])
        self._links.append(way)
        self._ways.append([pack(way)])
        routes = self._routes
        if number == len(routes.waiting):
            more = max(16, number)
            following, waiting = grown(routes.following, more), grown(routes.waiting, more)
            routes = self._routes = Routes(routes.first, following, waiting)
            self._open_routes = grown(self._open_routes, more)
        routes.following[number] = routes.first[way[0]]
        routes.first[way[0]] = number

    def _hand_out(self, group: RowGroup, traffic: Traffic) -> None:
        self._line_up(group)
        if len(self._able) < len(self._senders):
            self._able = np.empty(len(self._senders), dtype=np.int64)
        table, paths = group.rows.whole
        free, self._sending, many, found = find_able(
            table,
            paths,
            self._senders[: self._sending],
            self._capacities,
            self._ways.whole[1],
            self._routes,
            self._able,
            self._open_routes,
        )
        able: list[_Able] = [
            (group.class_key(row), row, None, paths[:, row].tolist())
            for row in self._able[:many].tolist()
        ]
        heaps, links_of, weights = self._heaps, self._links, table[WEIGHT]
        for route in self._open_routes[:found].tolist():  # 150 of them, of which few will gain
            heap = heaps[route]
            if not (heap and weights[heap[0][1]]):
                heap = self._first_waiting(route, table)
            if heap:
                place, row = heap[0]
                able.append((place, row, heap, links_of[route]))
        gains = self._share(group, able, free.tolist()) if able else {}
        bytes_per_s, first_s, load = set_rates(
            table,
            paths,
            np.array(list(gains), dtype=np.int64),
            np.array(list(gains.values()), dtype=np.float64),
            self._senders[: self._sending],
            len(self._capacities),
            traffic.now_s,
        )
        group.timed(bytes_per_s, first_s, load, self._senders[: self._sending].copy())

    def _first_waiting(self, route: int, table: Floats) -> list[tuple[Hashable, int]]:
        """The heap of a route, without those in front that have ended."""
        heap = self._heaps[route]
        while heap and not table[WEIGHT, heap[0][1]]:
            heappop(heap)
        self._routes.waiting[route] = len(heap)
        return heap

    def _share(self, group: RowGroup, able: list[_Able], left: list[float]) -> dict[int, float]:
        """Give each all that its way has left, by priority; returns what rows send at then."""
        able.sort(key=itemgetter(0))
        gains: dict[int, float] = {}
        for _, row, heap, links in able:
            more = inf
            for link in links:
                if left[link] < more:
                    more = left[link]
            if more <= 0:
                continue
            before = float(group.rates[row] * group.weights[row])
            gains[row] = more + (before if before < np.inf else 0.0)
            for link in links:
                left[link] = rest_of(left[link], more)
            if heap is not None:
                heappop(heap)
                self._add_sender(row)
        return gains

    def _add_sender(self, row: int) -> None:
        if self._sending == len(self._senders):
            self._senders = grown(self._senders, max(16, self._sending))
        self._senders[self._sending] = row
        self._sending += 1
