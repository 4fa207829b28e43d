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

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import RATE
from railyard.netemu.model.traffic import RowGroup, Traffic
from railyard.netemu.schedulers.fast.loops.filling import scratch
from railyard.netemu.schedulers.fast.loops.rows import change_rate
from railyard.netemu.schedulers.fast.sjf.senders import (
    ENDS_S,
    FREE,
    LEFT,
    LINKS,
    NEXT,
    ORDER,
    PATH,
    PAUSED,
    ROW,
    ROWS,
    SENDS,
    SIZE,
    TIE,
    Senders,
    enter,
    in_order,
    is_as_before,
    is_closed,
    is_longer,
    no_senders,
    share,
    size_as_before,
    take,
    with_room,
)
from railyard.netemu.schedulers.fast.sjf.waiting import (
    first_reopened,
    has_room,
    insert,
    least_left,
    make_room,
    place_after,
    remove,
)
from railyard.netemu.schedulers.filling import rounding_of
from railyard.netemu.schedulers.reference.sjf import ShortestFirst

#: ``Links.amounts``: bytes/s of each link, those that count as none, and those that are left; how
#: many bytes the rows had left that filled it at the last decision, and at this one (inf: none).
CAPACITY, ROUNDING, REST, FULL_AT, NOW_FULL_AT = AMOUNTS = range(5)
#: ``Links.numbers``: where the list of its rows that wait ends, and how many these are; where the
#: list is to be gone on with (-1: nowhere).  Then lists of links: those that were full after the
#: last decision, in the order in which they were filled, those that are now, and reopened ones.
ENDS, SIZES, AT, FULL, NOW_FULL, REOPENED = NUMBERS = range(6)


class Links(NamedTuple):
    """What is known of links."""

    amounts: Floats  #: [column, link]
    numbers: Numbers  #: [column, link]


@njit(cache=True)
def serve(  # noqa: C901 (in parts, it takes 1.5 times as long: numba copies all arrays at calls)
    table: Floats,
    paths: Numbers,
    senders: Senders,
    keys: Floats,
    rows: Numbers,
    known: Links,
    load: Floats,
    count: int,
    first_new: int,
    row_count: int,
    full_count: int,
    ties: int,
    now_s: float,
) -> tuple[int, int, int, int, float, float]:
    """Serve all rows, the shortest first; rows that tie share in a max-min way.

    There are ``count`` records, rows are new from the ``first_new`` on, and ``ties`` have had a
    number.  All arrays are brought up to date; ``load`` gets bytes/s by link.

    Returns how many records there are now, how many links are full, how many ties have had a
    number, how many rows are still to be paused, as the lists of those that wait had no room, the
    bytes/s of all rows, and the time at which the first one finishes.
    """
    facts, marks, amounts, numbers = senders.facts, senders.marks, known.amounts, known.numbers
    order, following, paused = senders.lists[ORDER], senders.lists[NEXT], senders.lists[PAUSED]
    left, rounding = amounts[REST], amounts[ROUNDING]
    full_at, now_full_at = amounts[FULL_AT], amounts[NOW_FULL_AT]
    ends, sizes, at = numbers[ENDS], numbers[SIZES], numbers[AT]
    full, now_full, reopened = numbers[FULL], numbers[NOW_FULL], numbers[REOPENED]
    links, positions = len(left), len(paths)
    heap_floats, heap_numbers = scratch(links)
    count = in_order(table, paths, senders, count, first_new, row_count, now_s)
    in_use, paused_count, now_full_count, reopened_count = count, 0, 0, 0
    left[:], at[:], now_full_at[:] = amounts[CAPACITY], -1, np.inf
    for link in range(links):
        if left[link] == 0:
            now_full[now_full_count], now_full_at[link] = link, -1.0
            now_full_count += 1
    next_full, place, total, bytes_per_s, first_s = 0, 0, 0, 0.0, np.inf
    chosen, next_key = -1, np.inf  # the reopened link with the shortest row, and that row's bytes
    while True:
        first, longest, size = total, -1.0, 0
        while next_full < full_count and left[full[next_full]] == 0:
            next_full += 1
        if place < count:
            size = size_as_before(facts, marks, order, place, count, left, rounding)
        if size > 0:
            longest = facts[order[place + size - 1], LEFT]
            if not is_longer(next_key, longest) or (
                next_full < full_count and not is_longer(full_at[full[next_full]], longest)
            ):
                size, longest = 0, -1.0  # rows that wait may come first, or join it
        for _ in range(size):
            following[total] = order[place]
            total, place = total + 1, place + 1
        is_same = size > 0
        while not is_same:
            while place < count and is_closed(marks, order[place], left):
                paused[paused_count] = order[place]
                paused_count, place = paused_count + 1, place + 1
            mine = facts[order[place], LEFT] if place < count else np.inf
            while next_full < full_count and full_at[full[next_full]] < min(mine, next_key):
                link = full[next_full]
                if total > first and is_longer(full_at[link], longest):
                    break  # rows of this tie may fill it
                next_full += 1
                if left[link] > 0:
                    at[link] = place_after(keys, ends[link], sizes[link], full_at[link])
                    reopened[reopened_count] = link
                    reopened_count += 1
                    reopened_count, chosen, next_key = first_reopened(
                        table, paths, keys, rows, ends, reopened, at, reopened_count, left
                    )
            if next_key < mine and least_left(paths, rows[at[chosen]], left) == 0:
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, keys, rows, ends, reopened, at, reopened_count, left
                )
                continue
            shortest = min(mine, next_key)
            if shortest == np.inf or (total > first and is_longer(shortest, longest)):
                break
            longest = shortest
            if mine <= next_key:
                following[total] = order[place]
                place += 1
            else:
                row = rows[at[chosen]]
                in_use += 1
                following[total] = senders.lists[FREE, len(order) - in_use]
                enter(table, paths, senders, following[total], row, now_s)
                for position in range(positions):
                    link = paths[position, row]
                    if link < links - 1:
                        gone = remove(keys, rows, ends, sizes, link, next_key, row)
                        at[link] += at[link] <= gone
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, keys, rows, ends, reopened, at, reopened_count, left
                )
            total += 1
        if total == first:
            break
        tie = following[first:total]
        if not is_same:
            if not is_as_before(facts, marks, tie, left, rounding):
                if len(tie) == 1:
                    take(table, senders, tie[0], left, rounding, now_s)
                else:
                    share(table, senders, tie, left, rounding, now_s, heap_floats, heap_numbers)
            for record in tie:
                marks[record, TIE], marks[record, SIZE] = ties, len(tie)
            ties += 1
        for record in tie:
            bytes_per_s += facts[record, SENDS]
            first_s = min(first_s, facts[record, ENDS_S])
            for position in range(positions):
                link = marks[record, PATH + position]
                left[link] = facts[record, LINKS + positions + position]
                if left[link] == 0 and now_full_at[link] == np.inf:
                    now_full[now_full_count], now_full_at[link] = link, longest
                    now_full_count += 1
    for place in range(total):
        order[place] = following[place]
        senders.lists[ROWS, place] = marks[following[place], ROW]
    full[:], full_at[:] = now_full, now_full_at
    for link in range(links):
        load[link] = amounts[CAPACITY, link] - left[link] if left[link] < np.inf else 0.0
    if paused_count and has_room(ends, sizes, _links_of(marks, paused[:paused_count], links)):
        _pause(table, senders, keys, rows, known, total, paused_count, now_s)
        paused_count = 0
    return total, now_full_count, ties, paused_count, bytes_per_s, first_s


@njit(cache=True)
def _links_of(marks: Numbers, records: Numbers, links: int) -> Numbers:
    """How many of these records' rows cross each link."""
    crossing = np.zeros(links, np.int64)
    for record in records:
        for column in range(PATH, marks.shape[1]):
            crossing[marks[record, column]] += 1
    crossing[-1] = 0  # stands for no link
    return crossing


@njit(cache=True)
def _pause(
    table: Floats,
    senders: Senders,
    keys: Floats,
    rows: Numbers,
    known: Links,
    count: int,
    paused_count: int,
    now_s: float,
) -> None:
    """Move rows from the records that are paused to the lists of rows that wait.

    ``count`` records are left.
    """
    facts, marks, free = senders.facts, senders.marks, senders.lists[FREE]
    ends, sizes = known.numbers[ENDS], known.numbers[SIZES]
    free_count = len(free) - count - paused_count
    for record in senders.lists[PAUSED, :paused_count]:
        row = marks[record, ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for column in range(PATH, marks.shape[1]):
            link = marks[record, column]
            if link < len(sizes) - 1:
                insert(keys, rows, ends, sizes, link, facts[record, LEFT], row)
        free[free_count] = record
        free_count += 1


@njit(cache=True)
def pause_with_room(
    table: Floats,
    senders: Senders,
    keys: Floats,
    rows: Numbers,
    known: Links,
    count: int,
    paused_count: int,
    now_s: float,
) -> tuple[Floats, Numbers]:
    """The same, with room made for them; returns the lists of rows that wait."""
    ends, sizes = known.numbers[ENDS], known.numbers[SIZES]
    more = _links_of(senders.marks, senders.lists[PAUSED, :paused_count], len(sizes))
    keys, rows = make_room(keys, rows, ends, sizes, more)
    _pause(table, senders, keys, rows, known, count, paused_count, now_s)
    return keys, rows


class CompiledShortestFirst(ShortestFirst):
    """Flows in the order of what they have left to send."""

    rows_stay = True

    def __init__(self) -> None:
        self._layout = -1  #: the group's, at the last decision; another one: start anew
        self._row_count = 0  #: rows at the last decision
        self._senders = no_senders(0)
        self._count = 0  #: how many records there are
        # rows that wait, see ``waiting``
        self._keys: Floats = np.zeros(0)
        self._rows: Numbers = np.zeros(0, dtype=np.int64)
        self._links = Links(np.zeros((len(AMOUNTS), 0)), np.zeros((len(NUMBERS), 0), np.int64))
        self._full_count = 0  #: how many links were full
        self._ties = 0  #: how many ties have had a number
        self._capacities: Floats = np.zeros(0)

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
        whole, now_s, row_count = traffic.capacities, traffic.now_s, group.rows.count
        if group.layout != self._layout or len(paths) != self._senders.marks.shape[1] - PATH:
            self._begin(group, whole)
        if whole is not self._capacities:
            self._capacities = whole
            self._links.amounts[CAPACITY], self._links.amounts[ROUNDING] = whole, rounding_of(whole)
        if row_count > len(self._senders.facts):
            self._senders = with_room(self._senders, self._count, len(table[0]))
        load = np.empty(len(whole))
        self._count, self._full_count, self._ties, paused_count, bytes_per_s, first_s = serve(
            table,
            paths,
            self._senders,
            self._keys,
            self._rows,
            self._links,
            load,
            self._count,
            self._row_count,
            row_count,
            self._full_count,
            self._ties,
            now_s,
        )
        self._row_count = row_count
        if paused_count:
            self._keys, self._rows = pause_with_room(
                table,
                self._senders,
                self._keys,
                self._rows,
                self._links,
                self._count,
                paused_count,
                now_s,
            )
        group.timed(bytes_per_s, first_s, load, self._senders.lists[ROWS, : self._count])

    def _begin(self, group: RowGroup, capacities: Floats) -> None:
        """Start anew, with all rows as new ones."""
        self._layout, self._row_count, self._count, links = group.layout, 0, 0, len(capacities)
        self._senders = no_senders(len(group.rows.whole[1]))
        self._links = Links(
            np.zeros((len(AMOUNTS), links)), np.zeros((len(NUMBERS), links), np.int64)
        )
        self._keys, self._rows = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._full_count, self._capacities = 0, np.zeros(0)
