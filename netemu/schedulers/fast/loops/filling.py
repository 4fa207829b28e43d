"""Water-filling, compiled: ``netemu.schedulers.filling`` computes the same.

All indices are unsigned: numba then leaves out the check for negative ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers

#: Numbers of links or rows.
Indices = NDArray[np.uint32]

#: Unsigned, too: added to a plain 1, an unsigned number would become signed, or a float.
_0, _1 = np.uint64(0), np.uint64(1)
#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: A sum that has shrunk to this share has lost too many digits.
_CANCELS = 1e-3


@njit(cache=True)
def scratch(links: int) -> tuple[Floats, Indices]:
    """Scratch arrays for ``fill``, [column, link], which can be used again."""
    return np.zeros((3, links)), np.zeros((4, links), np.uint32)


@njit(cache=True)
def fill(
    paths: Numbers,
    weights: Floats,
    left: Floats,
    levels: Floats,
    rates: Floats,
    floats: Floats,
    numbers: Indices,
) -> None:
    """Share what is ``left`` of the links, in bytes/s; ``rates`` gets bytes/s per unit of weight.

    ``paths`` may have more rows than ``weights``.  Rows without weight, and those that cross a
    link with nothing left, get 0; those that cross no limited link, inf.  ``levels`` gets, for
    each link that is a bottleneck, the rate at which it froze rows; others keep theirs.
    ``floats`` and ``numbers`` come from ``scratch``.
    """
    # The link with the smallest share is the bottleneck of all rows that still rise on it.  Shares
    # only grow, so one that is out of date comes to the top too early, and is put back.
    load, summed, share = floats[0], floats[1], floats[2]
    rising, begins, ends, heap = numbers[0], numbers[1], numbers[2], numbers[3]
    ways = np.empty((len(weights), len(paths)), np.uint32)
    rows = np.empty(len(weights), np.uint32)
    rises, size = _let_rise(paths, weights, left, rates, ways, rows, load, rising, heap)
    through = _by_link(ways, rises, heap, size, rising, begins, ends)
    for at in range(size):
        link = heap[at]
        summed[link], share[at] = load[link], left[link] / load[link]
    share[size] = np.inf
    place = size >> _1
    while place > 0:
        place -= _1
        sift_down(heap, share, size, place)
    while rises > 0:
        if size == 0:
            raise InvariantError("water-filling: rows still rise, and no link is left")
        link = heap[0]
        if rising[link] > 0:
            begin, end = begins[link], ends[link]
            if load[link] < summed[link] * _CANCELS:
                load[link] = summed[link] = _weight(through[begin:end], rows, rates, weights)
            expected, rate = share[0], left[link] / load[link]
            if rate > expected * _ROUNDING:
                share[0] = rate
                sift_down(heap, share, size, _0)
                continue
            levels[link] = rate
            rises -= _freeze(
                ways, through, begin, end, rows, rate, weights, rates, left, load, rising
            )
            left[link] = 0.0
        size -= _1
        heap[0], share[0], share[size] = heap[size], share[size], np.inf
        sift_down(heap, share, size, _0)


@njit(cache=True)
def _let_rise(
    paths: Numbers,
    weights: Floats,
    left: Floats,
    rates: Floats,
    ways: Indices,
    rows: Indices,
    load: Floats,
    rising: Indices,
    crossed: Indices,
) -> tuple[np.uint64, np.uint64]:
    """Find the rows that rise: those with a weight that cross a limited link, and no full one.

    Returns how many rows, and how many links they cross.  ``rows`` gets their numbers, ``ways``
    [row, position] their links; ``load`` the sum of their weights by link, ``rising`` how many
    they are by link, which was 0, and is so again when all of them are frozen.
    """
    many, rises = _0, _0
    rising[len(left) - 1] = 1  # stands for no link: not counted as crossed
    for row in range(len(weights)):
        weight, least = weights[row], np.inf
        if weight <= 0:
            rates[row] = 0.0
            continue
        for position in range(len(paths)):
            link = ways[rises, position] = np.uint32(paths[position, row])
            least = min(least, left[link])
        rates[row] = 0.0 if least <= 0 else np.inf
        if not 0 < least < np.inf:
            continue
        for position in range(len(paths)):
            link = ways[rises, position]
            if rising[link] == 0:
                crossed[many], load[link] = link, 0.0
                many += _1
            load[link] += weight
            rising[link] += _1
        rows[rises] = row
        rises += _1
    rising[len(left) - 1] = 0
    return rises, many


@njit(cache=True)
def _by_link(
    ways: Indices,
    rises: np.uint64,
    crossed: Indices,
    size: np.uint64,
    rising: Indices,
    begins: Indices,
    ends: Indices,
) -> Indices:
    """The rows that rise, by link: those of a link are from ``begins[link]`` to ``ends[link]``.

    They are numbered as in ``ways``.
    """
    entries = _0
    for place in range(size):
        link = crossed[place]
        begins[link] = ends[link] = entries
        entries += np.uint64(rising[link])
    through = np.empty(entries, np.uint32)
    for number in range(rises):
        for position in range(ways.shape[1]):
            link = ways[number, position]
            if rising[link] > 0:  # not the one that stands for no link
                end = ends[link]
                through[end], ends[link] = number, end + _1
    return through


@njit(cache=True)
def _weight(numbers: Indices, rows: Indices, rates: Floats, weights: Floats) -> float:
    """Sum of the weights of those of these rows that still rise."""
    weight = 0.0
    for number in numbers:
        if rates[rows[number]] == np.inf:
            weight += weights[rows[number]]
    return weight


@njit(cache=True)
def _freeze(
    ways: Indices,
    through: Indices,
    begin: np.uint32,
    end: np.uint32,
    rows: Indices,
    rate: float,
    weights: Floats,
    rates: Floats,
    left: Floats,
    load: Floats,
    rising: Indices,
) -> np.uint64:
    """Freeze the rows of a link that still rise at this rate; returns how many they are."""
    frozen = _0
    for place in range(begin, end):
        number = through[place]
        row = rows[number]
        if rates[row] < np.inf:
            continue
        weight = weights[row]
        rates[row], takes = rate, rate * weight
        frozen += _1
        for position in range(ways.shape[1]):
            link = ways[number, position]
            left[link] = max(left[link] - takes, 0.0)
            load[link] -= weight
            rising[link] -= _1
    rising[len(left) - 1] = 0  # stands for no link
    return frozen


@njit(cache=True)
def sift_down(heap: Indices, keys: Floats, size: np.uint64, place: np.uint64) -> None:
    """Move an entry of the heap below those with smaller keys; ``keys[size]`` must be inf."""
    link, key = heap[place], keys[place]
    child = place + place + _1
    while child < size:
        child += np.uint64(keys[child + _1] < keys[child])
        if keys[child] >= key:
            break
        heap[place], keys[place] = heap[child], keys[child]
        place = child
        child = place + place + _1
    heap[place], keys[place] = link, key
