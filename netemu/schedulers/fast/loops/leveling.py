"""Max-min rates that follow changes: only what a change can reach is computed again.

An allocation is max-min fair if each row crosses a bottleneck: a full link on which no row has a
higher rate.  That rate is the link's *level* (inf if it is no bottleneck), and a row's rate is the
lowest level on its path.  So levels are all there is to find: those at which no link carries more
than its capacity, and each link that has a level is full.  After a change, each link where that
does not hold gets the level at which it does, given what the other links on its rows' paths allow
at that moment; then the links that this has changed, and so on until it holds for all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices
from railyard.netemu.schedulers.fast.loops.levelfilling import fill_levels
from railyard.netemu.schedulers.fast.loops.levelrates import STAYS, lower_to
from railyard.netemu.schedulers.fast.loops.linklists import RowLists

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: All levels are found anew if the links that are amiss at first have this share of all entries, or
#: if the links that have been given levels so far have.  To fill takes twice as long as to look at
#: each entry once, and how far a change reaches is not known beforehand.
_MANY_AMISS = 0.4
_MANY_ENTRIES = 0.8


@njit(cache=True)
def level_rows(
    table: Floats,
    paths: Numbers,
    lists: RowLists,
    begins: Numbers,
    sizes: Numbers,
    first_new: int,
    levels: Floats,
    load: Floats,
    left: Floats,
    rounding: Floats,
    work: Floats,
) -> bool:
    """Share what is ``left`` (bytes/s by link) among the rows of a group that had these levels.

    ``load`` and ``levels`` are brought up to date; ``left`` stays.  ``work`` is [rows].
    Returns whether there was anything to do.
    """
    links, entries, amiss = len(left), 0, np.zeros(len(left), np.bool_)
    room = left - load
    _add_new(table, paths, lists.known[: table.shape[1]], first_new, levels, load, room, amiss)
    if _find_amiss(room, rounding, levels, amiss) == 0:
        return False
    queue, touched, waiting = np.empty(links, np.int64), np.empty(links, np.int64), 0
    for link in range(links - 1):
        if amiss[link]:
            queue[waiting] = link
            waiting, entries = waiting + 1, entries + sizes[link]
    first, seen, all_entries = 0, 0, sizes.sum()
    linked, all_weights = lists.entries, lists.weights
    if entries > all_entries * _MANY_AMISS:
        fill_levels(lists, begins, sizes, left, levels, load)
        return True
    while waiting > 0:
        link = queue[first]
        first, waiting, seen = (first + 1) % links, waiting - 1, seen + sizes[link]
        amiss[link] = False
        begin, end, before = begins[link], begins[link] + sizes[link], levels[link]
        elsewhere = work[: sizes[link]]
        elsewhere[:] = np.inf
        rows, weights = linked[:, begin:end], all_weights[begin:end]
        for position in range(1, len(rows)):
            lower_to(rows[position], levels, elsewhere)
        levels[link], load[link] = _level(elsewhere, weights, left[link], before)
        others = _spread(
            rows,
            weights,
            elsewhere,
            before,
            levels[link],
            load,
            room,
            touched,
            amiss,
        )
        room[link] = left[link] - load[link]
        if others < 0 or seen > all_entries * _MANY_ENTRIES:
            fill_levels(lists, begins, sizes, left, levels, load)
            return True
        for number in range(others):  # noted as amiss so far; now it is known
            other = touched[number]
            amiss[other] = other < links - 1 and _is_amiss(
                room[other], rounding[other], levels[other]
            )
            if amiss[other]:
                queue[(first + waiting) % links] = other
                waiting += 1
    return True


@borrows
def _find_amiss(room: Floats, rounding: Floats, levels: Floats, amiss: Bools) -> int:
    """Note the links that are ``amiss``, besides those that are already; returns how many."""
    count = 0
    for link in range(len(room)):  # no early return: the compiler takes several links at a time
        limits = levels[link] < np.inf
        found = (room[link] < -rounding[link]) | ((room[link] > rounding[link]) & limits)
        amiss[link] |= found
        count += amiss[link]
    amiss[-1] = False  # stands for no link
    return count


@borrows
def _is_amiss(room: float, rounding: float, level: float) -> bool:
    """Whether a link carries too much, or should be full and is not."""
    return room < -rounding or (room > rounding and level < np.inf)


@borrows
def _add_new(
    table: Floats,
    paths: Numbers,
    weights: Floats,
    first: int,
    levels: Floats,
    load: Floats,
    room: Floats,
    amiss: Bools,
) -> None:
    """Count new rows, from the ``first`` on, in the load, and note their links as ``amiss``.

    They are counted as sending what the levels allow, or nothing where no level limits them.
    """
    for row in range(first, len(weights)):
        if weights[row] == 0 or table[RATE, row] > 0:
            continue
        least = np.inf
        for position in range(len(paths)):
            least = min(least, levels[paths[position, row]])
        if least > 0:
            more = least * weights[row] if least < np.inf else 0.0
            for position in range(len(paths)):
                link = paths[position, row]
                amiss[link] = True
                load[link] += more
                room[link] -= more
    load[-1] = 0.0  # stands for no link


@borrows
def _level(
    elsewhere: Floats, weights: Floats, capacity: float, before: float
) -> tuple[float, float]:
    """The level at which a link is full, inf if it never is; and what it carries then."""
    if len(weights) == 0:
        return np.inf, 0.0
    # Newton's method: what a link carries is a concave function of its level, so that from
    # anywhere one step leads below the right one, and those that follow only rise
    level: float = before if 0 < before < np.inf else capacity / _held(elsewhere, weights, -1.0)[0]
    held_before = 0.0
    while True:
        held, others = _held(elsewhere, weights, level)
        if held == held_before > 0:
            return level, others + held * level
        if held == 0:
            if held_before == 0 and level == before:  # it was too high
                level = capacity / _held(elsewhere, weights, -1.0)[0]
                held_before = -1.0
                continue
            if others <= capacity * _ROUNDING:
                return np.inf, others
            return level, others
        step = (capacity - others) / held
        level = step if held_before == 0 else max(step, level)
        held_before = held


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several rows at a time: 13 times as fast
def _held(elsewhere: Floats, weights: Floats, level: float) -> tuple[float, float]:
    """The weight of the rows that a level holds up, and what the others send at."""
    held, others = 0.0, 0.0
    for row in range(len(elsewhere)):
        is_held, weight = elsewhere[row] >= level, weights[row]
        held += weight if is_held else 0.0
        others += (0.0 if is_held else elsewhere[row]) * weight
    return held, others


@borrows
def _spread(
    entries: Indices,
    weights: Floats,
    elsewhere: Floats,
    before: float,
    level: float,
    load: Floats,
    room: Floats,
    touched: Numbers,
    noted: Bools,
) -> int:
    """Count the rows of a link, which has another level than before, in the load of other links.

    ``elsewhere`` [row] is the rate that those allow.  Returns how many are ``touched`` that were
    not ``noted`` before; -1 if a row has no limit at all: two of its links each left it to the
    other.
    """
    others, low = 0, min(before, level)
    for number in range(len(elsewhere)):
        if elsewhere[number] <= low:  # its rate stays
            if low == np.inf:
                return -1
            continue
        rate, was = min(level, elsewhere[number]), min(before, elsewhere[number])
        if rate == np.inf:
            return -1
        if was == np.inf:  # it is new
            was = 0.0
        if abs(rate - was) <= was * STAYS:
            continue
        more = (rate - was) * weights[number]
        for position in range(1, len(entries)):
            other = entries[position, number]
            load[other] = max(load[other] + more, 0.0)
            room[other] -= more
            if not noted[other]:
                noted[other] = True
                touched[others] = other
                others += 1
    load[-1] = 0.0  # stands for no link
    return others
