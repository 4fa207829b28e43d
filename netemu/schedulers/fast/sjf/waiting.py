"""Rows that wait, for each link that they cross in the order of what they have left to send.

A list for each link, all of them in two arrays: ``keys`` (bytes) and ``rows``.  That of a link
begins at ``begins[link]``, is ``sizes[link]`` long, and has room up to where the next one begins.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import WEIGHT


@njit(cache=True)
def place_after(keys: Floats, begin: int, size: int, key: float) -> int:
    """The place of the first one in a list that is longer than that."""
    end: int = begin + size
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def _place_of(keys: Floats, rows: Numbers, begin: int, size: int, key: float, row: int) -> int:
    """Where a row is, or has to be put: those of one length are in the order of their numbers."""
    end: int = begin + size
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key or (keys[middle] == key and rows[middle] < row):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def insert(
    keys: Floats, rows: Numbers, begins: Numbers, sizes: Numbers, link: int, key: float, row: int
) -> None:
    """Put a row into a link's list, which must have room for it."""
    begin, size = begins[link], sizes[link]
    at = _place_of(keys, rows, begin, size, key, row)
    for place in range(begin + size, at, -1):
        keys[place], rows[place] = keys[place - 1], rows[place - 1]
    keys[at], rows[at] = key, row
    sizes[link] = size + 1


@njit(cache=True)
def remove(
    keys: Floats, rows: Numbers, begins: Numbers, sizes: Numbers, link: int, key: float, row: int
) -> int:
    """Take a row, which must be there, from a link's list; returns its place."""
    begin, size = begins[link], sizes[link]
    at = _place_of(keys, rows, begin, size, key, row)
    for place in range(at, begin + size - 1):
        keys[place], rows[place] = keys[place + 1], rows[place + 1]
    sizes[link] = size - 1
    return at


@njit(cache=True)
def make_room(
    keys: Floats, rows: Numbers, begins: Numbers, sizes: Numbers, more: Numbers
) -> tuple[Floats, Numbers]:
    """Have room for so many more rows in each list; returns ``keys`` and ``rows``."""
    enough = True
    for link in range(len(sizes)):
        enough &= begins[link] + sizes[link] + more[link] <= begins[link + 1]
    if enough:
        return keys, rows
    total = 2 * (sizes.sum() + more.sum())
    new_keys, new_rows, begin = np.empty(total), np.empty(total, np.int64), 0
    for link in range(len(sizes)):
        old, size = begins[link], sizes[link]
        new_keys[begin : begin + size] = keys[old : old + size]
        new_rows[begin : begin + size] = rows[old : old + size]
        begins[link] = begin
        begin += 2 * (size + more[link])
    begins[-1] = begin
    return new_keys, new_rows


@njit(cache=True, inline="always")
def least_left(paths: Numbers, row: int, left: Floats) -> float:
    """What is left on a row's way."""
    least = np.inf
    for position in range(len(paths)):
        least = min(least, left[paths[position, row]])
    return least


@njit(cache=True)
def first_loose(
    table: Floats,
    paths: Numbers,
    keys: Floats,
    rows: Numbers,
    begins: Numbers,
    sizes: Numbers,
    loose: Numbers,
    at: Numbers,
    many_loose: int,
    left: Floats,
) -> tuple[int, int, float]:
    """The list with the shortest row that can send, of lists from the place that they are ``at``.

    Those in which none can any more are left out.  Returns how many lists are left, which it is
    (a link), and what the row has left.
    """
    kept, chosen, least = 0, -1, np.inf
    for number in range(many_loose):
        link = loose[number]
        place, end = at[link], begins[link] + sizes[link]
        if left[link] == 0:
            continue
        while place < end and (
            least_left(paths, rows[place], left) == 0 or table[WEIGHT, rows[place]] == 0
        ):
            place += 1
        at[link] = place
        if place == end:
            continue
        loose[kept] = link
        kept += 1
        if keys[place] < least:
            chosen, least = link, keys[place]
    return kept, chosen, least
