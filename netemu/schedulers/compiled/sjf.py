"""``sjf`` for crowds: what an event does not reach is left as it is.

``netemu.schedulers.sjf`` is the simple version, and decides the same.

Rows that send are a line, the shortest first, which is walked along at each decision.  Equals are
served together, as a *class*; if they are those of the last decision, and as much is left of their
links, they and what they leave stay as they are.  Rows that wait have a place in a list for each
link that they cross (see ``waiting``); they keep it, as they send nothing.  Each of them is longer
than those who filled one of its links.  So none has a turn before something is left of a link
at the place of the line where it was full last time; from there on that link's list counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from netemu.flowgroups import FlowGroup
from netemu.rowtable import FINISH_S, RATE, SERVED, SINCE_S, TOTAL, WEIGHT
from netemu.schedulers.base import Floats, Numbers, Traffic
from netemu.schedulers.compiled.filling import fill, scratch
from netemu.schedulers.compiled.rows import change_rate
from netemu.schedulers.compiled.waiting import insert, make_room, place_after, remove
from netemu.schedulers.filling import rounding_of
from netemu.schedulers.sjf import SAME_BYTES, SAME_SHARE, ShortestFirst

#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: What the line knows of a row: bytes left now, and as of when its rate was set; bytes/s; when it
#: finishes; and from here on what is left of each link on its way before and after its class.
_LEFT, _WERE_LEFT, _SINCE_S, _RATE, _FINISH_S, _LINKS = range(6)
#: Its number, that of its class (-1: none yet) and how many rows that has; then its way.
_ROW, _CLASS, _SIZE, _WAY = range(4)


@njit(cache=True)
def line_up(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    count: int,
    first_new: int,
    many_rows: int,
    now_s: float,
) -> Numbers:
    """Bring the line up to date, with those rows from the ``first_new`` that have not ended.

    Returns its places in the order of what rows have left.
    """
    order, kept = np.empty(count + many_rows - first_new, np.int64), 0
    for place in range(count):
        if table[WEIGHT, marks[place, _ROW]] == 0:
            continue
        mine, passed_s = facts[place, _WERE_LEFT], now_s - facts[place, _SINCE_S]
        if passed_s > 0:
            mine = max(mine - facts[place, _RATE] * passed_s, 0.0)
        facts[place, _LEFT] = mine
        at = kept
        while at > 0 and facts[order[at - 1], _LEFT] > mine:  # most are in order already
            order[at] = order[at - 1]
            at -= 1
        order[at] = place
        kept += 1
    end = count
    for row in range(first_new, many_rows):
        if table[WEIGHT, row] > 0:
            _enter(table, paths, facts, marks, end, row, now_s)
            end += 1
    if end == count:
        return order[:kept]
    new = count + np.argsort(facts[count:end, _LEFT], kind="mergesort")
    before, later = kept - 1, len(new) - 1
    for at in range(kept + len(new) - 1, -1, -1):
        if before < 0 or (
            later >= 0 and facts[order[before], _LEFT] <= facts[new[later], _LEFT]
        ):
            order[at] = new[later]
            later -= 1
        else:
            order[at] = order[before]
            before -= 1
    return order[: kept + len(new)]


@njit(cache=True)
def _enter(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    place: int,
    row: int,
    now_s: float,
) -> None:
    """Put a row at a place of the line."""
    weight = table[WEIGHT, row]
    served = table[SERVED, row] + table[RATE, row] * max(now_s - table[SINCE_S, row], 0.0)
    left_bytes = max(table[TOTAL, row] - served * weight, 0.0)
    facts[place, _LEFT] = facts[place, _WERE_LEFT] = left_bytes
    facts[place, _SINCE_S], facts[place, _RATE] = now_s, table[RATE, row] * weight
    facts[place, _FINISH_S] = table[FINISH_S, row]
    marks[place, _ROW], marks[place, _CLASS], marks[place, _SIZE] = row, -1, 0
    for position in range(len(paths)):
        marks[place, _WAY + position] = paths[position, row]


@njit(cache=True)
def serve(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    order: Numbers,
    next_facts: Floats,
    next_marks: Numbers,
    keys: Floats,
    rows: Numbers,
    begins: Numbers,
    sizes: Numbers,
    full_at: Floats,
    full: Numbers,
    many_full: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> tuple[Floats, Numbers, int, Floats, Numbers, int, float, float]:
    """Serve all rows, the shortest first; equals share in a max-min way.

    ``full`` are the links that were full at the end, in the order in which they became so;
    ``full_at`` tells what the last that used them had left then.  Both are brought up to date.

    Returns the line of those that send from now on (``facts``, ``marks`` and its length), the lists
    of those that wait, how many links are full, at how many bytes/s all rows send, and when the
    first one finishes.
    """
    links, positions = len(left), len(paths)
    bytes_per_s, first_s = 0.0, np.inf
    levels, (floats, numbers) = np.empty(links), scratch(links)
    paused, many_paused = np.empty(len(order), np.int64), 0
    now_full, now_full_at, many_now_full = np.empty(links, np.int64), np.full(links, np.inf), 0
    for link in range(links):
        if left[link] == 0:
            now_full[many_now_full], now_full_at[link] = link, -1.0
            many_now_full += 1
    # links that are free beyond where they were full, and where their lists have to go on
    loose, at, many_loose = np.empty(links, np.int64), np.full(links, -1), 0
    turn, place, total, classes = 0, 0, 0, 0
    chosen, next_key = -1, np.inf  # the first of those in these lists
    while True:
        first, longest = total, -1.0
        while True:
            while place < len(order) and _is_closed(marks, order[place], left):
                paused[many_paused] = order[place]
                many_paused, place = many_paused + 1, place + 1
            mine = facts[order[place], _LEFT] if place < len(order) else np.inf
            while turn < many_full and full_at[full[turn]] < min(mine, next_key):
                link = full[turn]
                if total > first and _is_longer(full_at[link], longest):
                    break  # this class may fill it
                turn += 1
                if left[link] > 0:
                    at[link] = place_after(keys, begins[link], sizes[link], full_at[link])
                    loose[many_loose] = link
                    many_loose += 1
                    many_loose, chosen, next_key = _first_loose(
                        table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                    )
            if next_key < mine and _least(paths, rows[at[chosen]], left) == 0:
                many_loose, chosen, next_key = _first_loose(
                    table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                )
                continue
            shortest = min(mine, next_key)
            if shortest == np.inf or (total > first and _is_longer(shortest, longest)):
                break
            longest = shortest
            if total == len(next_facts):
                next_facts, next_marks = _longer(next_facts), _longer_marks(next_marks)
            if mine <= next_key:
                for column in range(facts.shape[1]):  # quicker than slices, which are so short
                    next_facts[total, column] = facts[order[place], column]
                for column in range(marks.shape[1]):
                    next_marks[total, column] = marks[order[place], column]
                place += 1
            else:
                row = rows[at[chosen]]
                _enter(table, paths, next_facts, next_marks, total, row, now_s)
                for position in range(positions):
                    link = paths[position, row]
                    if link < links - 1:
                        gone = remove(keys, rows, begins, sizes, link, next_key, row)
                        at[link] -= at[link] > gone
                many_loose, chosen, next_key = _first_loose(
                    table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                )
            total += 1
        if total == first:
            break
        if not _as_before(next_facts, next_marks, first, total, left, rounding):
            _serve_class(
                table,
                next_facts,
                next_marks,
                first,
                total,
                left,
                rounding,
                now_s,
                levels,
                floats,
                numbers,
            )
        for number in range(first, total):
            next_marks[number, _CLASS], next_marks[number, _SIZE] = classes, total - first
            bytes_per_s += next_facts[number, _RATE]
            first_s = min(first_s, next_facts[number, _FINISH_S])
            for position in range(positions):
                link = next_marks[number, _WAY + position]
                left[link] = next_facts[number, _LINKS + positions + position]
                if left[link] == 0 and now_full_at[link] == np.inf:
                    now_full[many_now_full], now_full_at[link] = link, longest
                    many_now_full += 1
        classes += 1
    full[:], full_at[:] = now_full, now_full_at
    keys, rows = _pause(
        table, facts, marks, paused[:many_paused], keys, rows, begins, sizes, now_s
    )
    return next_facts, next_marks, total, keys, rows, many_now_full, bytes_per_s, first_s


@njit(cache=True)
def _first_loose(
    table: Floats,
    paths: Numbers,
    keys: Floats,
    rows: Numbers,
    begins: Numbers,
    sizes: Numbers,
    loose: Numbers,
    at: Numbers,
    many_loose: int,
    left: Floats,
) -> tuple[int, int, float]:
    """The list with the shortest row that can send, of lists from the place that they are ``at``.

    Those in which none can any more are left out.  Returns how many lists are left, which it is
    (a link), and what the row has left.
    """
    kept, chosen, least = 0, -1, np.inf
    for number in range(many_loose):
        link = loose[number]
        place, end = at[link], begins[link] + sizes[link]
        if left[link] == 0:
            continue
        while place < end and (
            _least(paths, rows[place], left) == 0 or table[WEIGHT, rows[place]] == 0
        ):
            place += 1
        at[link] = place
        if place == end:
            continue
        loose[kept] = link
        kept += 1
        if keys[place] < least:
            chosen, least = link, keys[place]
    return kept, chosen, least


@njit(cache=True)
def _longer(facts: Floats) -> Floats:
    longer = np.empty((2 * facts.shape[0], facts.shape[1]))
    longer[: len(facts)] = facts
    return longer


@njit(cache=True)
def _longer_marks(marks: Numbers) -> Numbers:
    longer = np.empty((2 * marks.shape[0], marks.shape[1]), np.int64)
    longer[: len(marks)] = marks
    return longer


@njit(cache=True)
def _is_longer(left_bytes: float, than: float) -> bool:
    return left_bytes > than * (1 + SAME_SHARE) + SAME_BYTES


@njit(cache=True)
def _least(ways: Numbers, place: int, left: Floats) -> float:
    """What is left on a way."""
    least = np.inf
    for position in range(len(ways)):
        least = min(least, left[ways[position, place]])
    return least


@njit(cache=True)
def _is_closed(marks: Numbers, place: int, left: Floats) -> bool:
    """Whether nothing is left on the way of the row at a place of the line."""
    for column in range(_WAY, marks.shape[1]):
        if left[marks[place, column]] == 0:
            return True
    return False


@njit(cache=True)
def _as_before(
    facts: Floats, marks: Numbers, first: int, end: int, left: Floats, rounding: Floats
) -> bool:
    """Whether these rows were a class last time, and just as much was left of their links."""
    number, positions = marks[first, _CLASS], marks.shape[1] - _WAY
    if number < 0 or marks[first, _SIZE] != end - first:
        return False
    for place in range(first, end):
        if marks[place, _CLASS] != number:
            return False
        for position in range(positions):
            link, was = marks[place, _WAY + position], facts[place, _LINKS + position]
            if left[link] != was and not abs(left[link] - was) <= rounding[link]:
                return False
    return True


@njit(cache=True)
def _serve_class(
    table: Floats,
    facts: Floats,
    marks: Numbers,
    first: int,
    end: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
    levels: Floats,
    floats: Floats,
    numbers: Numbers,
) -> None:
    """Share what is ``left`` among the rows at these places of the line."""
    positions, some = marks.shape[1] - _WAY, end - first
    ways, weights, rates = np.empty((positions, some), np.int64), np.empty(some), np.empty(some)
    for number in range(some):
        weights[number] = table[WEIGHT, marks[first + number, _ROW]]
        for position in range(positions):
            link = ways[position, number] = marks[first + number, _WAY + position]
            facts[first + number, _LINKS + position] = left[link]
    if some == 1:
        least = _least(ways, 0, left)
        rates[0] = least / weights[0]
        if least < np.inf:
            for position in range(positions):
                left[ways[position, 0]] -= least
    else:
        fill(ways, weights, left, levels, rates, floats, numbers)
    for number in range(some):
        place, row = first + number, marks[first + number, _ROW]
        if abs(rates[number] - table[RATE, row]) > table[RATE, row] * _STAYS:
            change_rate(table, row, rates[number], now_s)
            facts[place, _RATE] = rates[number] * weights[number]
            facts[place, _WERE_LEFT], facts[place, _SINCE_S] = facts[place, _LEFT], now_s
            facts[place, _FINISH_S] = table[FINISH_S, row]
        for position in range(positions):
            link = ways[position, number]
            if left[link] <= rounding[link]:
                left[link] = 0.0
            facts[place, _LINKS + positions + position] = left[link]


@njit(cache=True)
def _pause(
    table: Floats,
    facts: Floats,
    marks: Numbers,
    paused: Numbers,
    keys: Floats,
    rows: Numbers,
    begins: Numbers,
    sizes: Numbers,
    now_s: float,
) -> tuple[Floats, Numbers]:
    """Let the rows at these places of the line wait; returns the lists of those that do."""
    if len(paused) == 0:
        return keys, rows
    positions = marks.shape[1] - _WAY
    more = np.zeros(len(sizes), np.int64)
    for place in paused:
        for position in range(positions):
            more[marks[place, _WAY + position]] += 1
    more[-1] = 0  # stands for no link
    keys, rows = make_room(keys, rows, begins, sizes, more)
    for place in paused:
        row = marks[place, _ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for position in range(positions):
            link = marks[place, _WAY + position]
            if link < len(sizes) - 1:
                insert(keys, rows, begins, sizes, link, facts[place, _LEFT], row)
    return keys, rows


class CompiledShortestFirst(ShortestFirst):
    """Greedy by remaining bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = -1  #: of the rows that all of this is about
        self._count = 0  #: rows that there were
        # the line of those that send, and room for the next one
        self._line = _no_line(0)
        self._spare = _no_line(0)
        self._length = 0
        # those that wait
        self._keys: Floats = np.empty(0)
        self._rows: Numbers = np.empty(0, dtype=np.int64)
        self._begins: Numbers = np.zeros(1, dtype=np.int64)
        self._sizes: Numbers = np.zeros(0, dtype=np.int64)
        # the links that are full
        self._full: Numbers = np.zeros(0, dtype=np.int64)
        self._full_at: Floats = np.zeros(0)
        self._many_full = 0

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            assert isinstance(group, FlowGroup)
            self._serve(group, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _serve(self, group: FlowGroup, traffic: Traffic) -> None:
        table, paths = group.rows.whole
        whole, left, now_s = traffic.capacities, traffic.capacities.copy(), traffic.now_s
        if group.layout != self._layout or len(paths) != len(self._line[1][0]) - _WAY:
            self._begin(group, len(left))
        room, many = len(self._line[0]), group.rows.count
        if room < self._length + many - self._count:
            more = self._length + many - self._count
            self._line = tuple(_with_room(array, more) for array in self._line)
        order = line_up(table, paths, *self._line, self._length, self._count, many, now_s)
        *line, self._length, self._keys, self._rows, self._many_full, bytes_per_s, first_s = serve(
            table,
            paths,
            *self._line,
            order,
            *self._spare,
            self._keys,
            self._rows,
            self._begins,
            self._sizes,
            self._full_at,
            self._full,
            self._many_full,
            left,
            rounding_of(left),
            now_s,
        )
        self._line, self._spare, self._count = tuple(line), self._line, many
        load = np.subtract(whole, left, out=np.zeros(len(left)), where=np.isfinite(whole))
        sending = self._line[1][: self._length, _ROW]
        group.timed(bytes_per_s, first_s, load, sending)

    def _begin(self, group: FlowGroup, links: int) -> None:
        """Know nothing but what rows there are."""
        self._layout, self._count, self._length = group.layout, 0, 0
        positions = len(group.rows.whole[1])
        self._line, self._spare = _no_line(positions), _no_line(positions)
        self._sizes, self._begins = np.zeros(links, np.int64), np.zeros(links + 1, np.int64)
        self._full_at, self._full = np.full(links, np.inf), np.zeros(links, np.int64)
        self._many_full = 0


def _no_line(positions: int) -> tuple[Floats, Numbers]:
    return np.empty((64, _LINKS + 2 * positions)), np.empty((64, _WAY + positions), np.int64)


def _with_room(array: Any, more: int) -> Any:
    return np.concatenate([array, np.empty((more, array.shape[1]), array.dtype)])
