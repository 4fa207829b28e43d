"""One decision of ``sjf``: all rows are served, the shortest first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import RATE
from railyard.netemu.schedulers.fast.loops.filling import scratch
from railyard.netemu.schedulers.fast.loops.rows import change_rate
from railyard.netemu.schedulers.fast.sjf.senders import (
    COUNT,
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
    TIES,
    Senders,
    enter,
    in_order,
    is_as_before,
    is_closed,
    is_longer,
    share,
    take,
)
from railyard.netemu.schedulers.fast.sjf.waiting import (
    Waiting,
    first_reopened,
    insert,
    least_left,
    place_after,
    remove,
    with_room_for,
)

#: ``Links.amounts``: bytes/s of each link, those that count as none, and those that are left; how
#: many bytes the rows had left that filled it at the last decision, and at this one (inf: none);
#: bytes/s that rows put on it.
CAPACITY, ROUNDING, REST, FULL_AT, NOW_FULL_AT, LOAD = AMOUNTS = range(6)
#: ``Links.numbers``: where the list of a link's rows that wait is to be gone on with (-1: nowhere).
#: Then lists of links: those that were full after the last decision, in the order in which they
#: were filled, with -1 behind the last one; those that are now; and reopened ones.
AT, FULL, NOW_FULL, REOPENED = NUMBERS = range(4)
#: Each turn takes a row or passes over one at a link, but for one turn for each tie.
_TURNS = 4


class Links(NamedTuple):
    """What is known of links."""

    amounts: Floats  #: [column, link]
    numbers: Numbers  #: [column, link]


def fresh_links(many: int) -> Links:
    """So many links, of which nothing is known."""
    return Links(np.full((len(AMOUNTS), many), np.inf), np.full((len(NUMBERS), many), -1))


class Served(NamedTuple):
    """What a decision comes to."""

    paused: int  #: how many rows that sent before have to be paused
    bytes_per_s: float  #: of all rows
    first_s: float  #: when the first row finishes; inf: none does


@njit(cache=True)
def serve(  # noqa: C901 (in parts, it takes 1.5 times as long: numba copies all arrays at calls)
    table: Floats,
    paths: Numbers,
    row_count: int,
    senders: Senders,
    waiting: Waiting,
    known: Links,
    now_s: float,
) -> Served:
    """Serve all rows, the shortest first; rows that tie share in a max-min way.

    All arrays are brought up to date, but for rows that are to be paused.
    """
    facts, marks, amounts, numbers = senders.facts, senders.marks, known.amounts, known.numbers
    order, following, paused = senders.lists[ORDER], senders.lists[NEXT], senders.lists[PAUSED]
    left, rounding = amounts[REST], amounts[ROUNDING]
    full_at, now_full_at = amounts[FULL_AT], amounts[NOW_FULL_AT]
    at, full, now_full, reopened = numbers[AT], numbers[FULL], numbers[NOW_FULL], numbers[REOPENED]
    rows, free, sending = waiting.rows, senders.lists[FREE], senders.lists[ROWS]
    counts = senders.counts
    links, positions = len(left), len(paths)
    heap_floats, heap_numbers = scratch(links)
    count = in_order(table, paths, senders, row_count, now_s)
    in_use, paused_count, now_full_count, reopened_count = count, 0, 0, 0
    left[:], at[:], now_full_at[:] = amounts[CAPACITY], -1, np.inf
    for link in range(links):
        if left[link] == 0:
            now_full[now_full_count], now_full_at[link] = link, -1.0
            now_full_count += 1
    next_full, place, total, bytes_per_s, first_s = 0, 0, 0, 0.0, np.inf
    chosen, next_key = -1, np.inf  # the reopened link with the shortest row, and that row's bytes
    turns = _TURNS * (row_count + 1) * (positions + 1) + links
    while True:
        first, longest, end = total, -1.0, place
        while full[next_full] >= 0 and left[full[next_full]] == 0:
            next_full += 1
        # Does the next tie have the same rows as before, and as much left of their links?  Not a
        # function: to count references to its arrays took a third of the time of all loops
        if place < count and place + marks[order[place], SIZE] <= count:
            end = place + marks[order[place], SIZE]
            number, last = marks[order[place], TIE], facts[order[place], LEFT]
        is_same = end > place
        for there in range(place, end):
            record = order[there]
            is_same &= marks[record, TIE] == number and not is_longer(facts[record, LEFT], last)
            last = facts[record, LEFT]
            for position in range(positions):
                link, was = marks[record, PATH + position], facts[record, LINKS + position]
                is_same &= left[link] == was or abs(left[link] - was) <= rounding[link]
            if not is_same:
                break
        if is_same:  # unless other rows may come first, or join it
            others = min(next_key, facts[order[end], LEFT]) if end < count else next_key
            if full[next_full] >= 0:
                others = min(others, full_at[full[next_full]])
            is_same = is_longer(others, last)
        if is_same:
            longest = last
            for there in range(place, end):
                following[total] = order[there]
                total += 1
            place = end
        while not is_same:
            turns -= 1
            if turns < 0:
                raise InvariantError("sjf: rows are served without an end")
            while place < count and is_closed(marks, order[place], left):
                paused[paused_count] = order[place]
                paused_count, place = paused_count + 1, place + 1
            mine = facts[order[place], LEFT] if place < count else np.inf
            while full[next_full] >= 0 and full_at[full[next_full]] < min(mine, next_key):
                link = full[next_full]
                if total > first and is_longer(full_at[link], longest):
                    break  # rows of this tie may fill it
                next_full += 1
                if left[link] > 0:
                    at[link] = place_after(waiting, link, full_at[link])
                    reopened[reopened_count] = link
                    reopened_count += 1
                    reopened_count, chosen, next_key = first_reopened(
                        table, paths, waiting, reopened, at, reopened_count, left
                    )
            if next_key < mine and least_left(paths, rows[at[chosen]], left) == 0:
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, waiting, reopened, at, reopened_count, left
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
                following[total] = free[len(order) - in_use]
                enter(table, paths, senders, following[total], row, now_s)
                for position in range(positions):
                    link = paths[position, row]
                    if link < links - 1:
                        gone = remove(waiting, link, next_key, row)
                        at[link] += at[link] <= gone
                reopened_count, chosen, next_key = first_reopened(
                    table, paths, waiting, reopened, at, reopened_count, left
                )
            total += 1
        if total == first:
            break
        if not is_same:
            tie = following[first:total]
            if not is_as_before(facts, marks, tie, left, rounding):
                if len(tie) == 1:
                    take(table, senders, tie[0], left, rounding, now_s)
                else:
                    share(table, senders, tie, left, rounding, now_s, heap_floats, heap_numbers)
            for record in tie:
                marks[record, TIE], marks[record, SIZE] = counts[TIES], len(tie)
            counts[TIES] += 1
        for there in range(first, total):
            record = following[there]
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
        sending[place] = marks[following[place], ROW]
    counts[COUNT], now_full[now_full_count] = total, -1
    full[:], full_at[:] = now_full, now_full_at
    for link in range(links):
        whole = amounts[CAPACITY, link]
        amounts[LOAD, link] = whole - left[link] if whole < np.inf else 0.0
    return Served(paused_count, bytes_per_s, first_s)


@njit(cache=True)
def pause(table: Floats, senders: Senders, waiting: Waiting, paused: int, now_s: float) -> Waiting:
    """Move so many rows from the records that are paused to the lists of rows that wait.

    Returns these lists, which may be new ones.
    """
    facts, marks, records = senders.facts, senders.marks, senders.lists[PAUSED, :paused]
    free = senders.lists[FREE]
    free_count = len(free) - senders.counts[COUNT] - paused
    free[free_count : free_count + paused] = records
    none = len(waiting.sizes) - 1  # stands for no link
    more = np.zeros(none + 1, np.int64)
    for record in records:
        for column in range(PATH, marks.shape[1]):
            more[marks[record, column]] += 1
    more[none] = 0
    waiting = with_room_for(waiting, more)
    for record in records:
        row = marks[record, ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for column in range(PATH, marks.shape[1]):
            if marks[record, column] < none:
                insert(waiting, marks[record, column], facts[record, LEFT], row)
    return waiting
