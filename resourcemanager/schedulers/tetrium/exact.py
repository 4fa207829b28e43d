"""Both problems solved exactly, by a search in one dimension: the default.

Written with the sites' shares a_x alone, both are

    min T + K w   where   sum a_x = 1   and for each site
                          max(least_x, out_x - up_x T) <= a_x <= min(most_x, in_x + down_x T, w S_x)
                          sum local_x min(a_x, home_x) >= L
                          K w >= the time of one task

T is the network's time and w the tasks per slot at the busiest site, as a share of all.  The last
but one line is the budget: what share of all bytes is read where it lies.

         out_x, in_x   up_x      down_x          local_x   home_x
maps     I_x / I       U_x / I   V_x / I         1         I_x / I
reduces  1, 0          U_x/Q_x   V_x/(Q - Q_x)   Q_x / Q   1        (no bytes: no bound)

For a fixed T, the least w follows directly: both sums are concave in w, so Newton's steps from
below end at it.  T + K w is convex in T and made of straight pieces: the lines that touch it on
both sides of its lowest point meet below it, and where they meet is looked at next.  Once they meet
on the curve, that is the lowest point.

The loops are compiled: importing this loads numba.  ``load_loops`` compiles them, or loads what was
compiled; a live cluster would wait for that at its first decision, for 6 s on a new machine.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numba import njit

from railyard.cluster.compiling import compile_once, set_up_numba
from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium.placement import Bounds, Plan, Stage, divided

set_up_numba("tetrium", Path(__file__))


# The problem as a table, [ROWS, sites]; rows are named as in the formula --------------------------
SLOTS, OUT, UP, IN, DOWN, LEAST, MOST, LOCAL, HOME = range(9)
ROWS = 9
#: A sum of shares, which should be 1, may be off by this much for rounding.
ROUNDING = 1e-13


@njit(cache=True)
def bounds_at(table: Floats, time_s: float) -> tuple[Floats, Floats, Floats, Floats]:
    """The least and the most share of each site at T, and by how much these change per second."""
    count = table.shape[1]
    low, high, falls, rises = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    for site in range(count):
        keeps = table[OUT, site] - table[UP, site] * time_s
        low[site] = max(0.0, table[LEAST, site], keeps)
        falls[site] = table[UP, site] if keeps >= low[site] and keeps > 0 else 0.0
        gets = table[IN, site] + table[DOWN, site] * time_s
        most = min(1.0, table[MOST, site]) if table[SLOTS, site] > 0 else 0.0
        high[site] = min(most, gets)
        rises[site] = table[DOWN, site] if gets <= most else 0.0
    return low, high, falls, rises


@njit(cache=True)
def loosest_s(table: Floats) -> float:
    """A time from which on the bounds get no wider."""
    last_s = 0.0
    for site in range(table.shape[1]):
        if table[UP, site] > 0:
            last_s = max(last_s, table[OUT, site] / table[UP, site])
        if table[DOWN, site] > 0:
            last_s = max(last_s, (1.0 - table[IN, site]) / table[DOWN, site])
    return last_s


@njit(cache=True)
def local_share(
    table: Floats, order: Numbers, bounds: tuple[Floats, Floats, Floats, Floats], load: float
) -> tuple[float, float, float]:
    """The largest share of all bytes that can be read where it lies, at T and w = ``load``.

    With it, its growth per second of T and per unit of w.  ``order``: sites by falling ``LOCAL``.
    """
    low, high, falls, rises = bounds
    left, value = 1.0, 0.0
    for site in range(len(low)):
        left -= low[site]
        value += table[LOCAL, site] * min(low[site], table[HOME, site])
    last, price = len(order), 0.0
    for rank in range(len(order)):
        site = order[rank]
        top = min(high[site], load * table[SLOTS, site], table[HOME, site])
        room = max(0.0, top - low[site])
        if room >= left:
            last, price = rank, table[LOCAL, site]
            value += price * left
            break
        left -= room
        value += table[LOCAL, site] * room
    by_time, by_load = 0.0, 0.0
    for rank in range(len(order)):
        site = order[rank]
        more, home = table[LOCAL, site] - price, table[HOME, site]
        takes = load * table[SLOTS, site]
        if low[site] > home:  # as little as it may: it reads from elsewhere
            by_time += price * falls[site]
        elif rank < last and takes < min(home, high[site]):
            by_load += more * table[SLOTS, site]
        elif rank < last and high[site] < home:
            by_time += more * rises[site]
        elif rank > last:
            by_time -= more * falls[site]
    return value, by_time, by_load


@njit(cache=True)
def shares_at(
    table: Floats, order: Numbers, bounds: tuple[Floats, Floats, Floats, Floats], load: float
) -> Floats:
    """The most local shares at T and w; what these leave open goes where a slot's load is least."""
    low, high = bounds[0], bounds[1]
    count = len(low)
    shares, caps = np.minimum(low, high), np.empty(count)
    for site in range(count):
        caps[site] = max(shares[site], min(high[site], load * table[SLOTS, site]))
    left = 1.0 - shares.sum()
    begin = 0
    while begin < count and left > 0:
        end = begin
        while end < count and table[LOCAL, order[end]] == table[LOCAL, order[begin]]:
            end += 1
        equals = order[begin:end]
        left -= _raise(table, equals, shares, np.minimum(caps, table[HOME]), left)
        begin = end
    if left > 0:
        _raise(table, order, shares, caps, left)
    return shares


@njit(cache=True)
def _raise(table: Floats, sites: Numbers, shares: Floats, caps: Floats, total: float) -> float:
    """Raise shares of these sites by ``total`` together, if the caps allow; returns by how much.

    All that are raised, and not to their cap, end at the same load of a slot.
    """
    room = 0.0
    for site in sites:
        room += max(0.0, caps[site] - shares[site])
    if room <= total + ROUNDING:
        for site in sites:
            shares[site] = max(shares[site], caps[site])
        return room
    loads, slopes, count = np.empty(2 * len(sites)), np.empty(2 * len(sites)), 0
    for site in sites:
        slots = table[SLOTS, site]
        if caps[site] > shares[site]:
            loads[count], slopes[count] = shares[site] / slots, slots
            loads[count + 1], slopes[count + 1] = caps[site] / slots, -slots
            count += 2
    ranks = np.argsort(loads[:count])
    slope, filled, level = 0.0, 0.0, loads[ranks[0]]
    for rank in ranks:
        if filled + slope * (loads[rank] - level) >= total:
            break
        filled += slope * (loads[rank] - level)
        level = loads[rank]
        slope += slopes[rank]
    level += (total - filled) / slope
    for site in sites:
        shares[site] = max(shares[site], min(caps[site], level * table[SLOTS, site]))
    return total


# The search: the least T + K w, then the most local of all that are as fast -----------------------
#: Slopes of T + K w that are 0 but for rounding; T's own is 1.
_FLAT = 1e-11
#: A value that is as low as a line which it can't be below, but for rounding.
_REACHED = 1e-13

#: More steps than a search can take: each comes to another piece of a curve.
_STEPS_MAX = 1_000_000

#: a point of a curve over T: T, the value and a slope there, and w
_Point = tuple[float, float, float, float]
#: K, and the least w
_Work = tuple[float, float]


@compile_once
@njit(cache=True)
def search(
    table: Floats, work_s: float, task_s: float, local: float
) -> tuple[Floats, float, float, bool] | None:
    """The shares [sites], T and K w in seconds, and whether ``local`` (L) can be had.

    If not, the most that can be had counts.  None: no shares are possible.  K w >= ``task_s``.
    """
    order = np.argsort(-table[LOCAL])
    loosest, end_s = _largest_load(table), loosest_s(table)
    bounds = bounds_at(table, end_s)
    low, high = bounds[0], bounds[1]
    if (low > high + ROUNDING).any() or low.sum() > 1 + ROUNDING or high.sum() < 1 - ROUNDING:
        return None
    most_local = local_share(table, order, bounds, loosest)[0]
    in_budget = local <= most_local + ROUNDING
    local = min(local, most_local)
    begin_s = _first_s(table, order, local, loosest)
    if work_s <= 0:
        shares = shares_at(table, order, bounds_at(table, begin_s), loosest)
        return shares, begin_s, 0.0, in_budget
    work = work_s, task_s / work_s
    time_s, load = _lowest(table, order, begin_s, end_s, work, local)
    shares = shares_at(table, order, bounds_at(table, time_s), load)
    return shares, time_s, work_s * load, in_budget


@njit(cache=True)
def _largest_load(table: Floats) -> float:
    """A w from which on slots bound no share."""
    largest = 0.0
    for slots in table[SLOTS]:
        if slots > 0:
            largest = max(largest, 1.0 / slots)
    return largest


@njit(cache=True)
def _first_s(table: Floats, order: Numbers, local: float, load: float) -> float:
    """The least T for which there are shares, whatever w."""
    time_s = 0.0
    for _ in range(_STEPS_MAX):
        bounds = bounds_at(table, time_s)
        low, high, falls, rises = bounds
        step_s = max(_step(low.sum() - 1.0, falls.sum()), _step(1.0 - high.sum(), rises.sum()))
        for site in range(len(low)):
            step_s = max(step_s, _step(low[site] - high[site], falls[site] + rises[site]))
        if step_s == 0:
            value, by_time, _ = local_share(table, order, bounds, load)
            step_s = _step(local - value, by_time)
        if time_s + step_s <= time_s:
            return time_s
        time_s += step_s
    raise InvariantError("placement: the least T is never found")


@njit(cache=True)
def _less(steps: int) -> int:
    """How many steps may still follow; each comes to another piece of a curve."""
    if steps <= 0:
        raise InvariantError("placement: the least T + K w is never found")
    return steps - 1


@njit(cache=True)
def _step(lacks: float, slope: float) -> float:
    """How far to go until nothing is lacking, along a line of this slope."""
    return lacks / slope if lacks > ROUNDING and slope > 0 else 0.0


@njit(cache=True)
def _at(
    table: Floats, order: Numbers, time_s: float, work: _Work, local: float
) -> tuple[float, float, float]:
    """T + K w for the least w at this T, its slope there (one of them, at a corner), and w."""
    work_s, least = work
    bounds = bounds_at(table, time_s)
    low, high, falls, rises = bounds
    load, slope = max(least, 1.0 / table[SLOTS].sum()), 0.0
    for site in range(len(low)):
        if low[site] > load * table[SLOTS, site] and table[SLOTS, site] > 0:
            load, slope = low[site] / table[SLOTS, site], -falls[site] / table[SLOTS, site]
    for _ in range(_STEPS_MAX):
        total, by_time, by_load = 0.0, 0.0, 0.0
        for site in range(len(low)):
            takes = load * table[SLOTS, site]
            if takes < high[site]:
                total, by_load = total + takes, by_load + table[SLOTS, site]
            else:
                total, by_time = total + high[site], by_time + rises[site]
        step = _step(1.0 - total, by_load)
        if step == 0:
            total, by_time, by_load = local_share(table, order, bounds, load)
            step = _step(local - total, by_load)
        if load + step <= load:
            return time_s + work_s * load, 1.0 + work_s * slope, load
        load, slope = load + step, -by_time / by_load
    raise InvariantError("placement: the least w is never found")


@njit(cache=True)
def _lowest(
    table: Floats, order: Numbers, begin_s: float, end_s: float, work: _Work, local: float
) -> tuple[float, float]:
    """T and w where T + K w is least, from lines that touch it from below on both sides."""
    value, slope, load = _at(table, order, end_s, work, local)
    right = end_s, value, 1.0, load  # w gets no less
    value, slope, load = _at(table, order, begin_s, work, local)
    left = bottom = begin_s, value, slope, load
    steps = _STEPS_MAX
    while bottom[2] < -_FLAT or bottom[2] > _FLAT:
        steps = _less(steps)
        if bottom[2] < 0:
            left = bottom
        else:
            right = bottom
        if left[2] >= 0:
            return left[0], left[3]
        meet_s = _meet(left, right)
        if meet_s <= left[0]:
            return left[0], left[3]
        if meet_s >= right[0]:  # the left line is so steep that they meet there, but for rounding
            return right[0], right[3]
        line = left[1] + left[2] * (meet_s - left[0])
        value, slope, load = _at(table, order, meet_s, work, local)
        bottom = meet_s, value, slope, load
        if bottom[1] <= line * (1 + _REACHED):
            return bottom[0], bottom[3]
    first_s = _end_of_flat(table, order, bottom, left, work, local)
    last_s = _end_of_flat(table, order, bottom, right, work, local)
    return _most_local(table, order, bottom[1], first_s, last_s, work[0])


@njit(cache=True)
def _meet(left: _Point, right: _Point) -> float:
    """Where two lines meet."""
    ahead = left[1] - right[1] - left[2] * left[0] + right[2] * right[0]
    return ahead / (right[2] - left[2])


@njit(cache=True)
def _end_of_flat(
    table: Floats, order: Numbers, bottom: _Point, beside: _Point, work: _Work, local: float
) -> float:
    """Where the flat piece on which ``bottom`` is ends, on the side of a point ``beside`` it."""
    steps = _STEPS_MAX
    while abs(beside[2]) > _FLAT:
        steps = _less(steps)
        end_s = beside[0] + (bottom[1] - beside[1]) / beside[2]
        if not min(beside[0], bottom[0]) < end_s < max(beside[0], bottom[0]):
            return bottom[0] if abs(end_s - bottom[0]) < abs(end_s - beside[0]) else beside[0]
        steep, slope, load = _at(table, order, end_s, work, local)
        there = end_s, steep, slope, load
        if there[1] <= bottom[1] * (1 + _REACHED) or there[2] * beside[2] < 0:
            return end_s
        beside = there
    return beside[0]


@njit(cache=True)
def _most_local(
    table: Floats, order: Numbers, value: float, first_s: float, last_s: float, work_s: float
) -> tuple[float, float]:
    """T and w of T + K w = ``value``, with the most bytes read where they lie."""
    left = _local_at(table, order, first_s, value, work_s)
    right = _local_at(table, order, last_s, value, work_s)
    steps = _STEPS_MAX
    while left[2] < 0 < right[2]:
        steps = _less(steps)
        meet_s = _meet(left, right)
        line = left[1] + left[2] * (meet_s - left[0])
        best = _local_at(table, order, meet_s, value, work_s)
        if best[1] <= line + _REACHED or not left[0] < meet_s < right[0]:
            return meet_s, best[3]
        if best[2] < 0:
            left = best
        else:
            right = best
    return (left[0], left[3]) if left[2] >= 0 else (right[0], right[3])


@njit(cache=True)
def _local_at(table: Floats, order: Numbers, time_s: float, value: float, work_s: float) -> _Point:
    """The share of bytes that have to go between sites, with its slope, on T + K w = ``value``."""
    load = (value - time_s) / work_s
    share, by_time, by_load = local_share(table, order, bounds_at(table, time_s), load)
    return time_s, 1.0 - share, by_load / work_s - by_time, load


# The two problems ---------------------------------------------------------------------------------
def place_maps(sites: Sites, stage: Stage, wanted: Bounds | None = None) -> Plan | None:
    """Equations 1 to 5, and the budget of 4.3."""
    held, size = stage.held_bytes, stage.size_bytes
    table = np.empty((ROWS, len(held)))
    table[SLOTS] = sites.slots
    table[OUT] = table[IN] = table[HOME] = held / size
    table[UP] = sites.up_bytes_per_s / size
    table[DOWN] = sites.down_bytes_per_s / size
    table[LOCAL] = 1.0
    table[LEAST] = 0.0 if wanted is None else wanted.least
    table[MOST] = np.inf if wanted is None else wanted.most
    return _placed(table, stage)


def place_reduces(sites: Sites, stage: Stage) -> Plan | None:
    """Equations 6 to 10, and the budget of 4.3."""
    held, size = stage.held_bytes, stage.size_bytes
    table = np.empty((ROWS, len(held)))
    table[SLOTS] = sites.slots
    elsewhere = size - held
    table[OUT], table[IN], table[HOME] = held > 0, elsewhere <= 0, 1.0
    table[UP] = divided(sites.up_bytes_per_s, held)
    table[DOWN] = divided(sites.down_bytes_per_s, elsewhere)
    table[LOCAL] = held / size
    table[LEAST], table[MOST] = 0.0, np.inf
    return _placed(table, stage)


def _placed(table: Floats, stage: Stage) -> Plan | None:
    local = 1.0 - stage.budget_bytes / stage.size_bytes
    found = search(table, stage.work_s, stage.task_s, local)
    return None if found is None else Plan(*found)


def fastest_shuffle_s(leave_s: Floats, come_s: Floats) -> float | None:
    """The least T_shuf over all places of the data, for reduces that are placed; None if none is.

    With the share q_x of the data at site x, it is the largest of q_x leave_s and (1 - q_x) come_s.
    """
    table = np.zeros((ROWS, len(leave_s)))
    table[SLOTS] = table[MOST] = table[HOME] = 1.0  # data may lie anywhere
    table[OUT], table[UP] = come_s > 0, divided(1.0, come_s)
    table[IN], table[DOWN] = leave_s == 0, divided(1.0, leave_s)
    found = search(table, 0.0, 0.0, 0.0)
    return None if found is None else found[1]


@functools.cache
def load_loops() -> None:
    """Compile the loops now, or load them if they have been compiled on this machine."""
    fastest_shuffle_s(np.ones(1), np.ones(1))
