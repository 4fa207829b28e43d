"""Water-filling in rounds, compiled: ``netemu.schedulers.filling.fill``, to the last bit.

It sums in the order in which that does, so that rates do not depend on which of the two ran.
``loops.filling`` takes rows in another order, so its sums round differently.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices

#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: Sums of whole numbers below this are exact, in whatever order they are added and subtracted.
_EXACT_BELOW = 2.0**52


@njit(cache=True)
def fill_in_rounds(paths: Numbers, weights: Floats, left: Floats) -> Floats:
    """See ``netemu.schedulers.filling.fill``."""
    links, rates = len(left), np.zeros(len(weights))
    rows, ways, rising, count = _rising(paths, weights, left)
    frozen_ways, takes = np.empty_like(ways), np.empty(len(rows))
    load, taken, part = np.empty(links), np.empty(links), np.empty(links)
    share, full, hope = np.empty(links), np.empty(links, np.bool_), np.empty(len(rows))
    are_exact = _are_exact(rising, count)
    _sum_by_link(ways, rising, count, load, part)
    while count:
        for link in range(links):
            full[link] = load[link] > 0
            share[link] = left[link] / load[link] if full[link] else np.inf
        _find_bottlenecks(ways, share, count, hope, full)
        kept = frozen = 0
        for row in range(count):
            is_frozen, weight = _crosses(ways, row, full), rising[row]
            if is_frozen:
                rates[rows[row]] = hope[row]
                takes[frozen] = hope[row] * weight if hope[row] < np.inf else 0.0
                for position in range(ways.shape[1]):
                    link = frozen_ways[frozen, position] = ways[row, position]
                    load[link] -= weight
                frozen += 1
            else:
                rows[kept], rising[kept] = rows[row], weight
                for position in range(ways.shape[1]):
                    ways[kept, position] = ways[row, position]
                kept += 1
        count = _fewer(kept, count)
        _sum_by_link(frozen_ways, takes, frozen, taken, part)
        for link in range(links):
            left[link] = max(left[link] - taken[link], 0.0)
            if full[link] and share[link] < np.inf:
                left[link] = 0.0
        if not are_exact:
            _sum_by_link(ways, rising, count, load, part)
    return rates


# Inside ----------------------------------------------------------------------------------------
@borrows
def _fewer(rows: int, before: int) -> int:
    """How many rows still rise after a round, which has frozen some."""
    if rows >= before:
        raise InvariantError("water-filling: a round in which no row is frozen")
    return rows


@njit(cache=True)
def _rising(paths: Numbers, weights: Floats, left: Floats) -> tuple[Indices, Indices, Floats, int]:
    """The rows with a weight that cross no full link: numbers, links [row, position], weights.

    Returns how many they are, too: the arrays have room for all.
    """
    rows, rising = np.empty(len(weights), np.uint32), np.empty(len(weights))
    ways = np.empty((len(weights), len(paths)), np.uint32)
    count = 0
    for row in range(len(weights)):
        if weights[row] <= 0:
            continue
        least = np.inf
        for position in range(len(paths)):
            link = ways[count, position] = np.uint32(paths[position, row])
            least = min(least, left[link])
        if least > 0:
            rows[count], rising[count] = row, weights[row]
            count += 1
    return rows, ways, rising, count


@njit(cache=True)
def _are_exact(weights: Floats, count: int) -> bool:
    """Whether sums of these weights are exact, so that a link's can be kept up to date."""
    total, whole = 0.0, True
    for row in range(count):
        total += weights[row]
        whole &= weights[row] == np.floor(weights[row])
    return whole and total < _EXACT_BELOW


@njit(cache=True)
def _sum_by_link(ways: Indices, values: Floats, count: int, total: Floats, part: Floats) -> None:
    """``netemu.model.links.sum_by_link``: one position on the path after the other."""
    total[:] = 0.0
    for position in range(ways.shape[1]):
        part[:] = 0.0
        for row in range(count):
            part[ways[row, position]] += values[row]
        for link in range(len(total)):
            total[link] += part[link]


@njit(cache=True)
def _find_bottlenecks(ways: Indices, share: Floats, count: int, hope: Floats, full: Bools) -> None:
    """Note what each row may hope for; links where a row gets less elsewhere are not full."""
    for row in range(count):
        least = np.inf
        for position in range(ways.shape[1]):
            least = min(least, share[ways[row, position]])
        hope[row] = least
        for position in range(ways.shape[1]):
            link = ways[row, position]
            full[link] &= share[link] <= least * _ROUNDING


@njit(cache=True)
def _crosses(ways: Indices, row: int, full: Bools) -> bool:
    """Whether a row crosses a link that is full."""
    crosses = False
    for position in range(ways.shape[1]):
        crosses |= full[ways[row, position]]
    return crosses
