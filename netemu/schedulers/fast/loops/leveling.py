"""Max-min rates that follow changes: only what a change can reach is computed again.

An allocation is max-min fair if each row crosses a bottleneck: a full link on which no row has a
higher rate.  That rate is the link's *level* (inf if it is no bottleneck), and a row's rate is the
lowest level on its path.  So levels are all there is to find: those at which no link carries more
than its capacity, and each link that has a level is full.  After a change, each link where that
does not hold gets the level at which it does, given what the other links on its rows' paths allow
at that moment; then the links that this has changed, and so on until it holds for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE, WEIGHT
from railyard.netemu.schedulers.fast.loops.filling import fill, scratch
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupRates
from railyard.netemu.schedulers.fast.loops.linklists import count_rows, link_rows
from railyard.netemu.schedulers.fast.loops.rows import (
    change_rate,
    differs,
    first_finish,
    load_links,
    sum_up,
)

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: All rows are filled if the links that are amiss at first have this many entries, as a share of
#: the rows, or if the links that have been given levels so far have.  To fill a row takes as long
#: as to look at two or three entries, and how far a change reaches is not known beforehand.
_MANY_AMISS = 0.25
_MANY_ENTRIES = 0.5


class Memory(NamedTuple):
    """What is remembered of groups between decisions, by index."""

    linked: Numbers  #: how many of the group's rows are in the lists of its links (``link_rows``)
    known: Numbers  #: how many of its rows are counted in ``crossing``
    begins: Numbers  #: where the list of each link begins: [index, link]
    sizes: Numbers  #: how many rows are in it: [index, link]
    crossing: Numbers  #: how many rows cross each link: [index, link]
    levels: Floats  #: bytes/s for each unit of weight: [index, link]
    #: bytes/s that were left of each link when the levels were found: [index, link]; the levels
    #: hold as long as that much is left of the links that the group's rows cross
    found: Floats


@njit(cache=True)
def level_rows(
    table: Floats,
    paths: Numbers,
    all_entries: List,
    index: int,
    begins: Numbers,
    sizes: Numbers,
    linked: Numbers,
    crossing: Numbers,
    count: int,
    first_new: int,
    levels: Floats,
    load: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
    work: Floats,
) -> tuple[bool, float]:
    """Share what is ``left`` (bytes/s by link) among the rows of a group that had these levels.

    ``load`` and ``levels`` are brought up to date; ``left`` stays.  ``crossing`` is the number of
    rows that cross each link; a link's list is completed when it is needed.  ``work`` is [2, rows].
    Returns whether any rate has changed, and how many bytes/s more all rows send at; nan if that
    has to be summed up over the rows.
    """
    links, seen = len(left), 0
    room, amiss = left - load, np.zeros(links, np.bool_)
    endless = _find_new(table, paths, first_new, count, levels, load, room, amiss, now_s)
    queue, touched, waiting = np.empty(links, np.int64), np.empty(links, np.int64), 0
    amiss[-1] = False  # stands for no link
    for link in range(links - 1):
        if amiss[link] or _is_amiss(room[link], rounding[link], levels[link]):
            amiss[link] = True
            queue[waiting] = link
            waiting, seen = waiting + 1, seen + crossing[link]
    if seen > count * _MANY_AMISS:
        fill_rows(table, paths, count, levels, load, left, now_s)
        return True, np.nan
    if linked[index] < count and waiting > 0:
        entries = link_rows(paths, linked[index], count, all_entries[index], begins, sizes)
        all_entries[index], linked[index] = entries, count
    entries = all_entries[index]
    first, seen, leveled = 0, 0, np.zeros(links, np.bool_)
    while waiting > 0:
        link = queue[first]
        first, waiting, seen = (first + 1) % links, waiting - 1, seen + sizes[link]
        amiss[link], leveled[link] = False, True
        begin, before = begins[link], levels[link]
        rows = _other_limits(table, entries, begin, sizes[link], levels, work)
        sizes[link] = rows
        levels[link] = _level(work[0, :rows], work[1, :rows], left[link], before)
        others = _set_level(
            entries, begin, link, before, levels[link], work[:, :rows], load, room, touched, amiss
        )
        room[link] = left[link] - load[link]
        if others < 0 or seen > count * _MANY_ENTRIES:
            fill_rows(table, paths, count, levels, load, left, now_s)
            return True, np.nan
        for other in touched[:others]:  # noted as amiss so far; now it is known
            amiss[other] = other < links - 1 and _is_amiss(
                room[other], rounding[other], levels[other]
            )
            if amiss[other]:
                queue[(first + waiting) % links] = other
                waiting += 1
    changed, more = _set_rates(table, entries, begins, sizes, levels, leveled, now_s)
    return (True, np.nan) if endless else (changed, more)


@njit(cache=True)
def _is_amiss(room: float, rounding: float, level: float) -> bool:
    """Whether a link carries too much, or should be full and is not."""
    return room < -rounding or (room > rounding and level < np.inf)


@njit(cache=True)
def _find_new(
    table: Floats,
    paths: Numbers,
    first: int,
    count: int,
    levels: Floats,
    load: Floats,
    room: Floats,
    amiss: Bools,
    now_s: float,
) -> bool:
    """Find new rows, from the ``first`` on, and note their links as ``amiss``.

    They are counted as sending what the levels allow, or nothing where no level limits them.
    Returns whether any of them crosses no limited link at all.
    """
    none, endless = len(levels) - 1, False
    for row in range(first, count):
        if table[WEIGHT, row] == 0 or table[RATE, row] > 0:
            continue
        least, limited = np.inf, False
        for position in range(len(paths)):
            least = min(least, levels[paths[position, row]])
            limited |= paths[position, row] != none
        if not limited:
            change_rate(table, row, np.inf, now_s)
            endless = True
        if least > 0:
            more = least * table[WEIGHT, row] if least < np.inf else 0.0
            for position in range(len(paths)):
                link = paths[position, row]
                amiss[link] = True
                load[link] += more
                room[link] -= more
    load[none] = 0.0
    return endless


@njit(cache=True)
def _other_limits(
    table: Floats, entries: Numbers, begin: int, size: int, levels: Floats, work: Floats
) -> int:
    """For each row of a link, write the rate that its other links allow and its weight to ``work``.

    Returns how many rows there are.  Rows that have ended are removed from the link's list.
    """
    rows = 0
    for place in range(begin, begin + size):
        weight = table[WEIGHT, entries[0, place]]
        if weight == 0:
            continue
        if begin + rows < place:
            entries[:, begin + rows] = entries[:, place]
        least = np.inf
        for position in range(1, len(entries)):
            least = min(least, levels[entries[position, place]])
        work[0, rows], work[1, rows] = least, weight
        rows += 1
    return rows


@njit(cache=True)
def _level(elsewhere: Floats, weights: Floats, capacity: float, before: float) -> float:
    """The level at which a link is full, inf if it never is."""
    if len(weights) == 0:
        return np.inf
    # Newton's method: what a link carries is a concave function of its level, so that from
    # anywhere one step leads below the right one, and those that follow only rise
    least: float = capacity / _held(elsewhere, weights, -1.0)[1]
    level = before if least < before < np.inf else least
    held_before = -1
    while True:
        held, held_weight, others = _held(elsewhere, weights, level)
        if held == 0:
            if held_before < 0 and level > least:
                level = least
                continue
            return np.inf if others <= capacity * _ROUNDING else level
        if held == held_before:
            return level
        level = max((capacity - others) / held_weight, least if held_before < 0 else level)
        held_before = held


@njit(cache=True, fastmath={"reassoc", "nsz"})  # several rows at a time
def _held(elsewhere: Floats, weights: Floats, level: float) -> tuple[int, float, float]:
    """How many rows a level holds up, their weight, and what the others send at."""
    held, held_weight, others = 0, 0.0, 0.0
    for row in range(len(weights)):
        is_held, weight, bytes_per_s = elsewhere[row] >= level, weights[row], elsewhere[row]
        held += 1 if is_held else 0
        held_weight += weight if is_held else 0.0
        others += 0.0 if is_held else bytes_per_s * weight
    return held, held_weight, others


@njit(cache=True)
def _set_level(
    entries: Numbers,
    begin: int,
    link: int,
    before: float,
    level: float,
    work: Floats,
    load: Floats,
    room: Floats,
    touched: Numbers,
    noted: Bools,
) -> int:
    """Count the rows of a link at the rates that it and their other links (``work``) allow.

    Returns how many other links are ``touched`` that were not ``noted`` before; -1 if a row has no
    limit at all: two of its links each left it to the other.
    """
    others, carries = 0, 0.0
    for number in range(work.shape[1]):
        elsewhere, weight = work[0, number], work[1, number]
        rate, was = min(level, elsewhere), min(before, elsewhere)
        if rate == np.inf:
            return -1
        carries += rate * weight
        if was == np.inf:  # it is new
            was = 0.0
        if abs(rate - was) <= was * _STAYS:
            continue
        more = (rate - was) * weight
        for position in range(1, len(entries)):
            other = entries[position, begin + number]
            load[other] = max(load[other] + more, 0.0)
            room[other] -= more
            if not noted[other]:
                noted[other] = True
                touched[others] = other
                others += 1
    load[link] = carries  # exactly
    load[-1] = 0.0  # stands for no link
    return others


@njit(cache=True)
def _set_rates(
    table: Floats,
    entries: Numbers,
    begins: Numbers,
    sizes: Numbers,
    levels: Floats,
    leveled: Bools,
    now_s: float,
) -> tuple[bool, float]:
    """Set the rates of the rows of links that were ``leveled``: the lowest level on their paths.

    Returns whether any rate has changed, and how many bytes/s more the rows send at.
    """
    changed, total_more = False, 0.0
    for link in range(len(leveled)):
        if not leveled[link]:
            continue
        for place in range(begins[link], begins[link] + sizes[link]):
            row, rate = entries[0, place], levels[link]
            for position in range(1, len(entries)):
                rate = min(rate, levels[entries[position, place]])
            before = table[RATE, row]
            if differs(rate, before, _STAYS):
                total_more += (rate - before) * table[WEIGHT, row]
                change_rate(table, row, rate, now_s)
                changed = True
    return changed, total_more


@njit(cache=True)
def fill_rows(
    table: Floats,
    paths: Numbers,
    count: int,
    levels: Floats,
    load: Floats,
    left: Floats,
    now_s: float,
) -> None:
    """Compute all levels and rates of a group by water-filling."""
    rates = np.empty(count)
    levels[:] = np.where(left > 0, np.inf, 0.0)
    fill(paths, table[WEIGHT, :count], left.copy(), levels, rates, *scratch(len(left)))
    for row in range(count):
        if rates[row] != table[RATE, row]:
            change_rate(table, row, rates[row], now_s)
    load_links(table, paths, count, load)


@njit(cache=True)
def level_in_order(
    order: Numbers,
    tables: List,
    paths: List,
    entries: List,
    counts: Numbers,
    changed: Bools,
    memory: Memory,
    rates: GroupRates,
    left: Floats,
    rounding: Floats,
    now_s: float,
    work: Floats,
) -> int:
    """Let groups, in this order of indices, share what those before them have ``left``.

    Returns how many are ``touched``.  ``work`` is any array [2, rows of the largest group].
    """
    linked, known, begins, sizes, crossing, levels, found = memory
    fresh, loads, bytes_per_s, first_finish_s, touched = rates
    touched_count = 0
    for index in order:
        table, count, load = tables[index], counts[index], loads[index]
        if not (fresh[index] or changed[index]) and _is_as_found(
            left, found[index], rounding, crossing[index]
        ):
            _take_from(left, load, rounding)
            continue
        found[index, :] = left
        new, known[index] = known[index], count
        count_rows(paths[index], new, count, crossing[index])
        more = np.nan
        if fresh[index]:
            fill_rows(table, paths[index], count, levels[index], load, left, now_s)
            is_new = True
            fresh[index] = False
        else:
            is_new, more = level_rows(
                table,
                paths[index],
                entries,
                index,
                begins[index],
                sizes[index],
                linked,
                crossing[index],
                count,
                new,
                levels[index],
                load,
                left,
                rounding,
                now_s,
                work,
            )
        if is_new or changed[index]:
            if np.isfinite(more):
                first_finish_s[index] = first_finish(table, count)
                bytes_per_s[index] += more
                if first_finish_s[index] == np.inf:  # none sends: what is left is rounding
                    bytes_per_s[index] = 0.0
            else:
                bytes_per_s[index], first_finish_s[index] = sum_up(table, count)
            touched[touched_count] = index
            touched_count += 1
        _take_from(left, load, rounding)
    return touched_count


@njit(cache=True)
def _is_as_found(left: Floats, found: Floats, rounding: Floats, crossing: Numbers) -> bool:
    """Whether as much is left of the links that rows cross as last time, but for rounding."""
    moved = 0
    for link in range(len(left)):  # no early return: the compiler takes several links at a time
        moved += (crossing[link] > 0) & (abs(left[link] - found[link]) > rounding[link])
    return moved == 0


@njit(cache=True)
def _take_from(left: Floats, load: Floats, rounding: Floats) -> None:
    """Take a group's load (bytes/s of each link) from what is left."""
    for link in range(len(left)):
        left[link] -= load[link]
        if left[link] <= rounding[link]:
            left[link] = 0.0
