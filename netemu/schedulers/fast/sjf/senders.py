"""The rows that send under ``sjf``, the shortest first: a record for each, at its *place*.

``facts[place]`` are the floats of a record, ``marks[place]`` its whole numbers.  Rows that have
equally much left are served together, as a *tie*.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, RATE, SERVED, TOTAL, WEIGHT
from railyard.netemu.schedulers.fast.loops.filling import Indices, fill
from railyard.netemu.schedulers.fast.loops.rows import change_rate, differs, sent_since

#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: Columns of ``facts``: bytes left now; bytes left at a time, and that time; bytes/s; when the row
#: finishes; then the bytes/s left of each link on its path before its tie is served, and after.
LEFT, WERE_LEFT, AS_OF_S, SENDS, ENDS_S, LINKS = range(6)
#: Columns of ``marks``: the row; its tie's number (-1: none yet) and number of rows; then its path.
ROW, TIE, SIZE, PATH = range(4)


@njit(cache=True)
def in_order(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    count: int,
    first_new: int,
    row_count: int,
    now_s: float,
) -> Numbers:
    """Bring the records up to now, and add rows from the ``first_new`` on that have not ended.

    Returns the places of the records in the order of what rows have left.
    """
    order, kept = np.empty(count + row_count - first_new, np.int64), 0
    for place in range(count):
        if table[WEIGHT, marks[place, ROW]] == 0:
            continue
        mine, passed_s = facts[place, WERE_LEFT], now_s - facts[place, AS_OF_S]
        if passed_s > 0:
            mine = max(mine - facts[place, SENDS] * passed_s, 0.0)
        facts[place, LEFT] = mine
        at = kept
        while at > 0 and facts[order[at - 1], LEFT] > mine:  # most are in order already
            order[at] = order[at - 1]
            at -= 1
        order[at] = place
        kept += 1
    end = count
    for row in range(first_new, row_count):
        if table[WEIGHT, row] > 0:
            enter(table, paths, facts, marks, end, row, now_s)
            end += 1
    if end == count:
        return order[:kept]
    new = count + np.argsort(facts[count:end, LEFT], kind="mergesort")
    before, later = kept - 1, len(new) - 1
    for at in range(kept + len(new) - 1, -1, -1):
        if before < 0 or (later >= 0 and facts[order[before], LEFT] <= facts[new[later], LEFT]):
            order[at] = new[later]
            later -= 1
        else:
            order[at] = order[before]
            before -= 1
    return order[: kept + len(new)]


@njit(cache=True)
def enter(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    place: int,
    row: int,
    now_s: float,
) -> None:
    """Write a row's record at a place."""
    weight = table[WEIGHT, row]
    served = table[SERVED, row] + sent_since(table, row, now_s)
    left_bytes = max(table[TOTAL, row] - served * weight, 0.0)
    facts[place, LEFT] = facts[place, WERE_LEFT] = left_bytes
    facts[place, AS_OF_S], facts[place, SENDS] = now_s, table[RATE, row] * weight
    facts[place, ENDS_S] = table[FINISH_S, row]
    marks[place, ROW], marks[place, TIE], marks[place, SIZE] = row, -1, 0
    for position in range(len(paths)):
        marks[place, PATH + position] = paths[position, row]


@njit(cache=True)
def with_double_room(facts: Floats, marks: Numbers) -> tuple[Floats, Numbers]:
    """The same records with room for twice as many."""
    room = 2 * len(facts)
    more_facts = np.empty((room, facts.shape[1]))
    more_marks = np.empty((room, marks.shape[1]), np.int64)
    more_facts[: len(facts)], more_marks[: len(marks)] = facts, marks
    return more_facts, more_marks


@njit(cache=True, inline="always")
def is_closed(marks: Numbers, place: int, left: Floats) -> bool:
    """Whether some link on the path of the row at this place has nothing left."""
    least = np.inf
    for column in range(PATH, marks.shape[1]):
        least = min(least, left[marks[place, column]])
    return least == 0


@njit(cache=True, inline="always")
def is_as_before(
    facts: Floats, marks: Numbers, first: int, end: int, left: Floats, rounding: Floats
) -> bool:
    """Whether these rows were a tie at the last decision, with as much left of their links."""
    number, positions = marks[first, TIE], marks.shape[1] - PATH
    if number < 0 or marks[first, SIZE] != end - first:
        return False
    for place in range(first, end):
        if marks[place, TIE] != number:
            return False
        for position in range(positions):
            link, was = marks[place, PATH + position], facts[place, LINKS + position]
            if left[link] != was and not abs(left[link] - was) <= rounding[link]:
                return False
    return True


@njit(cache=True)
def share(
    table: Floats,
    facts: Floats,
    marks: Numbers,
    first: int,
    end: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
    floats: Floats,
    numbers: Indices,
) -> None:
    """Share what is ``left`` (bytes/s by link) among the rows at these places.

    ``floats`` and ``numbers`` come from ``filling.scratch``.
    """
    positions, some = marks.shape[1] - PATH, end - first
    ways, weights, rates = np.empty((positions, some), np.int64), np.empty(some), np.empty(some)
    for number in range(some):
        weights[number] = table[WEIGHT, marks[first + number, ROW]]
        for position in range(positions):
            link = ways[position, number] = marks[first + number, PATH + position]
            facts[first + number, LINKS + position] = left[link]
    _take(ways, weights, left, rates, floats, numbers)
    for number in range(some):
        place, row = first + number, marks[first + number, ROW]
        if differs(rates[number], table[RATE, row], _STAYS):
            change_rate(table, row, rates[number], now_s)
            facts[place, SENDS] = rates[number] * weights[number]
            facts[place, WERE_LEFT], facts[place, AS_OF_S] = facts[place, LEFT], now_s
            facts[place, ENDS_S] = table[FINISH_S, row]
        for position in range(positions):
            link = ways[position, number]
            if left[link] <= rounding[link]:
                left[link] = 0.0
            facts[place, LINKS + positions + position] = left[link]


@njit(cache=True)
def _take(
    ways: Numbers,
    weights: Floats,
    left: Floats,
    rates: Floats,
    floats: Floats,
    numbers: Indices,
) -> None:
    """Hand out what is ``left``; ``rates`` gets bytes/s per unit of weight."""
    if len(weights) > 1:
        fill(ways, weights, left, np.empty(len(left)), rates, floats, numbers)
        return
    least = np.inf
    for position in range(len(ways)):
        least = min(least, left[ways[position, 0]])
    rates[0] = least / weights[0]
    if least < np.inf:
        for position in range(len(ways)):
            left[ways[position, 0]] -= least
