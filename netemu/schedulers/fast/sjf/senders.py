"""The rows that send under ``sjf``, the shortest first: each has a numbered record.

A record keeps its number as long as its row sends.  Rows that have equally much left are served
together, as a *tie*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, RATE, SERVED, TOTAL, WEIGHT
from railyard.netemu.model.ties import SAME_BYTES, SAME_SHARE
from railyard.netemu.schedulers.fast.loops.filling import Indices, fill
from railyard.netemu.schedulers.fast.loops.rows import change_rate, differs, sent_since

#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: Columns of ``facts``: bytes left now; bytes left at a time, and that time; bytes/s; when the row
#: finishes; then the bytes/s left of each link on its path before its tie is served, and after.
LEFT, WERE_LEFT, AS_OF_S, SENDS, ENDS_S, LINKS = range(6)
#: Columns of ``marks``: the row; its tie's number (-1: none yet) and number of rows; then its path.
ROW, TIE, SIZE, PATH = range(4)
#: Of ``lists``: records in the order of what rows have left, and the same as it is being found;
#: those that are paused; those that are free, the next one last; and the rows of the first list.
ORDER, NEXT, PAUSED, FREE, ROWS = LISTS = range(5)
#: ``counts``: records; rows of the group at the last decision; ties that have had a number.
COUNT, SEEN, TIES = COUNTS = range(3)


class Senders(NamedTuple):
    """The records, with room for one for each row of the group."""

    facts: Floats  #: [record, column]
    marks: Numbers  #: [record, column]
    lists: Numbers  #: [list, place]: numbers of records, or rows
    counts: Numbers


def no_senders(positions: int) -> Senders:
    """No records, and no room for any, of rows that cross so many links."""
    none = np.empty((0, PATH + positions), dtype=np.int64)
    facts, lists = np.empty((0, LINKS + 2 * positions)), np.empty((len(LISTS), 0), np.int64)
    return Senders(facts, none, lists, np.zeros(len(COUNTS), np.int64))


def with_room(senders: Senders, room: int) -> Senders:
    """The same records, with ``room`` for so many."""
    before, count = len(senders.facts), senders.counts[COUNT]
    facts = np.empty((room, senders.facts.shape[1]))
    marks = np.empty((room, senders.marks.shape[1]), dtype=np.int64)
    lists = np.empty((len(LISTS), room), dtype=np.int64)
    facts[:before], marks[:before] = senders.facts, senders.marks
    lists[ORDER, :count] = senders.lists[ORDER, :count]
    lists[FREE, : room - before] = np.arange(room - 1, before - 1, -1)
    lists[FREE, room - before : room - count] = senders.lists[FREE, : before - count]
    return Senders(facts, marks, lists, senders.counts)


@njit(cache=True)
def in_order(table: Floats, paths: Numbers, senders: Senders, row_count: int, now_s: float) -> int:
    """Bring the records up to now, and add rows that are new and have not ended.

    Returns how many records there are now, in the order of what rows have left.
    """
    facts, marks, order, free = (
        senders.facts,
        senders.marks,
        senders.lists[ORDER],
        senders.lists[FREE],
    )
    count, first_new = senders.counts[COUNT], senders.counts[SEEN]
    senders.counts[SEEN] = row_count
    free_count, kept, last = len(free) - count, 0, -1.0
    for place in range(count):
        record = order[place]
        if table[WEIGHT, marks[record, ROW]] == 0:
            free[free_count] = record
            free_count += 1
            continue
        mine, passed_s = facts[record, WERE_LEFT], now_s - facts[record, AS_OF_S]
        if passed_s > 0:
            mine = max(mine - facts[record, SENDS] * passed_s, 0.0)
        facts[record, LEFT] = mine
        at = kept
        if mine >= last:  # most are in order already
            last = mine
        else:
            while at > 0 and facts[order[at - 1], LEFT] > mine:
                order[at] = order[at - 1]
                at -= 1
        order[at] = record
        kept += 1
    end = kept
    for row in range(first_new, row_count):
        if table[WEIGHT, row] > 0:
            free_count -= 1
            enter(table, paths, senders, free[free_count], row, now_s)
            order[end] = free[free_count]
            end += 1
    if end > kept:
        _merge(facts, order, kept, end)
    return end


@njit(cache=True)
def _merge(facts: Floats, order: Numbers, kept: int, end: int) -> None:
    """Bring the records from the place ``kept`` on into the order of those before."""
    more = order[kept:end].copy()
    left_bytes = np.empty(len(more))
    for number in range(len(more)):
        left_bytes[number] = facts[more[number], LEFT]
    ranked = np.argsort(left_bytes, kind="mergesort")
    before, later = kept - 1, len(more) - 1
    for at in range(end - 1, -1, -1):
        if later < 0:
            break
        if before < 0 or facts[order[before], LEFT] <= left_bytes[ranked[later]]:
            order[at] = more[ranked[later]]
            later -= 1
        else:
            order[at] = order[before]
            before -= 1


@njit(cache=True)
def enter(
    table: Floats, paths: Numbers, senders: Senders, record: int, row: int, now_s: float
) -> None:
    """Write a row's record."""
    facts, marks, weight = senders.facts, senders.marks, table[WEIGHT, row]
    served = table[SERVED, row] + sent_since(table, row, now_s)
    left_bytes = max(table[TOTAL, row] - served * weight, 0.0)
    facts[record, LEFT] = facts[record, WERE_LEFT] = left_bytes
    facts[record, AS_OF_S], facts[record, SENDS] = now_s, table[RATE, row] * weight
    facts[record, ENDS_S] = table[FINISH_S, row]
    marks[record, ROW], marks[record, TIE], marks[record, SIZE] = row, -1, 0
    for position in range(len(paths)):
        marks[record, PATH + position] = paths[position, row]


@njit(cache=True, inline="always")
def is_longer(left_bytes: float, than: float) -> bool:
    """Whether two rows' bytes differ by more than rounding, the first being larger."""
    return left_bytes > than * (1 + SAME_SHARE) + SAME_BYTES


@njit(cache=True, inline="always")
def is_closed(marks: Numbers, record: int, left: Floats) -> bool:
    """Whether some link on the path of a record's row has nothing left."""
    least = np.inf
    for column in range(PATH, marks.shape[1]):
        least = min(least, left[marks[record, column]])
    return least == 0


@njit(cache=True, inline="always")
def has_as_much(facts: Floats, marks: Numbers, record: int, left: Floats, rounding: Floats) -> bool:
    """Whether as much is left of a record's links as when its tie was last served."""
    as_much = True
    for position in range(marks.shape[1] - PATH):
        link, was = marks[record, PATH + position], facts[record, LINKS + position]
        as_much &= left[link] == was or abs(left[link] - was) <= rounding[link]
    return as_much


@njit(cache=True, inline="always")
def is_as_before(
    facts: Floats, marks: Numbers, tie: Numbers, left: Floats, rounding: Floats
) -> bool:
    """Whether these records were a tie at the last decision, with as much left of their links."""
    number = marks[tie[0], TIE]
    same: bool = number >= 0 and marks[tie[0], SIZE] == len(tie)
    for place in range(len(tie)):
        if not same:
            break
        same = marks[tie[place], TIE] == number and has_as_much(
            facts, marks, tie[place], left, rounding
        )
    return same


@njit(cache=True)
def share(
    table: Floats,
    senders: Senders,
    tie: Numbers,
    left: Floats,
    rounding: Floats,
    now_s: float,
    floats: Floats,
    numbers: Indices,
) -> None:
    """Share what is ``left`` (bytes/s by link) among the rows of a tie's records.

    ``floats`` and ``numbers`` come from ``filling.scratch``.
    """
    facts, marks = senders.facts, senders.marks
    positions = marks.shape[1] - PATH
    ways, weights = np.empty((positions, len(tie)), np.int64), np.empty(len(tie))
    rates = np.empty(len(tie))
    for number in range(len(tie)):
        weights[number] = table[WEIGHT, marks[tie[number], ROW]]
        for position in range(positions):
            link = ways[position, number] = marks[tie[number], PATH + position]
            facts[tie[number], LINKS + position] = left[link]
    fill(ways, weights, left, np.empty(len(left)), rates, floats, numbers)
    for number in range(len(tie)):
        _serve_at(table, facts, marks, tie[number], rates[number], left, rounding, now_s)


@njit(cache=True)
def take(
    table: Floats, senders: Senders, record: int, left: Floats, rounding: Floats, now_s: float
) -> None:
    """Give a record's row, which ties with none, all that is ``left`` on its path."""
    facts, marks, least = senders.facts, senders.marks, np.inf
    positions = marks.shape[1] - PATH
    for position in range(positions):
        link = marks[record, PATH + position]
        facts[record, LINKS + position] = left[link]
        least = min(least, left[link])
    if least < np.inf:
        for position in range(positions):
            left[marks[record, PATH + position]] -= least
    rate = least / table[WEIGHT, marks[record, ROW]]
    _serve_at(table, facts, marks, record, rate, left, rounding, now_s)


@njit(cache=True, inline="always")
def _serve_at(
    table: Floats,
    facts: Floats,
    marks: Numbers,
    record: int,
    rate: float,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> None:
    """Serve a record's row at this rate per unit of weight, and note what is left of its links."""
    row, positions = marks[record, ROW], marks.shape[1] - PATH
    if differs(rate, table[RATE, row], _STAYS):
        change_rate(table, row, rate, now_s)
        facts[record, SENDS] = rate * table[WEIGHT, row]
        facts[record, WERE_LEFT], facts[record, AS_OF_S] = facts[record, LEFT], now_s
        facts[record, ENDS_S] = table[FINISH_S, row]
    for position in range(positions):
        link = marks[record, PATH + position]
        if left[link] <= rounding[link]:
            left[link] = 0.0
        facts[record, LINKS + positions + position] = left[link]
