"""All levels of a group by water-filling: what ``leveling`` starts from, and falls back on.

It goes by links, not by rows: the link with the smallest share is the bottleneck of all rows that
still rise on it, so that its level is known, and its rows rise on no other link any more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices, sift_down
from railyard.netemu.schedulers.fast.loops.linklists import RowLists

_0, _1 = np.uint64(0), np.uint64(1)
#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: A sum that has shrunk to this share has lost too many digits.
_CANCELS = 1e-3


@njit(cache=True)
def fill_levels(
    lists: RowLists, begins: Numbers, sizes: Numbers, left: Floats, levels: Floats, load: Floats
) -> None:
    """Find the levels at which rows share what is ``left`` of the links, and what loads that makes.

    A link with nothing left has level 0.
    """
    links, none = len(left), len(left) - 1
    rest, rising, rows = left.copy(), np.zeros(links), sizes.copy()
    fixed, entries, weights = np.zeros(links, np.bool_), lists.entries, lists.weights
    load[:] = 0.0
    for link in range(none):
        levels[link] = np.inf if left[link] > 0 else 0.0
    levels[none] = np.inf
    _add_weights(weights, begins, sizes, rising)
    summed = rising.copy()
    for link in range(none):
        if levels[link] == 0:
            _fix(entries, weights, begins, sizes, link, 0.0, fixed, rest, rising, rows, load)
    for link in range(none):
        if rising[link] < summed[link] * _CANCELS:
            rising[link] = summed[link] = _weight(entries, weights, begins, sizes, link, fixed)
    heap, share, size = _by_share(rest, rising, rows, fixed)
    level = 0.0
    while size > 0:
        link = heap[0]
        if rows[link] > 0:
            if rising[link] < summed[link] * _CANCELS:
                rising[link] = summed[link] = _weight(entries, weights, begins, sizes, link, fixed)
            expected, rate = share[0], rest[link] / rising[link]
            if rate > expected * _ROUNDING:
                share[0] = rate
                sift_down(heap, share, size, _0)
                continue
            level = levels[link] = max(rate, level)  # it only rises; rest may be all rounding
            _fix(entries, weights, begins, sizes, link, level, fixed, rest, rising, rows, load)
        size -= _1
        heap[0], share[0], share[size] = heap[size], share[size], np.inf
        sift_down(heap, share, size, _0)


@borrows
def _add_weights(weights: Floats, begins: Numbers, sizes: Numbers, rising: Floats) -> None:
    """Add the weights of all rows to their links' sums."""
    for link in range(len(rising) - 1):
        for place in range(begins[link], begins[link] + sizes[link]):
            rising[link] += weights[place]


@njit(cache=True)
def _by_share(
    rest: Floats, rising: Floats, rows: Numbers, fixed: Bools
) -> tuple[Indices, Floats, np.uint64]:
    """The heap of links on which rows still rise, by their shares, and how many they are."""
    heap, share = np.empty(len(rest), np.uint32), np.empty(len(rest) + 1)
    size = _0
    for link in range(len(rest) - 1):
        if rows[link] > 0 and not fixed[link]:
            heap[size], share[size] = link, rest[link] / rising[link]
            size += _1
    share[size] = np.inf
    place = size >> _1
    while place > 0:
        place -= _1
        sift_down(heap, share, size, place)
    return heap, share, size


@borrows
def _fix(
    entries: Indices,
    weights: Floats,
    begins: Numbers,
    sizes: Numbers,
    link: int,
    rate: float,
    fixed: Bools,
    rest: Floats,
    rising: Floats,
    rows: Numbers,
    load: Floats,
) -> None:
    """Have the rows of a link that still rise stay at this rate."""
    carries = 0.0
    fixed[link] = True
    for place in range(begins[link], begins[link] + sizes[link]):
        rises = True
        for position in range(1, len(entries)):
            rises &= not fixed[entries[position, place]]
        if not rises:
            continue
        takes = rate * weights[place]
        carries += takes
        for position in range(1, len(entries)):
            other = entries[position, place]
            rest[other] = max(rest[other] - takes, 0.0)
            rising[other] -= weights[place]
            rows[other] -= 1
            load[other] += takes
    load[link] += carries
    load[-1] = 0.0  # stands for no link


@borrows
def _weight(
    entries: Indices, weights: Floats, begins: Numbers, sizes: Numbers, link: int, fixed: Bools
) -> float:
    """Sum of the weights of those rows of a link that still rise."""
    weight = 0.0
    for place in range(begins[link], begins[link] + sizes[link]):
        rises = True
        for position in range(1, len(entries)):
            rises &= not fixed[entries[position, place]]
        if rises:
            weight += weights[place]
    return weight
