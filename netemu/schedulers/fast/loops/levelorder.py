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
from railyard.netemu.schedulers.fast.loops.leveling import level_rows
from railyard.netemu.schedulers.fast.loops.levelrates import apply_levels, first_of
from railyard.netemu.schedulers.fast.loops.linklists import Memory, follow_rows
from railyard.netemu.schedulers.fast.loops.rows import sum_up


class Changes(NamedTuple):
    """What has become of groups since the last decision, by index."""

    counts: Numbers  #: rows of each group
    changed: Bools  #: whether its flows have changed
    only_ended: Bools  #: whether nothing else than ends of flows has happened to it


@njit(cache=True)
def share_in_order(
    order: Numbers,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    rates: GroupRates,
    left: Floats,
    rounding: Floats,
    now_s: float,
    work: Floats,
) -> int:
    """Let groups, in this order of indices, share what those before them have ``left``.

    Returns how many are ``touched``.  ``work`` is any array [3, rows of the largest group].
    """
    _follow(order, tables, paths, lists, changes, memory)
    _level(order, 0, tables, paths, lists, changes, memory, rates.fresh, left, rounding, work)
    return _apply(order, tables, paths, lists, changes, memory, rates, now_s, work)


@njit(cache=True)
def share_by_parts(
    order: Numbers,
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
    work: Floats,
) -> int:
    """Let groups share their queue's part of the links, then all of them what is left.

    The first queue has the groups up to ``ends[0]`` in the order of indices, and ``parts[0]`` of
    all capacities, and so on.  Returns how many are ``touched``.  ``work`` is any array [3, rows
    of the largest group].
    """
    fresh, begin, all_left = rates.fresh, 0, np.zeros(len(capacities))
    _follow(order, tables, paths, lists, changes, memory)
    for queue in range(len(ends)):
        left, those = capacities * parts[queue], order[begin : ends[queue]]
        _level(those, 0, tables, paths, lists, changes, memory, fresh, left, rounding, work)
        all_left += left
        begin = ends[queue]
    for link in range(len(all_left)):
        if all_left[link] <= rounding[link]:
            all_left[link] = 0.0
    _level(order, 1, tables, paths, lists, changes, memory, fresh, all_left, rounding, work)
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
    work: Floats,
) -> None:
    """Find the levels of groups in the pass of this ``number``; takes what they use from ``left``.

    A group that is ``fresh`` has no levels to start from.
    """
    for index in order:
        load, found = memory.loads[index, number], memory.found[index, number]
        begins, sizes = memory.begins[index], memory.sizes[index]
        changed = fresh[index] or changes.changed[index]
        if changed or not _is_as_found(left, found, rounding, sizes):
            found[:] = left
            levels, rows = memory.levels[index, number], lists[index]
            if fresh[index]:
                fill_levels(rows, begins, sizes, left, levels, load)
            else:
                changed |= level_rows(
                    tables[index][:, : changes.counts[index]],
                    paths[index],
                    rows,
                    begins,
                    sizes,
                    memory.news[index],
                    levels,
                    load,
                    left,
                    rounding,
                    work[0],
                )
            memory.leveled[index] |= changed
        _take_from(left, load, rounding)


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
    work: Floats,
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
            bytes_per_s[index] = sum_up(table, count)[0]
        if first_finish_s[index] == np.inf:  # none sends: what is left is rounding
            bytes_per_s[index] = 0.0
        loads[index] = memory.loads[index, 0]
        for number in range(1, memory.loads.shape[1]):
            loads[index] += memory.loads[index, number]
        touched[touched_count] = index
        touched_count += 1
    return touched_count


@borrows
def _is_as_found(left: Floats, found: Floats, rounding: Floats, sizes: Numbers) -> bool:
    """Whether as much is left of the links that rows cross as last time, but for rounding."""
    moved = 0
    for link in range(len(left)):  # no early return: the compiler takes several links at a time
        moved += (sizes[link] > 0) & (abs(left[link] - found[link]) > rounding[link])
    return moved == 0


@borrows
def _take_from(left: Floats, load: Floats, rounding: Floats) -> None:
    """Take a group's load (bytes/s of each link) from what is left."""
    for link in range(len(left)):
        left[link] -= load[link]
        if left[link] <= rounding[link]:
            left[link] = 0.0
