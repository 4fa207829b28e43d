"""The compiled loops of ``afap``: which flows gain bandwidth that was freed, and how much.

Rows that wait on one route are a heap by their place in the order of priorities (``waiting``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, RATE, WEIGHT
from railyard.netemu.schedulers.fast.afap.waiting import NONE, Waiting, first_waiting, take_first
from railyard.netemu.schedulers.fast.loops.rows import change_rate
from railyard.netemu.schedulers.reference.afap import ROUNDING


class Candidates(NamedTuple):
    """Room for the rows that may gain bandwidth."""

    rows: Numbers  #: [candidate]
    routes: Numbers  #: [candidate]: the route on which the row waits, or none: it sends
    at: Numbers  #: by route: which candidate it is, if it is one


@njit(cache=True)
def hand_out(
    table: Floats,
    paths: Numbers,
    senders: Numbers,
    sending: int,
    capacities: Floats,
    left: Floats,
    fresh: Numbers,
    waiting: Waiting,
    candidates: Candidates,
    load: Floats,
    now_s: float,
) -> tuple[int, float, float]:
    """Give each row all that is left on its path, by priority.

    No row could gain after the last decision: each had a link with nothing ``left`` on its path.
    So a row that can gain now crosses a link that has something left again, or waits on a
    ``fresh`` route, to which rows have come.  ``left`` and ``load`` (bytes/s by link) are brought
    up to date.

    Returns how many ``senders`` there are from now on, the bytes/s of all of them, and the time at
    which the first one ends.
    """
    was_full = left == 0
    sending = _find_left(table, paths, senders, sending, capacities, left)
    many = _find_candidates(
        table, paths, senders[:sending], was_full, left, fresh, waiting, candidates
    )
    turns = len(waiting.numbers) + many + 1  # each gives one row bandwidth, or drops it
    while many > 0:
        turns -= 1
        if turns < 0:
            raise InvariantError("afap: free bandwidth is handed out without an end")
        many, first = _first_open(paths, left, waiting.numbers, candidates, many)
        if many == 0:
            break
        row, route = candidates.rows[first], candidates.routes[first]
        _give(table, paths, row, left, now_s)
        if route != NONE:
            senders[sending] = row
            sending += 1
            take_first(route, waiting)
            candidates.rows[first] = first_waiting(table, route, waiting)
        if route == NONE or candidates.rows[first] == NONE:
            many -= 1
            candidates.rows[first] = candidates.rows[many]
            candidates.routes[first] = candidates.routes[many]
    return sending, *_sum_up(table, paths, senders[:sending], load)


@njit(cache=True)
def _find_left(
    table: Floats,
    paths: Numbers,
    senders: Numbers,
    sending: int,
    capacities: Floats,
    left: Floats,
) -> int:
    """Set ``left`` to what senders leave of each link; returns how many have not ended."""
    used, kept = np.zeros(len(capacities)), 0
    for number in range(sending):
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
    for link in range(len(left)):
        left[link] = capacities[link] - used[link]
        if abs(left[link]) <= ROUNDING * used[link]:
            left[link] = 0.0
    return kept


@njit(cache=True)
def _find_candidates(
    table: Floats,
    paths: Numbers,
    senders: Numbers,
    was_full: Bools,
    left: Floats,
    fresh: Numbers,
    waiting: Waiting,
    candidates: Candidates,
) -> int:
    """Find the senders, and the routes with rows that wait, that have something left all along.

    Returns how many candidates there are.
    """
    # arrays get local names, and nothing is called for each route: each time that an array is taken
    # from a tuple or passed to a function, numba counts references to it, a quarter of all time
    many = 0
    rows, routes, at = candidates.rows, candidates.routes, candidates.at
    for row in senders:
        if _is_open(paths, row, left):
            rows[many], routes[many] = row, NONE
            many += 1
    for route in fresh:
        routes[many], at[route] = route, many
        many += 1
    for link in range(len(left) - 1):
        if not (was_full[link] and left[link] > 0):
            continue
        many = _add_open(waiting.crossing[link], waiting.tops, left, routes, at, many)
    return _with_rows(table, waiting, candidates, many)


@njit(cache=True)
def _add_open(
    ways: Numbers, tops: Numbers, left: Floats, routes: Numbers, at: Numbers, many: int
) -> int:
    """Add the open routes through a link, given by its part of ``Waiting.crossing``.

    Returns how many candidates there are now.
    """
    for place in range(len(ways)):
        route, least = ways[place, 0], np.inf
        if route == NONE:
            break
        for column in range(1, ways.shape[1]):
            least = min(least, left[ways[place, column]])
        if least <= 0 or tops[route] == NONE:
            continue
        known = at[route]
        if known >= many or routes[known] != route:  # else two of its links are free again
            routes[many], at[route] = route, many
            many += 1
    return many


@njit(cache=True)
def _with_rows(table: Floats, waiting: Waiting, candidates: Candidates, many: int) -> int:
    """Set the rows of candidates that are routes; drops those without; returns how many stay."""
    kept, rows, routes = 0, candidates.rows, candidates.routes
    for number in range(many):
        route = routes[number]
        row = rows[number] if route == NONE else first_waiting(table, route, waiting)
        if row != NONE:
            rows[kept], routes[kept] = row, route
            kept += 1
    return kept


@njit(cache=True, inline="always")
def _is_open(paths: Numbers, row: int, left: Floats) -> bool:
    """Whether all links on a path have something left."""
    least = np.inf
    for position in range(len(paths)):
        least = min(least, left[paths[position, row]])
    return bool(least > 0)


@njit(cache=True)
def _first_open(
    paths: Numbers, left: Floats, numbers: Floats, candidates: Candidates, many: int
) -> tuple[int, int]:
    """Drop candidates that cannot gain; returns how many stay, and which is first by priority."""
    kept, first, rows, routes = 0, 0, candidates.rows, candidates.routes
    for number in range(many):
        row = rows[number]
        if not _is_open(paths, row, left):
            continue
        rows[kept], routes[kept] = row, routes[number]
        if numbers[row] < numbers[rows[first]]:
            first = kept
        kept += 1
    return kept, first


@njit(cache=True)
def _give(table: Floats, paths: Numbers, row: int, left: Floats, now_s: float) -> None:
    """Add all that is left on a row's path to what it sends."""
    more = np.inf
    for position in range(len(paths)):
        more = min(more, left[paths[position, row]])
    before = table[RATE, row] * table[WEIGHT, row]
    total = more + (before if before < np.inf else 0.0)
    change_rate(table, row, total / table[WEIGHT, row], now_s)
    for position in range(len(paths)):
        link = paths[position, row]
        if left[link] < np.inf:
            left[link] = max(left[link] - more, 0.0)


@njit(cache=True)
def _sum_up(table: Floats, paths: Numbers, senders: Numbers, load: Floats) -> tuple[float, float]:
    """Bytes/s of all senders, and when the first of them ends; ``load`` gets bytes/s by link."""
    total, first_s = 0.0, np.inf
    load[:] = 0.0
    for row in senders:
        more = table[RATE, row] * table[WEIGHT, row]
        total += more
        first_s = min(first_s, table[FINISH_S, row])
        for position in range(len(paths)):
            load[paths[position, row]] += more
    load[-1] = 0.0  # stands for no link
    return total, first_s
