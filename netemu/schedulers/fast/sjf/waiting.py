"""Rows that wait under ``sjf``: for each link a list of those that cross it, the shortest first.

All lists are in two arrays: ``keys``, bytes left to send, and ``rows``.  The list of a link is
``sizes[link]`` long and ends before ``ends[link]``, with room in front of it down to where the
list of the link before ends: the rows that come and go are short ones, so that few others move.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import WEIGHT


@njit(cache=True)
def place_after(keys: Floats, end: int, size: int, key: float) -> int:
    """The place of the first row in a list that has more than ``key`` bytes left."""
    begin: int = end - size
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def _place_of(keys: Floats, rows: Numbers, end: int, size: int, key: float, row: int) -> int:
    """The place of a row, or where it belongs: rows of equal length are ordered by number."""
    begin: int = end - size
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key or (keys[middle] == key and rows[middle] < row):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def insert(
    keys: Floats, rows: Numbers, ends: Numbers, sizes: Numbers, link: int, key: float, row: int
) -> None:
    """Add a row to a link's list, which must have room for it."""
    size = sizes[link]
    at = _place_of(keys, rows, ends[link], size, key, row) - 1
    for place in range(ends[link] - size, at + 1):
        keys[place - 1], rows[place - 1] = keys[place], rows[place]
    keys[at], rows[at] = key, row
    sizes[link] = size + 1


@njit(cache=True)
def remove(
    keys: Floats, rows: Numbers, ends: Numbers, sizes: Numbers, link: int, key: float, row: int
) -> int:
    """Remove a row, which must be there, from a link's list; returns its place.

    Those before it move up by one.
    """
    size = sizes[link]
    at = _place_of(keys, rows, ends[link], size, key, row)
    for place in range(at, ends[link] - size, -1):
        keys[place], rows[place] = keys[place - 1], rows[place - 1]
    sizes[link] = size - 1
    return at


@njit(cache=True)
def has_room(ends: Numbers, sizes: Numbers, more: Numbers) -> bool:
    """Whether there is room for ``more`` rows in each link's list."""
    enough, end = True, 0
    for link in range(len(sizes)):
        enough &= ends[link] - sizes[link] - more[link] >= end
        end = ends[link]
    return enough


@njit(cache=True)
def make_room(
    keys: Floats, rows: Numbers, ends: Numbers, sizes: Numbers, more: Numbers
) -> tuple[Floats, Numbers]:
    """Make room for ``more`` rows in each link's list; returns ``keys`` and ``rows``."""
    total = 2 * (sizes.sum() + more.sum())
    new_keys, new_rows, end = np.empty(total), np.empty(total, np.int64), 0
    for link in range(len(sizes)):
        old, size = ends[link], sizes[link]
        end += 2 * (size + more[link])
        new_keys[end - size : end] = keys[old - size : old]
        new_rows[end - size : end] = rows[old - size : old]
        ends[link] = end
    return new_keys, new_rows


@njit(cache=True, inline="always")
def least_left(paths: Numbers, row: int, left: Floats) -> float:
    """Bytes/s that are left on a row's path."""
    least = np.inf
    for position in range(len(paths)):
        least = min(least, left[paths[position, row]])
    return least


@njit(cache=True)
def first_reopened(
    table: Floats,
    paths: Numbers,
    keys: Floats,
    rows: Numbers,
    ends: Numbers,
    reopened: Numbers,
    at: Numbers,
    reopened_count: int,
    left: Floats,
) -> tuple[int, int, float]:
    """Find the shortest row that can send, in the lists of reopened links from ``at[link]`` on.

    Links with no such row are dropped from ``reopened``.  Returns how many remain, the link of the
    list in which the row is (-1: none), and the bytes that the row has left (inf: none).
    """
    kept, chosen, least = 0, -1, np.inf
    for number in range(reopened_count):
        link = reopened[number]
        place, end = at[link], ends[link]
        if left[link] == 0:
            continue
        while place < end and (
            least_left(paths, rows[place], left) == 0 or table[WEIGHT, rows[place]] == 0
        ):
            place += 1
        at[link] = place
        if place == end:
            continue
        reopened[kept] = link
        kept += 1
        if keys[place] < least:
            chosen, least = link, keys[place]
    return kept, chosen, least
