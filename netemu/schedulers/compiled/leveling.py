"""Max-min shares that follow changes, compiled: see ``netemu.schedulers.leveling``.

Here links are given their levels one by one, each for what its rows' other links allow just then,
until no link carries too much and those with a level are full.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from netemu.rowtable import RATE, WEIGHT
from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.compiled.filling import fill, scratch
from netemu.schedulers.compiled.rows import change_rate, load_links, sum_up
from netemu.schedulers.filling import Bools

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: If more than this share of the rows is new, or if so large a share of the links has been given
#: levels without an end, all rows are filled: with 10,000 flows between random pairs of 150 racks
#: that takes 0.65 ms, and to follow what one of them changes 2.6 ms.
_MANY_NEW = 0.2
_MANY_TURNS = 0.3


@njit(cache=True)
def link_rows(paths: Numbers, first: int, count: int, heads: Numbers, nexts: Numbers) -> None:
    """Put rows from the ``first`` into the list of each link that they cross.

    A list begins at ``heads[link]``; an entry is position + row * positions, the next one is
    ``nexts[position, row]``, and -1 is the end.
    """
    positions = len(paths)
    for row in range(first, count):
        for position in range(positions):
            link = paths[position, row]
            nexts[position, row] = heads[link]
            heads[link] = position + row * positions


@njit(cache=True)
def level_rows(
    table: Floats,
    paths: Numbers,
    nexts: Numbers,
    count: int,
    first_new: int,
    heads: Numbers,
    levels: Floats,
    load: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
    work: Floats,
) -> bool:
    """Share what is ``left`` among rows that had these levels; whether any rate has changed.

    ``load`` and ``levels`` are brought up to date; ``left`` stays.  ``work`` has room for two
    numbers of each row.
    """
    links = len(left)
    room, amiss = left - load, np.zeros(links, np.bool_)
    new = _find_new(table, paths, first_new, count, levels, amiss, now_s)
    if new > count * _MANY_NEW:
        fill_rows(table, paths, count, levels, load, left, now_s)
        return True
    queue, touched, waiting = np.empty(links, np.int64), np.empty(links, np.int64), 0
    amiss[-1] = False  # stands for no link
    for link in range(links - 1):
        if amiss[link] or _is_amiss(room[link], rounding[link], levels[link]):
            amiss[link] = True
            queue[waiting] = link
            waiting += 1
    changed, first, turns = new != 0, 0, 0
    while waiting > 0:
        link = queue[first]
        first, waiting, turns = (first + 1) % links, waiting - 1, turns + 1
        amiss[link] = False
        rows = _other_limits(table, paths, nexts, heads, link, levels, work)
        levels[link] = _level(work[0, :rows], work[1, :rows], left[link])
        differs, others = _set_level(
            table,
            paths,
            nexts,
            heads[link],
            link,
            levels[link],
            work[0],
            load,
            room,
            now_s,
            touched,
            amiss,
        )
        room[link] = left[link] - load[link]
        if differs < 0 or turns > links * _MANY_TURNS:
            fill_rows(table, paths, count, levels, load, left, now_s)
            return True
        changed |= differs > 0
        for other in touched[:others]:  # noted as amiss, which they may not be
            amiss[other] = other < links - 1 and _is_amiss(
                room[other], rounding[other], levels[other]
            )
            if amiss[other]:
                queue[(first + waiting) % links] = other
                waiting += 1
    return changed


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
    amiss: Bools,
    now_s: float,
) -> int:
    """Note the links of rows from the ``first`` that are to have rates; returns how many do."""
    none, new = len(levels) - 1, 0
    for row in range(first, count):
        if table[WEIGHT, row] == 0 or table[RATE, row] > 0:
            continue
        least, limited = np.inf, False
        for position in range(len(paths)):
            least = min(least, levels[paths[position, row]])
            limited |= paths[position, row] != none
        if not limited:
            change_rate(table, row, np.inf, now_s)
        if least > 0:
            new += 1
            for position in range(len(paths)):
                amiss[paths[position, row]] = True
    return new


@njit(cache=True)
def _other_limits(
    table: Floats,
    paths: Numbers,
    nexts: Numbers,
    heads: Numbers,
    link: int,
    levels: Floats,
    work: Floats,
) -> int:
    """Of each row of a link: the rate that other links on its way allow, and its weight.

    Puts them into ``work``, and returns how many there are.  Takes rows that have ended from the
    link's list.
    """
    entry, rows, last = heads[link], 0, -1
    while entry >= 0:
        row, position = entry // len(paths), entry % len(paths)
        here, entry = entry, nexts[position, row]
        if table[WEIGHT, row] == 0:
            if last < 0:
                heads[link] = entry
            else:
                nexts[last % len(paths), last // len(paths)] = entry
            continue
        last = here
        least = np.inf
        for place in range(len(paths)):
            if paths[place, row] != link:
                least = min(least, levels[paths[place, row]])
        work[0, rows], work[1, rows] = least, table[WEIGHT, row]
        rows += 1
    return rows


@njit(cache=True)
def _level(elsewhere: Floats, weights: Floats, capacity: float) -> float:
    """The level at which a link is full, inf if it never is."""
    if len(weights) == 0:
        return np.inf
    # Newton's method, from below: what a link carries is a concave function of its level
    level: float = capacity / weights.sum()
    held_before = -1
    while True:
        held, held_weight, others = 0, 0.0, 0.0
        for row in range(len(weights)):
            if elsewhere[row] >= level:
                held += 1
                held_weight += weights[row]
            else:
                others += elsewhere[row] * weights[row]
        if held == 0:
            return np.inf if others <= capacity * _ROUNDING else level
        if held == held_before:
            return level
        held_before = held
        level = max((capacity - others) / held_weight, level)


@njit(cache=True)
def _set_level(
    table: Floats,
    paths: Numbers,
    nexts: Numbers,
    head: int,
    link: int,
    level: float,
    elsewhere: Floats,
    load: Floats,
    room: Floats,
    now_s: float,
    touched: Numbers,
    noted: Bools,
) -> tuple[int, int]:
    """Give the rows of a link what it and the others allow.

    Returns how many have other rates than before, or -1 if one has no limit at all, which two of
    its links have left to one another; and how many links are ``touched`` by that that were not
    ``noted`` before.
    """
    entry, number, changed, others, carries = head, 0, 0, 0, 0.0
    while entry >= 0:
        row, position = entry // len(paths), entry % len(paths)
        entry = nexts[position, row]
        weight = table[WEIGHT, row]
        rate, before = min(level, elsewhere[number]), table[RATE, row]
        number += 1
        if rate == np.inf:
            return -1, others
        if abs(rate - before) <= before * _STAYS:
            carries += before * weight
            continue
        carries += rate * weight
        change_rate(table, row, rate, now_s)
        changed += 1
        more = (rate - before) * weight
        for place in range(len(paths)):
            other = paths[place, row]
            load[other] = max(load[other] + more, 0.0)
            room[other] -= more
            if other != link and not noted[other]:
                noted[other] = True
                touched[others] = other
                others += 1
    load[link] = carries  # exactly
    load[-1] = 0.0  # stands for no link
    return changed, others


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
    """Work all of it out."""
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
    nexts: List,
    counts: Numbers,
    changed: Bools,
    fresh: Bools,
    linked: Numbers,
    heads: Numbers,
    levels: Floats,
    loads: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
    bytes_per_s: Floats,
    first_finish_s: Floats,
    touched: Numbers,
    work: Floats,
) -> int:
    """Let slots share what those before them have ``left``; returns how many are ``touched``.

    ``linked`` tells how many of each slot's rows are in the lists of ``heads`` and ``nexts``;
    ``work`` is any array of two rows as long as those of the largest slot.
    """
    those = 0
    for slot in order:
        table, count, load = tables[slot], counts[slot], loads[slot]
        new = linked[slot]
        link_rows(paths[slot], new, count, heads[slot], nexts[slot])
        linked[slot] = count
        if fresh[slot]:
            fill_rows(table, paths[slot], count, levels[slot], load, left, now_s)
            differs = True
            fresh[slot] = False
        else:
            differs = level_rows(
                table,
                paths[slot],
                nexts[slot],
                count,
                new,
                heads[slot],
                levels[slot],
                load,
                left,
                rounding,
                now_s,
                work,
            )
        if differs or changed[slot]:
            bytes_per_s[slot], first_finish_s[slot] = sum_up(table, count)
            touched[those] = slot
            those += 1
        for link in range(len(left)):
            left[link] -= load[link]
            if left[link] <= rounding[link]:
                left[link] = 0.0
    return those
