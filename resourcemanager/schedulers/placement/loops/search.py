"""The search of ``exact``: the least T + K w, then the most local of all that are as fast."""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.schedulers.placement.loops.table import (
    LOCAL,
    ROUNDING,
    SLOTS,
    bounds_at,
    local_share,
    loosest_s,
    shares_at,
)

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


@njit(cache=True)
def search(
    table: Floats, work_s: float, task_s: float, local: float
) -> tuple[Floats, float, float, bool] | None:
    """The shares [sites], T and K w in seconds, and whether ``local`` (L) can be had.

    If it can't, the most that can be takes its place.  None if no shares are possible.  K w is
    ``task_s`` at least.
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


# Inside ----------------------------------------------------------------------------------------
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
        step_s = max(
            _step(low.sum() - 1.0, falls.sum()),
            _step(1.0 - high.sum(), rises.sum()),
        )
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
