"""``sjf`` for crowds: all flows are gone through at each decision, the shortest first."""

from __future__ import annotations

import numpy as np
from numba import njit

from netemu.flowgroups import FlowGroup
from netemu.rowtable import FINISH_S, RATE, SERVED, SINCE_S, TOTAL, WEIGHT
from netemu.schedulers.base import Floats, Numbers, Traffic
from netemu.schedulers.compiled.filling import fill, scratch
from netemu.schedulers.compiled.rows import change_rate
from netemu.schedulers.filling import Bools, rounding_of
from netemu.schedulers.sjf import SAME_BYTES, SAME_SHARE, ShortestFirst

#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: If so many rows, or so large a share of them, are not where they were, all are sorted anew.
_MANY_MOVED = 1000
_MOVED = 0.25
#: With more newcomers than this, too.
_MANY_NEW = 64


@njit(cache=True)
def bring_up_to_date(
    table: Floats, rows: Numbers, left_bytes: Floats, count: int, now_s: float
) -> int:
    """Note what the first ``count`` rows have left to send, and put them in order.

    Those that have ended are left out; returns how many are left.
    """
    kept = 0
    for place in range(count):
        row = rows[place]
        if table[WEIGHT, row] == 0:
            continue
        mine, at = _left_bytes(table, row, now_s), kept
        while at > 0 and left_bytes[at - 1] > mine:  # most are in order already
            rows[at], left_bytes[at] = rows[at - 1], left_bytes[at - 1]
            at -= 1
        rows[at], left_bytes[at] = row, mine
        kept += 1
    return kept


@njit(cache=True)
def _left_bytes(table: Floats, row: int, now_s: float) -> float:
    served: float = table[SERVED, row] + table[RATE, row] * max(now_s - table[SINCE_S, row], 0.0)
    left_bytes: float = table[TOTAL, row] - served * table[WEIGHT, row]
    return max(left_bytes, 0.0)


@njit(cache=True)
def all_left_bytes(table: Floats, rows: Numbers, now_s: float) -> Floats:
    """What rows have left to send."""
    left_bytes = np.empty(len(rows))
    for number in range(len(rows)):
        left_bytes[number] = _left_bytes(table, rows[number], now_s)
    return left_bytes


@njit(cache=True)
def serve(
    table: Floats,
    paths: Numbers,
    rows: Numbers,
    left_bytes: Floats,
    there: Bools,
    ways: Numbers,
    moved: Numbers,
    moved_bytes: Floats,
    many_moved: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> tuple[float, float, int]:
    """Serve all rows, the shortest first; equals share in a max-min way.

    They are two lines: ``rows`` that have not sent anything since they were sorted, as far as they
    are still ``there``, with their ``ways``; and those that have, ``moved``.  Returns at how many
    bytes/s all of them send, when the first one finishes, and how many have ``moved`` now.
    """
    bytes_per_s, first_s = 0.0, np.inf
    equals, rates = np.empty(len(rows) + many_moved, np.int64), np.empty(len(rows) + many_moved)
    levels, (floats, numbers) = np.empty(len(left)), scratch(len(left))
    next_row, next_moved, more_moved = 0, 0, many_moved
    while True:
        some, longest = 0, -1.0
        while True:
            # what is closed now stays so, as less and less is left
            next_row = _next_open(ways, there, next_row, left)
            next_moved = _pause_closed(table, paths, moved[:many_moved], next_moved, left, now_s)
            mine = left_bytes[next_row] if next_row < len(rows) else np.inf
            other = moved_bytes[next_moved] if next_moved < many_moved else np.inf
            shortest = min(mine, other)
            if shortest == np.inf or (some > 0 and _is_longer(shortest, longest)):
                break
            longest = shortest
            if mine <= other:
                equals[some] = rows[next_row]
                there[next_row] = False
                moved[more_moved] = rows[next_row]
                more_moved += 1
                next_row += 1
            else:
                equals[some] = moved[next_moved]
                next_moved += 1
            some += 1
        if some == 0:
            return bytes_per_s, first_s, more_moved
        if some == 1:
            rates[0] = _take(paths, equals[0], left) / table[WEIGHT, equals[0]]
        else:
            _fill(table, paths, equals[:some], left, levels, rates, floats, numbers)
        for number in range(some):
            row = equals[number]
            _set_rate(table, paths, row, rates[number], left, rounding, now_s)
            bytes_per_s += rates[number] * table[WEIGHT, row]
            first_s = min(first_s, table[FINISH_S, row])


@njit(cache=True)
def _is_longer(left_bytes: float, than: float) -> bool:
    return left_bytes > than * (1 + SAME_SHARE) + SAME_BYTES


@njit(cache=True)
def _set_rate(
    table: Floats,
    paths: Numbers,
    row: int,
    rate: float,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> None:
    """Give a row its rate, for which what is ``left`` is known already, but for rounding."""
    if abs(rate - table[RATE, row]) > table[RATE, row] * _STAYS:
        change_rate(table, row, rate, now_s)
    for position in range(len(paths)):
        link = paths[position, row]
        if left[link] <= rounding[link]:
            left[link] = 0.0


@njit(cache=True)
def _pause_closed(
    table: Floats, paths: Numbers, moved: Numbers, place: int, left: Floats, now_s: float
) -> int:
    """The first that moved from a place on for which something is left; others have to wait."""
    while place < len(moved) and _least(paths, moved[place], left) == 0:
        if table[RATE, moved[place]] > 0:
            change_rate(table, moved[place], 0.0, now_s)
        place += 1
    return place


@njit(cache=True)
def _next_open(ways: Numbers, there: Bools, place: int, left: Floats) -> int:
    """The first row from a place on for which something is left."""
    while place < len(there):
        if there[place] and left[ways[0, place]] > 0 and _least(ways, place, left) > 0:
            return place
        place += 1
    return place


@njit(cache=True)
def _fill(
    table: Floats,
    paths: Numbers,
    rows: Numbers,
    left: Floats,
    levels: Floats,
    rates: Floats,
    floats: Floats,
    numbers: Numbers,
) -> None:
    ways, weights = np.empty((len(paths), len(rows)), np.int64), np.empty(len(rows))
    for number in range(len(rows)):
        weights[number] = table[WEIGHT, rows[number]]
        for position in range(len(paths)):
            ways[position, number] = paths[position, rows[number]]
    fill(ways, weights, left, levels, rates, floats, numbers)


@njit(cache=True)
def _least(ways: Numbers, place: int, left: Floats) -> float:
    least = np.inf
    for position in range(len(ways)):
        least = min(least, left[ways[position, place]])
    return least


@njit(cache=True)
def _take(paths: Numbers, row: int, left: Floats) -> float:
    """Take all that is left on a row's way; returns it."""
    least = _least(paths, row, left)
    if least < np.inf:
        for position in range(len(paths)):
            left[paths[position, row]] -= least
    return least


class CompiledShortestFirst(ShortestFirst):
    """Greedy by remaining bytes."""

    def __init__(self) -> None:
        super().__init__()
        # rows by what they had left to send when they were sorted
        self._rows: Numbers = np.empty(0, dtype=np.int64)
        self._left_bytes: Floats = np.empty(0)
        self._there = np.empty(0, dtype=np.bool_)  #: whether they are not among the next
        self._ways: Numbers = np.empty((0, 0), dtype=np.int64)
        # those of them that have sent since then, and those that have come
        self._moved: Numbers = np.empty(0, dtype=np.int64)
        self._moved_bytes: Floats = np.empty(0)
        self._many_moved = 0
        self._count = 0  #: rows that there were
        self._layout = -1

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            assert isinstance(group, FlowGroup)
            self._line_up(group, traffic.now_s)
            left, whole = traffic.capacities.copy(), traffic.capacities
            bytes_per_s, first_finish_s, self._many_moved = serve(
                *group.rows.whole,
                self._rows,
                self._left_bytes,
                self._there,
                self._ways,
                self._moved,
                self._moved_bytes,
                self._many_moved,
                left,
                rounding_of(left),
                traffic.now_s,
            )
            load = np.subtract(whole, left, out=np.zeros(len(left)), where=np.isfinite(whole))
            group.timed(bytes_per_s, first_finish_s, load)
        return np.inf

    def _line_up(self, group: FlowGroup, now_s: float) -> None:
        table = group.rows.whole[0]
        new = np.arange(self._count, group.rows.count)
        too_many = self._many_moved > _MANY_MOVED + _MOVED * len(self._rows)
        if too_many or len(new) > _MANY_NEW or group.layout != self._layout:
            self._sort(group, now_s)
            return
        if not group.only_ended:  # some may have been cancelled
            self._there &= table[WEIGHT, self._rows] > 0
        self._count = group.rows.count
        after = self._many_moved + len(new)
        self._moved[self._many_moved : after] = new
        self._many_moved = bring_up_to_date(table, self._moved, self._moved_bytes, after, now_s)

    def _sort(self, group: FlowGroup, now_s: float) -> None:
        table, paths = group.rows.whole
        rows = np.flatnonzero(group.weights)
        left_bytes = all_left_bytes(table, rows, now_s)
        order = np.argsort(left_bytes, kind="stable")
        self._rows, self._left_bytes = rows[order], left_bytes[order]
        self._there = np.ones(len(rows), dtype=np.bool_)
        self._ways = np.ascontiguousarray(paths[:, self._rows])
        sending = self._rows[table[RATE, self._rows] > 0]
        self._there[table[RATE, self._rows] > 0] = False
        room = 2 * len(rows) + _MANY_MOVED
        self._moved, self._moved_bytes = np.empty(room, dtype=np.int64), np.empty(room)
        self._moved[: len(sending)] = sending
        self._many_moved = bring_up_to_date(
            table, self._moved, self._moved_bytes, len(sending), now_s
        )
        self._count, self._layout = group.rows.count, group.layout
