"""``sjf``, compiled: what an event does not reach is left as it is.

``netemu.schedulers.reference.sjf`` decides the same.

Rows that send have records (``senders``), the shortest first, and each decision goes through them
once.  Rows that have equally much left are served together, as a *tie*; if a tie has the rows of
the last decision, and as much is left of their links, its rates stay.

Rows that wait have an entry in a list for each link that they cross (``waiting``), and keep it as
long as they send nothing.  Each of them is longer than the rows that filled one of its links.  So
none of them can send unless more is left of a link than at the last decision: such a link is
*reopened*, and its list is looked at from the length on at which the link was full.
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
from railyard.netemu.schedulers.fast.sjf.senders import (
    ENDS_S,
    LEFT,
    LINKS,
    PATH,
    ROW,
    SENDS,
    SIZE,
    TIE,
    enter,
    in_order,
    is_as_before,
    is_closed,
    share,
    with_double_room,
)
from railyard.netemu.schedulers.fast.sjf.waiting import (
    first_reopened,
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
    full_count: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> tuple[Floats, Numbers, int, Floats, Numbers, int, float, float]:
    """Serve all rows, the shortest first; rows that tie share in a max-min way.

    ``full`` are the links that were full after the last decision, in the order in which they were
    filled; ``full_at`` [link] is how many bytes the rows that filled them had left.  Both are
    brought up to date.

    Returns the records of rows that send from now on (``facts``, ``marks`` and their number), the
    lists of rows that wait (``keys`` and ``rows``), how many links are full, the bytes/s of all
    rows, and the time at which the first one finishes.
    """
    links, positions = len(left), len(paths)
    bytes_per_s, first_s = 0.0, np.inf
    floats, numbers = scratch(links)
    paused, paused_count = np.empty(len(order), np.int64), 0
    now_full, now_full_at, now_full_count = np.empty(links, np.int64), np.full(links, np.inf), 0
    for link in range(links):
        if left[link] == 0:
            now_full[now_full_count], now_full_at[link] = link, -1.0
            now_full_count += 1
    # reopened links, and by link where its list is to be gone on with
    reopened, at, reopened_count = np.empty(links, np.int64), np.full(links, -1), 0
    next_full, place, total, ties = 0, 0, 0, 0
    chosen, next_key = -1, np.inf  # the reopened link with the shortest row, and that row's bytes
    while True:
        first, longest = total, -1.0
        while True:
            while place < len(order) and is_closed(marks, order[place], left):
                paused[paused_count] = order[place]
                paused_count, place = paused_count + 1, place + 1
            mine = facts[order[place], LEFT] if place < len(order) else np.inf
            while next_full < full_count and full_at[full[next_full]] < min(mine, next_key):
                link = full[next_full]
                if total > first and _is_longer(full_at[link], longest):
                    break  # rows of this tie may fill it
                next_full += 1
                if left[link] > 0:
                    at[link] = place_after(keys, begins[link], sizes[link], full_at[link])
                    reopened[reopened_count] = link
                    reopened_count += 1
                    reopened_count, chosen, next_key = first_reopened(
                        table, paths, keys, rows, begins, sizes, reopened, at, reopened_count, left
                    )
            if next_key < mine and least_left(paths, rows[at[chosen]], left) == 0:
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, keys, rows, begins, sizes, reopened, at, reopened_count, left
                )
                continue
            shortest = min(mine, next_key)
            if shortest == np.inf or (total > first and _is_longer(shortest, longest)):
                break
            longest = shortest
            if total == len(next_facts):
                next_facts, next_marks = with_double_room(next_facts, next_marks)
            if mine <= next_key:
                for column in range(facts.shape[1]):  # quicker than slices that are so short
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
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, keys, rows, begins, sizes, reopened, at, reopened_count, left
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
            next_marks[number, TIE], next_marks[number, SIZE] = ties, total - first
            bytes_per_s += next_facts[number, SENDS]
            first_s = min(first_s, next_facts[number, ENDS_S])
            for position in range(positions):
                link = next_marks[number, PATH + position]
                left[link] = next_facts[number, LINKS + positions + position]
                if left[link] == 0 and now_full_at[link] == np.inf:
                    now_full[now_full_count], now_full_at[link] = link, longest
                    now_full_count += 1
        ties += 1
    full[:], full_at[:] = now_full, now_full_at
    keys, rows = _pause(
        table, facts, marks, paused[:paused_count], keys, rows, begins, sizes, now_s
    )
    return next_facts, next_marks, total, keys, rows, now_full_count, bytes_per_s, first_s


@njit(cache=True)
def _is_longer(left_bytes: float, than: float) -> bool:
    """Whether two rows' bytes differ by more than rounding, the first being larger."""
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
    """Move the rows at these places to the lists of rows that wait; returns these lists."""
    if len(paused) == 0:
        return keys, rows
    positions = marks.shape[1] - PATH
    more = np.zeros(len(sizes), np.int64)
    for place in paused:
        for position in range(positions):
            more[marks[place, PATH + position]] += 1
    more[-1] = 0  # stands for no link
    keys, rows = make_room(keys, rows, begins, sizes, more)
    for place in paused:
        row = marks[place, ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for position in range(positions):
            link = marks[place, PATH + position]
            if link < len(sizes) - 1:
                insert(keys, rows, begins, sizes, link, facts[place, LEFT], row)
    return keys, rows


class CompiledShortestFirst(ShortestFirst):
    """Flows in the order of what they have left to send."""

    rows_stay = True

    def __init__(self) -> None:
        self._layout = -1  #: the group's, at the last decision; another one: start anew
        self._count = 0  #: rows at the last decision
        # records of rows that send (``facts`` and ``marks``), and room for the next decision's
        self._senders = self._spare = _no_senders(0)
        self._length = 0
        # rows that wait, see ``waiting``
        self._keys: Floats = np.zeros(0)
        self._rows: Numbers = np.zeros(0, dtype=np.int64)
        self._begins: Numbers = np.zeros(1, dtype=np.int64)
        self._sizes: Numbers = np.zeros(0, dtype=np.int64)
        # links that were full, see ``serve``
        self._full: Numbers = np.zeros(0, dtype=np.int64)
        self._full_at: Floats = np.zeros(0)
        self._full_count = 0
        self._capacities: Floats = np.zeros(0)
        self._rounding: Floats = np.zeros(0)  #: bytes/s of each link that count as none
        self._limited = np.zeros(0, dtype=np.bool_)  #: whether there is a limit to a link

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
        if group.layout != self._layout or len(paths) != self._senders[1].shape[1] - PATH:
            self._begin(group, len(left))
        if whole is not self._capacities:
            self._capacities = whole
            self._rounding, self._limited = rounding_of(whole), np.isfinite(whole)
        many = group.rows.count
        facts, marks = self._with_room(self._length + many - self._count)
        order = in_order(table, paths, facts, marks, self._length, self._count, many, now_s)
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
            self._full_count,
            left,
            self._rounding,
            now_s,
        )
        sent_facts, sent_marks, length, self._keys, self._rows = served[:5]
        self._full_count, bytes_per_s, first_s = served[5:]
        self._senders, self._spare = (sent_facts, sent_marks), (facts, marks)
        self._count, self._length = many, length
        load = np.subtract(whole, left, out=np.zeros(len(left)), where=self._limited)
        group.timed(bytes_per_s, first_s, load, sent_marks[:length, ROW])

    def _begin(self, group: RowGroup, links: int) -> None:
        """Start anew, with all rows as new ones."""
        self._layout, self._count, self._length = group.layout, 0, 0
        positions = len(group.rows.whole[1])
        self._senders, self._spare = _no_senders(positions), _no_senders(positions)
        self._begins = np.zeros(links + 1, dtype=np.int64)
        self._sizes = np.zeros(links, dtype=np.int64)
        self._full_at, self._full = np.full(links, np.inf), np.zeros(links, dtype=np.int64)
        self._full_count = 0

    def _with_room(self, length: int) -> tuple[Floats, Numbers]:
        """The records of rows that send, with room for so many."""
        facts, marks = self._senders
        more = length - len(facts)
        if more <= 0:
            return facts, marks
        more_marks = np.empty((more, marks.shape[1]), dtype=np.int64)
        more_facts = np.empty((more, facts.shape[1]))
        return np.concatenate([facts, more_facts]), np.concatenate([marks, more_marks])


def _no_senders(positions: int) -> tuple[Floats, Numbers]:
    return (
        np.empty((64, LINKS + 2 * positions)),
        np.empty((64, PATH + positions), dtype=np.int64),
    )
