"""Progressive filling, compiled: ``netemu.schedulers.filling`` is the simple version of it."""

from __future__ import annotations

import numpy as np
from numba import njit

from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.filling import Bools

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
    rises = np.zeros(len(weights), np.bool_)
    size = _let_rise(paths, weights, left, rates, rises, load, rising, heap)
    rows = _by_link(paths, rises, heap[:size], rising, begins, ends)
    for place in range(size):
        link = heap[place]
        summed[link], share[link] = load[link], left[link] / load[link]
    for place in range(size // 2 - 1, -1, -1):
        _sift_down(heap, size, place, share)
    while size > 0:
        link = heap[0]
        if rising[link] > 0:
            through = rows[begins[link] : ends[link]]
            if load[link] < summed[link] * _CANCELS:
                load[link] = summed[link] = _weight(through, rises, weights)
            expected, share[link] = share[link], left[link] / load[link]
            if share[link] > expected * _ROUNDING:
                _sift_down(heap, size, 0, share)
                continue
            _hold(paths, through, share[link], weights, rises, rates, left, load, rising)
            left[link], levels[link] = 0.0, share[link]
        size -= 1
        heap[0] = heap[size]
        _sift_down(heap, size, 0, share)


@njit(cache=True)
def _let_rise(
    paths: Numbers,
    weights: Floats,
    left: Floats,
    rates: Floats,
    rises: Bools,
    load: Floats,
    rising: Numbers,
    crossed: Numbers,
) -> int:
    """Find the rows that rise; returns how many links they cross.

    ``load`` gets their weight, ``rising`` their number, link by link; that was 0, and is so again
    when all of them are held up.
    """
    none, many = len(left) - 1, 0
    for row in range(len(weights)):
        least = np.inf if weights[row] > 0 else 0.0
        for position in range(len(paths)):
            least = min(least, left[paths[position, row]])
        rates[row] = 0.0 if least <= 0 else np.inf
        if not 0 < least < np.inf:
            continue
        rises[row] = True
        for position in range(len(paths)):
            link = paths[position, row]
            if link == none:
                continue
            if rising[link] == 0:
                crossed[many], load[link] = link, 0.0
                many += 1
            load[link] += weights[row]
            rising[link] += 1
    return many


@njit(cache=True)
def _by_link(
    paths: Numbers,
    rises: Bools,
    crossed: Numbers,
    rising: Numbers,
    begins: Numbers,
    ends: Numbers,
) -> Numbers:
    """The rows that rise, link by link: those of a link are there from its begin to its end."""
    entries = 0
    for link in crossed:
        begins[link] = ends[link] = entries
        entries += rising[link]
    rows = np.empty(entries, np.int64)
    for row in range(len(rises)):
        if rises[row]:
            for position in range(len(paths)):
                link = paths[position, row]
                if rising[link] > 0:  # is one
                    rows[ends[link]] = row
                    ends[link] += 1
    return rows


@njit(cache=True)
def _weight(rows: Numbers, rises: Bools, weights: Floats) -> float:
    weight = 0.0
    for row in rows:
        if rises[row]:
            weight += weights[row]
    return weight


@njit(cache=True)
def _hold(
    paths: Numbers,
    rows: Numbers,
    rate: float,
    weights: Floats,
    rises: Bools,
    rates: Floats,
    left: Floats,
    load: Floats,
    rising: Numbers,
) -> None:
    """Rows that still rise do so to this rate."""
    for row in rows:
        if rises[row]:
            rises[row], rates[row] = False, rate
            for position in range(len(paths)):
                link = paths[position, row]
                left[link] = max(left[link] - rate * weights[row], 0.0)
                load[link] -= weights[row]
                rising[link] -= 1
    rising[-1] = 0  # stands for no link


@njit(cache=True)
def _sift_down(heap: Numbers, size: int, place: int, share: Floats) -> None:
    """Put the link at a place of the heap below those with smaller shares."""
    link = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and share[heap[child + 1]] < share[heap[child]]:
            child += 1
        if share[heap[child]] >= share[link]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = link
