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

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices
from railyard.netemu.schedulers.fast.loops.levelrates import STAYS, lower_to
from railyard.netemu.schedulers.fast.loops.linklists import Memory, RowLists, Work, link_at

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: All levels are found anew if the links that are amiss at first have this share of all entries, or
#: if the links that have been given levels so far have.  To fill takes twice as long as to look at
#: each entry once, and how far a change reaches is not known beforehand.
_MANY_AMISS = 0.4
_MANY_ENTRIES = 0.8
#: Newton's method takes a step for each row that it stops holding up, at most, and these.
_STEPS_MORE = 64


#: What ``level_rows`` has come to: the levels were right, they are now, or they are void, as the
#: change reaches so far that all had better be found anew.
AS_BEFORE, LEVELED, TOO_FAR = range(3)


@borrows
def begin_leveling(memory: Memory, index: int, number: int, left: Floats, work: Work) -> None:
    """Note how much room a group's load leaves of what is ``left``, bytes/s by link."""
    load, room, amiss = memory.loads[index, number], work.room, work.marked
    for link in range(len(left)):
        room[link] = left[link] - load[link]
        amiss[link] = False


@borrows
def level_rows(
    lists: RowLists,
    memory: Memory,
    index: int,
    number: int,
    left: Floats,
    rounding: Floats,
    work: Work,
) -> int:
    """Share what is ``left`` (bytes/s by link) among the rows of a group that had levels.

    Call it after ``begin_leveling`` and ``add_new``.  The group's levels and loads in the pass of
    this ``number`` are brought up to date; ``left`` stays.  Returns what it has come to.
    """
    begins, sizes = memory.begins[index], memory.sizes[index]
    levels, load = memory.levels[index, number], memory.loads[index, number]
    room, amiss, queue, touched = work.room, work.marked, work.links[0], work.links[1]
    linked, all_weights, links = lists.entries, lists.weights, len(left)
    if _find_amiss(room, rounding, levels, amiss) == 0:
        return AS_BEFORE
    first, waiting, seen, entries, all_entries = 0, 0, 0, 0, 0
    for link in range(links - 1):
        all_entries += sizes[link]
        queue[waiting] = link  # no branch: most are not amiss
        waiting, entries = waiting + amiss[link], entries + amiss[link] * sizes[link]
    if entries > all_entries * _MANY_AMISS:
        return TOO_FAR
    turns = all_entries * _MANY_ENTRIES + links * links  # a link without rows counts for none
    while waiting > 0:
        turns -= 1
        if turns < 0:
            raise InvariantError("leveling: links are amiss without an end")
        link = queue[first]
        first, waiting, seen = (first + 1) % links, waiting - 1, seen + sizes[link]
        amiss[link] = False
        begin, end, before = begins[link], begins[link] + sizes[link], levels[link]
        elsewhere = work.rates[0, : sizes[link]]
        elsewhere[:] = np.inf
        rows, weights = linked[:, begin:end], all_weights[begin:end]
        for position in range(1, len(rows)):
            lower_to(rows[position], levels, elsewhere)
        levels[link], load[link] = _level(elsewhere, weights, left[link], before)
        others = _spread(rows, weights, elsewhere, before, levels[link], load, room, touched, amiss)
        room[link] = left[link] - load[link]
        if others < 0 or seen > all_entries * _MANY_ENTRIES:
            return TOO_FAR
        for place in range(others):  # noted as amiss so far; now it is known
            other = touched[place]
            amiss[other] = other < links - 1 and _is_amiss(
                room[other], rounding[other], levels[other]
            )
            if amiss[other]:
                queue[(first + waiting) % links] = other
                waiting += 1
    return LEVELED


@borrows
def add_new(
    table: Floats,
    paths: Numbers,
    count: int,
    lists: RowLists,
    memory: Memory,
    index: int,
    number: int,
    work: Work,
) -> None:
    """Count a group's new rows in its load, and mark their links as amiss.

    They are counted as sending what the levels allow, or nothing where no level limits them.
    """
    levels, load, weights = memory.levels[index, number], memory.loads[index, number], lists.known
    links = len(load)
    for row in range(memory.news[index], count):
        if weights[row] == 0 or table[RATE, row] > 0:
            continue
        least = np.inf
        for position in range(len(paths)):
            least = min(least, levels[link_at(paths, position, row, links)])
        if least > 0:
            more = least * weights[row] if least < np.inf else 0.0
            for position in range(len(paths)):
                link = link_at(paths, position, row, links)
                work.marked[link] = True
                load[link] += more
                work.room[link] -= more
    load[-1] = 0.0  # stands for no link


# Inside ----------------------------------------------------------------------------------------
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
    for _ in range(len(weights) + _STEPS_MORE):  # each step but a few holds up fewer rows
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
    raise InvariantError("leveling: a link's level is never found")


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
