"""Groups that share links one after the other, each in a max-min way: whole decisions.

Whatever stays as it was costs little: a group whose flows have not changed is only looked at if
something else than before is left of a link that it crosses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupRates
from railyard.netemu.schedulers.fast.loops.levelfilling import fill_levels
from railyard.netemu.schedulers.fast.loops.leveling import (
    AS_BEFORE,
    TOO_FAR,
    add_new,
    begin_leveling,
    level_rows,
)
from railyard.netemu.schedulers.fast.loops.levelrates import apply_levels, first_of
from railyard.netemu.schedulers.fast.loops.linklists import Memory, Work, follow_rows
from railyard.netemu.schedulers.fast.loops.rows import total_rate

#: The first pass, a second one, and that lists are followed already: read from arrays, as numba
#: compiles a function, and all that it calls, anew for each literal that it is given.
_PASSES = np.arange(2)
FOLLOWED = np.ones(1, np.bool_)


class Changes(NamedTuple):
    """What has become of groups since the last decision, by index."""

    counts: Numbers  #: rows of each group
    changed: Bools  #: whether its flows have changed
    only_ended: Bools  #: whether nothing else than ends of flows has happened to it


@njit(cache=True)
def share_in_order(
    order: Numbers,
    are_followed: bool,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    rates: GroupRates,
    left: Floats,
    rounding: Floats,
    now_s: float,
    work: Work,
) -> int:
    """Let groups, in this order of indices, share what those before them have ``left``.

    Returns how many are ``touched``.  ``are_followed``: lists are up to date with rows already.
    """
    if not are_followed:
        _follow(order, tables, paths, lists, changes, memory)
    first, fresh = _PASSES[0], rates.fresh
    _level(order, first, tables, paths, lists, changes, memory, fresh, left, rounding, work)
    return _apply(order, tables, paths, lists, changes, memory, rates, now_s, work)


@njit(cache=True)
def share_by_parts(
    order: Numbers,
    are_followed: bool,
    ends: Numbers,
    parts: Floats,
    capacities: Floats,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    rates: GroupRates,
    rounding: Floats,
    now_s: float,
    work: Work,
) -> int:
    """Let groups share their queue's part of the links, then all of them what is left.

    The first queue has the groups up to ``ends[0]`` in the order of indices, and ``parts[0]`` of
    all capacities, and so on.  The rest is as in ``share_in_order``.
    """
    fresh, begin, all_left = rates.fresh, 0, np.zeros(len(capacities))
    first, second = _PASSES[0], _PASSES[1]
    if not are_followed:
        _follow(order, tables, paths, lists, changes, memory)
    for queue in range(len(ends)):
        left, those = capacities * parts[queue], order[begin : ends[queue]]
        _level(those, first, tables, paths, lists, changes, memory, fresh, left, rounding, work)
        all_left += left
        begin = ends[queue]
    for link in range(len(all_left)):
        if all_left[link] <= rounding[link]:
            all_left[link] = 0.0
    _level(order, second, tables, paths, lists, changes, memory, fresh, all_left, rounding, work)
    return _apply(order, tables, paths, lists, changes, memory, rates, now_s, work)


# Inside ----------------------------------------------------------------------------------------
@njit(cache=True)
def _follow(
    order: Numbers, tables: List, paths: List, lists: List, changes: Changes, memory: Memory
) -> None:
    """Bring what is remembered up to the rows that there are now."""
    for index in order:
        if changes.changed[index]:
            lists[index] = follow_rows(
                tables[index],
                paths[index],
                changes.counts[index],
                lists[index],
                memory,
                index,
                changes.only_ended[index],
            )


@njit(cache=True)
def _level(
    order: Numbers,
    number: int,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    fresh: Bools,
    left: Floats,
    rounding: Floats,
    work: Work,
) -> None:
    """Find the levels of groups in the pass of this ``number``; takes what they use from ``left``.

    A group that is ``fresh`` has no levels to start from.
    """
    for index in order:
        changed = fresh[index] or changes.changed[index]
        if changed or not _is_as_found(memory, index, number, left, rounding):
            rows, outcome = lists[index], TOO_FAR
            _note_found(memory, index, number, left)
            if not fresh[index]:
                begin_leveling(memory, index, number, left, work)
                count = changes.counts[index]
                if memory.news[index] < count:
                    table, path = tables[index], paths[index]
                    add_new(table, path, count, rows, memory, index, number, work)
                outcome = level_rows(rows, memory, index, number, left, rounding, work)
            if outcome == TOO_FAR:
                fill_levels(
                    rows,
                    memory.begins[index],
                    memory.sizes[index],
                    left,
                    memory.levels[index, number],
                    memory.loads[index, number],
                )
            memory.leveled[index] |= changed or outcome != AS_BEFORE
        _take_from(memory, index, number, left, rounding)


@njit(cache=True)
def _apply(
    order: Numbers,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    rates: GroupRates,
    now_s: float,
    work: Work,
) -> int:
    """Have rows send at what the levels of their groups allow; returns how many are ``touched``."""
    fresh, loads, bytes_per_s, first_finish_s, touched = rates
    touched_count = 0
    for index in order:
        if not memory.leveled[index]:
            continue
        table, rows, count = tables[index], lists[index], changes.counts[index]
        memory.anew[index] |= fresh[index]
        is_new, more = apply_levels(table, paths[index], count, rows, memory, index, now_s, work)
        memory.leveled[index] = memory.anew[index] = fresh[index] = False
        memory.news[index] = count
        if not (is_new or changes.changed[index]):
            continue
        first_finish_s[index] = first_of(table, count, rows.firsts)
        bytes_per_s[index] += more
        if not np.isfinite(more):
            bytes_per_s[index] = total_rate(table, count)
        if first_finish_s[index] == np.inf:  # none sends: what is left is rounding
            bytes_per_s[index] = 0.0
        _sum_loads(memory, index, loads)
        touched[touched_count] = index
        touched_count += 1
    return touched_count


@borrows
def _is_as_found(memory: Memory, index: int, number: int, left: Floats, rounding: Floats) -> bool:
    """Whether as much is left of the links that rows cross as last time, but for rounding."""
    found, sizes, moved = memory.found[index, number], memory.sizes[index], 0
    for link in range(len(left)):  # no early return: the compiler takes several links at a time
        moved += (sizes[link] > 0) & (abs(left[link] - found[link]) > rounding[link])
    return moved == 0


@borrows
def _note_found(memory: Memory, index: int, number: int, left: Floats) -> None:
    """Note what is left of the links as a group's levels are found."""
    for link in range(len(left)):
        memory.found[index, number, link] = left[link]


@borrows
def _take_from(memory: Memory, index: int, number: int, left: Floats, rounding: Floats) -> None:
    """Take a group's load (bytes/s of each link) from what is left."""
    load = memory.loads[index, number]
    for link in range(len(left)):
        left[link] -= load[link]
        if left[link] <= rounding[link]:
            left[link] = 0.0


@borrows
def _sum_loads(memory: Memory, index: int, loads: Floats) -> None:
    """Sum up the loads of a group in all passes, into [index, link] of all links."""
    loads[index, :] = 0.0
    for number in range(memory.loads.shape[1]):
        for link in range(memory.loads.shape[2]):
            loads[index, link] += memory.loads[index, number, link]
    loads[index, -1] = 0.0  # stands for no link
