"""For each link, the list of the rows that cross it: what ``leveling`` looks at.

Compiled loops find out themselves which rows have come, ended or got another weight since the last
decision: they know with which weight each row is in the lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE, WEIGHT
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices

#: Rows in a block, of which the first finish is known together.
BLOCK = 64
#: Rows that are compared at once with what is known of them.
_AT_ONCE = 512


class RowLists(NamedTuple):
    """The lists of one group's links.  They begin, and end, as ``Memory`` says."""

    #: [position, place]: a row, and the other links on its path
    entries: Indices
    weights: Floats  #: [place]: the weight of that row
    #: [position, row]: its place in the list of the link at that position of its path, counted from
    #: where the list begins; looking for it took half the time of events that end thousands of rows
    places: Indices
    known: Floats  #: [row]: the weight with which it is in the lists
    #: [block of rows]: when its first row finishes, in seconds; nan: not known
    firsts: Floats


class Memory(NamedTuple):
    """What is remembered of groups between decisions, by index.

    A decision may share links several times, in passes; a row sends at the sum of what these give.
    """

    linked: Numbers  #: how many of the group's rows are in the lists, or have been
    begins: Numbers  #: where the list of each link begins: [index, link]
    sizes: Numbers  #: how many rows are in it: [index, link]
    levels: Floats  #: bytes/s for each unit of weight: [index, pass, link]
    applied: Floats  #: the levels that rows have their rates from: [index, pass, link]
    loads: Floats  #: bytes/s on each link: [index, pass, link]
    #: bytes/s that were left of each link when the levels were found: [index, pass, link]; the
    #: levels hold as long as that much is left of the links that the group's rows cross
    found: Floats
    news: Numbers  #: the first of the rows that were not there at the last decision
    anew: Bools  #: whether rows have other numbers, or levels are not what their rates are from
    leveled: Bools  #: whether its levels have been looked at in this decision


class Work(NamedTuple):
    """Room for what loops find on their way: in each call, new arrays would take time."""

    rates: Floats  #: [3, row]
    rows: Indices  #: [row]
    links: Numbers  #: [2, link]
    marked: Bools  #: [link]
    room: Floats  #: [link]


def work_for(rows: int, links: int) -> Work:
    """Room for groups of so many rows."""
    return Work(
        np.empty((3, rows)),
        np.empty(rows, np.uint32),
        np.empty((2, links), np.int64),
        np.empty(links, np.bool_),
        np.empty(links),
    )


def no_memory(passes: int, links: int) -> Memory:
    """Of no groups yet."""
    none, by_link = np.zeros(0, dtype=np.int64), np.zeros((0, links), dtype=np.int64)
    by_pass, unset = np.zeros((0, passes, links)), np.zeros(0, dtype=np.bool_)
    return Memory(none, by_link, by_link, by_pass, by_pass, by_pass, by_pass, none, unset, unset)


@njit(cache=True)
def new_lists() -> List:
    """Lists of one group, without rows; made in a compiled loop, see ``new_arrays``.

    Nor is its length asked for from Python: each process would compile that.
    """
    lists = List()
    lists.append(_no_rows())
    return lists


@njit(cache=True)
def add_lists(lists: List, more: int) -> None:
    """Make room for so many more groups."""
    for _ in range(more):
        lists.append(_no_rows())


@njit(cache=True)
def _no_rows() -> RowLists:
    entries, places = np.empty((1, 0), np.uint32), np.empty((1, 0), np.uint32)
    return RowLists(entries, np.empty(0), places, np.empty(0), np.empty(0))


@njit(cache=True)
def follow_rows(
    table: Floats,
    paths: Numbers,
    count: int,
    lists: RowLists,
    memory: Memory,
    index: int,
    only_ended: bool,
) -> RowLists:
    """Bring lists and loads up to a group's rows; returns the lists.

    Rows that have come are in no load yet.
    """
    begins, sizes, linked = memory.begins[index], memory.sizes[index], memory.linked[index]
    levels, loads = memory.levels[index], memory.loads[index]
    if linked == 0:
        room = table.shape[1]
        lists = RowLists(
            np.empty((len(paths), 0), np.uint32),
            np.empty(0),
            np.empty((len(paths), room), np.uint32),
            np.empty(room),
            np.empty(-(-room // BLOCK)),
        )
        loads[:] = 0.0
    _follow_weights(table, paths, linked, lists, begins, sizes, levels, loads)
    if not only_ended:
        lists.firsts[:] = np.nan
    memory.news[index] = linked
    if linked < count:
        lists = _with_room(paths, linked, count, lists, begins, sizes)
        _append(table, paths, linked, count, lists, begins, sizes)
        memory.linked[index] = count
    if linked == 0:  # rows that have rates, and other numbers than before
        for row in range(count):
            if table[RATE, row] > 0:
                _add_load(paths, row, lists.known[row], levels, loads)
    return lists


@borrows
def _follow_weights(
    table: Floats,
    paths: Numbers,
    linked: int,
    lists: RowLists,
    begins: Numbers,
    sizes: Numbers,
    levels: Floats,
    loads: Floats,
) -> None:
    """Have the rows that are in the lists in them with their weights; those that ended, in none."""
    weights, known = table[WEIGHT], lists.known
    for first in range(0, linked, _AT_ONCE):
        last = min(first + _AT_ONCE, linked)
        if not _differ(weights[first:last], known[first:last]):
            continue
        for row in range(first, last):
            if weights[row] != known[row]:
                _follow_weight(paths, row, weights[row], lists, begins, sizes, levels, loads)


@borrows
def end_row(paths: Numbers, row: int, lists: RowLists, memory: Memory, index: int) -> None:
    """Have a row that has ended in no list, as ``follow_rows`` would."""
    _follow_weight(
        paths,
        row,
        0.0,
        lists,
        memory.begins[index],
        memory.sizes[index],
        memory.levels[index],
        memory.loads[index],
    )


@borrows
def _follow_weight(
    paths: Numbers,
    row: int,
    weight: float,
    lists: RowLists,
    begins: Numbers,
    sizes: Numbers,
    levels: Floats,
    loads: Floats,
) -> None:
    """Have a row in the lists with this weight; 0: it has ended."""
    _add_load(paths, row, weight - lists.known[row], levels, loads)
    _weigh(paths, row, weight, lists, begins, sizes)
    lists.known[row] = weight
    lists.firsts[row // BLOCK] = np.nan


@borrows
def link_at(paths: Numbers, position: int, row: int, links: int) -> int:
    """A link on a row's path; the last of ``links`` for all that stands for no limited one."""
    link: int = min(paths[position, row], links - 1)
    return link


@borrows
def _differ(values: Floats, others: Floats) -> bool:
    """Whether any of these differ."""
    count = 0
    for number in range(len(values)):  # no early return: several at a time
        count += values[number] != others[number]
    return count > 0


@borrows
def _add_load(paths: Numbers, row: int, weight: float, levels: Floats, loads: Floats) -> None:
    """Add the load of so much weight at the rates that levels allow a row."""
    for number in range(len(levels)):
        least = np.inf
        for position in range(len(paths)):
            least = min(least, levels[number, link_at(paths, position, row, levels.shape[1])])
        if least == np.inf:
            continue
        for position in range(len(paths)):
            link = link_at(paths, position, row, levels.shape[1])
            loads[number, link] = max(loads[number, link] + least * weight, 0.0)
        loads[number, -1] = 0.0  # stands for no link


@borrows
def _weigh(
    paths: Numbers, row: int, weight: float, lists: RowLists, begins: Numbers, sizes: Numbers
) -> None:
    """Give a row another weight in the lists of its links; with 0, it is removed from them."""
    entries, weights, places = lists.entries, lists.weights, lists.places
    for position in range(len(paths)):
        link = link_at(paths, position, row, len(sizes))
        if link == len(sizes) - 1:
            continue
        begin, place = begins[link], begins[link] + places[position, row]
        weights[place] = weight
        if weight == 0:
            last = begin + sizes[link] - 1
            weights[place] = weights[last]
            for position_there in range(len(entries)):
                entries[position_there, place] = entries[position_there, last]
            sizes[link] -= 1
            for elsewhere in range(len(paths)):  # the row that takes its place
                if paths[elsewhere, entries[0, place]] == link:
                    places[elsewhere, entries[0, place]] = place - begin


@njit(cache=True)
def _append(
    table: Floats,
    paths: Numbers,
    first: int,
    count: int,
    lists: RowLists,
    begins: Numbers,
    sizes: Numbers,
) -> None:
    """Add rows, from the ``first`` on, to the lists of the links that they cross."""
    entries, weights, places = lists.entries, lists.weights, lists.places
    none = len(sizes) - 1
    for row in range(first, count):
        weight = lists.known[row] = table[WEIGHT, row]
        if weight == 0:
            continue
        for position in range(len(paths)):
            link = link_at(paths, position, row, len(sizes))
            if link == none:
                continue
            place, other = begins[link] + sizes[link], 0
            places[position, row] = sizes[link]
            sizes[link] += 1
            entries[0, place], weights[place] = row, weight
            for elsewhere in range(len(paths)):
                if elsewhere != position:
                    other += 1
                    entries[other, place] = link_at(paths, elsewhere, row, len(sizes))
    lists.firsts[first // BLOCK :] = np.nan


@njit(cache=True)
def _with_room(
    paths: Numbers, first: int, count: int, lists: RowLists, begins: Numbers, sizes: Numbers
) -> RowLists:
    """The same lists with room for rows from the ``first`` on; twice as much if they grow."""
    entries, weights, none = lists.entries, lists.weights, len(sizes) - 1
    more, enough, times = np.zeros(len(sizes), np.int64), True, 1 if first == 0 else 2
    for position in range(len(paths)):
        for row in range(first, count):
            more[link_at(paths, position, row, len(sizes))] += 1
    more[none] = 0  # stands for no link
    for link in range(none):
        enough &= begins[link] + sizes[link] + more[link] <= begins[link + 1]
    if enough:
        return lists
    places, begin = times * (sizes.sum() + more.sum()), 0
    roomier, weighed = np.empty((len(entries), places), np.uint32), np.empty(places)
    for link in range(none):
        size, was = sizes[link], begins[link]
        for place in range(size):  # a copy of slices would take 4 s to be compiled
            weighed[begin + place] = weights[was + place]
            for position in range(len(entries)):
                roomier[position, begin + place] = entries[position, was + place]
        begins[link] = begin
        begin += times * (size + more[link])
    begins[none] = begin
    return RowLists(roomier, weighed, lists.places, lists.known, lists.firsts)
