"""``sjf`` with many open flows: what an event does not reach is left as it is.

``netemu.schedulers.reference.sjf`` decides the same.

Rows that send are a line, the shortest first, which is walked along at each decision.  Equals are
served together, as a *class*; if they are those of the last decision, and as much is left of their
links, they and what they leave stay as they are.  Rows that wait have a place in a list for each
link that they cross (see ``waiting``); they keep it, as they send nothing.  Each of them is longer
than those who filled one of its links.  So none has a turn before something is left of a link
at the place of the line where it was full last time; from there on that link's list counts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import RATE
from railyard.netemu.model.ties import SAME_SHARE
from railyard.netemu.model.traffic import RowGroup, Traffic
from railyard.netemu.schedulers.fast.loops.filling import scratch
from railyard.netemu.schedulers.fast.loops.rows import change_rate
from railyard.netemu.schedulers.fast.sjf.line import (
    CLASS,
    ENDS_S,
    LEFT,
    LINKS,
    ROW,
    SENDS,
    SIZE,
    WAY,
    enter,
    is_as_before,
    is_closed,
    line_up,
    longer,
    share,
)
from railyard.netemu.schedulers.fast.sjf.waiting import (
    first_loose,
    insert,
    least_left,
    make_room,
    place_after,
    remove,
)
from railyard.netemu.schedulers.filling import rounding_of
from railyard.netemu.schedulers.reference.sjf import SAME_BYTES, ShortestFirst


@njit(cache=True)
def serve(  # noqa: C901 (in parts, it takes 1.5 times as long: numba copies all arrays at calls)
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
    ``full_at`` is what the last that used them had left then.  Both are brought up to date.

    Returns the line of those that send from now on (``facts``, ``marks`` and its length), the lists
    of those that wait, how many links are full, at how many bytes/s all rows send, and when the
    first one finishes.
    """
    links, positions = len(left), len(paths)
    bytes_per_s, first_s = 0.0, np.inf
    floats, numbers = scratch(links)
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
            while place < len(order) and is_closed(marks, order[place], left):
                paused[many_paused] = order[place]
                many_paused, place = many_paused + 1, place + 1
            mine = facts[order[place], LEFT] if place < len(order) else np.inf
            while turn < many_full and full_at[full[turn]] < min(mine, next_key):
                link = full[turn]
                if total > first and _is_longer(full_at[link], longest):
                    break  # this class may fill it
                turn += 1
                if left[link] > 0:
                    at[link] = place_after(keys, begins[link], sizes[link], full_at[link])
                    loose[many_loose] = link
                    many_loose += 1
                    many_loose, chosen, next_key = first_loose(
                        table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                    )
            if next_key < mine and least_left(paths, rows[at[chosen]], left) == 0:
                many_loose, chosen, next_key = first_loose(
                    table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                )
                continue
            shortest = min(mine, next_key)
            if shortest == np.inf or (total > first and _is_longer(shortest, longest)):
                break
            longest = shortest
            if total == len(next_facts):
                next_facts, next_marks = longer(next_facts, next_marks)
            if mine <= next_key:
                for column in range(facts.shape[1]):  # quicker than slices, which are so short
                    next_facts[total, column] = facts[order[place], column]
                for column in range(marks.shape[1]):
                    next_marks[total, column] = marks[order[place], column]
                place += 1
            else:
                row = rows[at[chosen]]
                enter(table, paths, next_facts, next_marks, total, row, now_s)
                for position in range(positions):
                    link = paths[position, row]
                    if link < links - 1:
                        gone = remove(keys, rows, begins, sizes, link, next_key, row)
                        at[link] -= at[link] > gone
                many_loose, chosen, next_key = first_loose(
                    table, paths, keys, rows, begins, sizes, loose, at, many_loose, left
                )
            total += 1
        if total == first:
            break
        if not is_as_before(next_facts, next_marks, first, total, left, rounding):
            share(
                table,
                next_facts,
                next_marks,
                first,
                total,
                left,
                rounding,
                now_s,
                floats,
                numbers,
            )
        for number in range(first, total):
            next_marks[number, CLASS], next_marks[number, SIZE] = classes, total - first
            bytes_per_s += next_facts[number, SENDS]
            first_s = min(first_s, next_facts[number, ENDS_S])
            for position in range(positions):
                link = next_marks[number, WAY + position]
                left[link] = next_facts[number, LINKS + positions + position]
                if left[link] == 0 and now_full_at[link] == np.inf:
                    now_full[many_now_full], now_full_at[link] = link, longest
                    many_now_full += 1
        classes += 1
    full[:], full_at[:] = now_full, now_full_at
    keys, rows = _pause(table, facts, marks, paused[:many_paused], keys, rows, begins, sizes, now_s)
    return next_facts, next_marks, total, keys, rows, many_now_full, bytes_per_s, first_s


@njit(cache=True)
def _is_longer(left_bytes: float, than: float) -> bool:
    return left_bytes > than * (1 + SAME_SHARE) + SAME_BYTES


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
    positions = marks.shape[1] - WAY
    more = np.zeros(len(sizes), np.int64)
    for place in paused:
        for position in range(positions):
            more[marks[place, WAY + position]] += 1
    more[-1] = 0  # stands for no link
    keys, rows = make_room(keys, rows, begins, sizes, more)
    for place in paused:
        row = marks[place, ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for position in range(positions):
            link = marks[place, WAY + position]
            if link < len(sizes) - 1:
                insert(keys, rows, begins, sizes, link, facts[place, LEFT], row)
    return keys, rows


class CompiledShortestFirst(ShortestFirst):
    """Greedy by remaining bytes."""

    rows_stay = True

    def __init__(self) -> None:
        self._layout = -1  #: of the rows that all of this is about
        self._count = 0  #: rows that there were
        # the line of those that send, and room for the next one
        self._line = self._spare = _no_line(0)
        self._length = 0
        # those that wait, see ``waiting``
        self._keys: Floats = np.zeros(0)
        self._rows: Numbers = np.zeros(0, dtype=np.int64)
        self._begins: Numbers = np.zeros(1, dtype=np.int64)
        self._sizes: Numbers = np.zeros(0, dtype=np.int64)
        # the links that were full, see ``serve``
        self._full: Numbers = np.zeros(0, dtype=np.int64)
        self._full_at: Floats = np.zeros(0)
        self._many_full = 0

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            rows = group.as_rows
            assert rows is not None
            self._serve(rows, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _serve(self, group: RowGroup, traffic: Traffic) -> None:
        table, paths = group.rows.whole
        whole, left, now_s = traffic.capacities, traffic.capacities.copy(), traffic.now_s
        if group.layout != self._layout or len(paths) != self._line[1].shape[1] - WAY:
            self._begin(group, len(left))
        many = group.rows.count
        facts, marks = self._with_room(self._length + many - self._count)
        order = line_up(table, paths, facts, marks, self._length, self._count, many, now_s)
        served = serve(
            table,
            paths,
            facts,
            marks,
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
        line, sending, length, self._keys, self._rows = served[:5]
        self._many_full, bytes_per_s, first_s = served[5:]
        self._line, self._spare = (line, sending), (facts, marks)
        self._count, self._length = many, length
        load = np.subtract(whole, left, out=np.zeros(len(left)), where=np.isfinite(whole))
        group.timed(bytes_per_s, first_s, load, sending[:length, ROW])

    def _begin(self, group: RowGroup, links: int) -> None:
        """Know nothing but what rows there are."""
        self._layout, self._count, self._length = group.layout, 0, 0
        positions = len(group.rows.whole[1])
        self._line, self._spare = _no_line(positions), _no_line(positions)
        self._begins = np.zeros(links + 1, dtype=np.int64)
        self._sizes = np.zeros(links, dtype=np.int64)
        self._full_at, self._full = np.full(links, np.inf), np.zeros(links, dtype=np.int64)
        self._many_full = 0

    def _with_room(self, length: int) -> tuple[Floats, Numbers]:
        """The line, with room for so many rows."""
        facts, marks = self._line
        more = length - len(facts)
        if more <= 0:
            return facts, marks
        more_marks = np.empty((more, marks.shape[1]), dtype=np.int64)
        more_facts = np.empty((more, facts.shape[1]))
        return np.concatenate([facts, more_facts]), np.concatenate([marks, more_marks])


def _no_line(positions: int) -> tuple[Floats, Numbers]:
    return (
        np.empty((64, LINKS + 2 * positions)),
        np.empty((64, WAY + positions), dtype=np.int64),
    )
