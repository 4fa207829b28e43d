"""Progressive filling, compiled: ``netemu.schedulers.filling`` is the simple version of it."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from netemu.schedulers.base import Floats, Numbers

#: Numbers of links or rows.  Unsigned: whether they count from the end is not looked at then.
Indices = NDArray[np.uint32]

#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: A sum from which so much has been taken that this share is left has lost too many digits.
_CANCELS = 1e-3


@njit(cache=True)
def scratch(links: int) -> tuple[Floats, Numbers]:
    """What ``fill`` works with, to be used again and again."""
    return np.zeros((3, links)), np.zeros((4, links), np.int64)


@njit(cache=True)
def fill(
    paths: Numbers,
    weights: Floats,
    left: Floats,
    levels: Floats,
    rates: Floats,
    floats: Floats,
    numbers: Numbers,
) -> None:
    """Share what is ``left`` of the links; ``rates`` gets bytes/s for each unit of weight.

    ``paths`` may have more rows than ``weights``.  Rows without weight, and those that cross a
    link with nothing left, get 0; those that cross no limited link, inf.  ``levels`` gets, for
    each link that held rows up, the rate at which it did; others keep theirs.  ``floats`` and
    ``numbers`` are a ``scratch``.
    """
    # The link with the smallest share is the bottleneck of all rows that still rise on it.  Shares
    # only grow meanwhile, so one that is out of date comes up too early, and is put back.
    load, summed, share = floats[0], floats[1], floats[2]
    rising, begins, ends, heap = numbers[0], numbers[1], numbers[2], numbers[3]
    ways = np.empty((len(weights), len(paths)), np.uint32)
    rows = np.empty(len(weights), np.uint32)
    rises, size = _let_rise(paths, weights, left, rates, ways, rows, load, rising, heap)
    ways, rows = ways[:rises], rows[:rises]
    through = _by_link(ways, heap[:size], rising, begins, ends)
    for place in range(size):
        link = heap[place]
        summed[link], share[place] = load[link], left[link] / load[link]
    for place in range(size // 2 - 1, -1, -1):
        _sift_down(heap, share, size, place)
    while rises > 0:
        link = heap[0]
        if rising[link] > 0:
            those = through[begins[link] : ends[link]]
            if load[link] < summed[link] * _CANCELS:
                load[link] = summed[link] = _weight(those, rows, rates, weights)
            expected, share[0] = share[0], left[link] / load[link]
            if share[0] > expected * _ROUNDING:
                _sift_down(heap, share, size, 0)
                continue
            levels[link] = share[0]
            rises -= _hold(ways, those, rows, share[0], weights, rates, left, load, rising)
            left[link] = 0.0
        size -= 1
        heap[0], share[0] = heap[size], share[size]
        _sift_down(heap, share, size, 0)


@njit(cache=True)
def _let_rise(
    paths: Numbers,
    weights: Floats,
    left: Floats,
    rates: Floats,
    ways: Indices,
    rows: Indices,
    load: Floats,
    rising: Numbers,
    crossed: Numbers,
) -> tuple[int, int]:
    """Find the rows that rise: those whose rates are inf here and limited on their ways.

    Returns how many they are, and how many links they cross.  ``rows`` gets which they are, and
    ``ways`` the links of each; ``load`` gets their weight, ``rising`` their number, link by link;
    that was 0, and is so again when all of them are held up.
    """
    none, many, rises = len(left) - 1, 0, 0
    for row in range(len(weights)):
        weight, least = weights[row], np.inf if weights[row] > 0 else 0.0
        for position in range(len(paths)) if weight > 0 else range(0):
            link = np.uint32(paths[position, row])
            ways[rises, position] = link
            least = min(least, left[link])
        rates[row] = 0.0 if least <= 0 else np.inf
        if not 0 < least < np.inf:
            continue
        for link in ways[rises]:
            if link == none:
                continue
            if rising[link] == 0:
                crossed[many], load[link] = link, 0.0
                many += 1
            load[link] += weight
            rising[link] += 1
        rows[rises] = row
        rises += 1
    return rises, many


@njit(cache=True)
def _by_link(
    ways: Indices, crossed: Numbers, rising: Numbers, begins: Numbers, ends: Numbers
) -> Indices:
    """The rows that rise, link by link: those of a link are there from its begin to its end.

    They are numbered as in ``ways``.
    """
    entries = 0
    for link in crossed:
        begins[link] = ends[link] = entries
        entries += rising[link]
    through = np.empty(entries, np.uint32)
    for number in range(len(ways)):
        for link in ways[number]:
            if rising[link] > 0:  # is one
                through[ends[link]] = number
                ends[link] += 1
    return through


@njit(cache=True)
def _weight(those: Indices, rows: Indices, rates: Floats, weights: Floats) -> float:
    weight = 0.0
    for number in those:
        if rates[rows[number]] == np.inf:
            weight += weights[rows[number]]
    return weight


@njit(cache=True)
def _hold(
    ways: Indices,
    those: Indices,
    rows: Indices,
    rate: float,
    weights: Floats,
    rates: Floats,
    left: Floats,
    load: Floats,
    rising: Numbers,
) -> int:
    """Those that still rise do so to this rate; returns how many they are."""
    held = 0
    for number in those:
        row = rows[number]
        if rates[row] < np.inf:
            continue
        rates[row], weight = rate, weights[row]
        held += 1
        for link in ways[number]:
            left[link] = max(left[link] - rate * weight, 0.0)
            load[link] -= weight
            rising[link] -= 1
    rising[-1] = 0  # stands for no link
    return held


@njit(cache=True)
def _sift_down(heap: Numbers, keys: Floats, size: int, place: int) -> None:
    """Put what is at a place of the heap below what has smaller keys."""
    link, key = heap[place], keys[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        heap[place], keys[place] = heap[child], keys[child]
        place = child
    heap[place], keys[place] = link, key
