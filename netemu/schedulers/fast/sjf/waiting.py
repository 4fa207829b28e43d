"""Rows that wait under ``sjf``: for each link a list of those that cross it, the shortest first.

The rows that come and go are short ones: with room in front of each list, few others move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import WEIGHT


class Waiting(NamedTuple):
    """All lists: that of a link has room in front of it down to where that of the link before ends.

    It begins at ``ends[link] - sizes[link]``.
    """

    keys: Floats  #: [place]: bytes that a row has left to send
    rows: Numbers  #: [place]: that row
    ends: Numbers  #: [link]: the place behind its list
    sizes: Numbers  #: [link]: how many rows its list has


def none_waiting(links: int) -> Waiting:
    """No rows, and no room for any."""
    no_rows, by_link = np.zeros(0, dtype=np.int64), np.zeros(links, dtype=np.int64)
    return Waiting(np.zeros(0), no_rows, by_link, by_link.copy())


@njit(cache=True)
def place_after(waiting: Waiting, link: int, key: float) -> int:
    """The place of the first row in a link's list that has more than ``key`` bytes left."""
    keys, end = waiting.keys, waiting.ends[link]
    begin: int = end - waiting.sizes[link]
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def _place_of(waiting: Waiting, link: int, key: float, row: int) -> int:
    """The place of a row, or where it belongs: rows of equal length are ordered by number."""
    keys, rows, end = waiting.keys, waiting.rows, waiting.ends[link]
    begin: int = end - waiting.sizes[link]
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key or (keys[middle] == key and rows[middle] < row):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def insert(waiting: Waiting, link: int, key: float, row: int) -> None:
    """Add a row to a link's list, which must have room for it."""
    keys, rows = waiting.keys, waiting.rows
    at = _place_of(waiting, link, key, row) - 1
    for place in range(waiting.ends[link] - waiting.sizes[link], at + 1):
        keys[place - 1], rows[place - 1] = keys[place], rows[place]
    keys[at], rows[at] = key, row
    waiting.sizes[link] += 1


@njit(cache=True)
def remove(waiting: Waiting, link: int, key: float, row: int) -> int:
    """Remove a row, which must be there, from a link's list; returns its place.

    Those before it move up by one.
    """
    keys, rows = waiting.keys, waiting.rows
    at = _place_of(waiting, link, key, row)
    for place in range(at, waiting.ends[link] - waiting.sizes[link], -1):
        keys[place], rows[place] = keys[place - 1], rows[place - 1]
    waiting.sizes[link] -= 1
    return at


@njit(cache=True)
def with_room_for(waiting: Waiting, more: Numbers) -> Waiting:
    """The same lists, with room for at least ``more`` rows in that of each link."""
    ends, sizes, enough, end = waiting.ends, waiting.sizes, True, 0
    for link in range(len(sizes)):
        enough &= ends[link] - sizes[link] - more[link] >= end
        end = ends[link]
    if enough:
        return waiting
    total, end = 2 * (sizes.sum() + more.sum()), 0
    keys, rows, new_ends = np.empty(total), np.empty(total, np.int64), np.empty_like(ends)
    for link in range(len(sizes)):
        old, size = ends[link], sizes[link]
        end += 2 * (size + more[link])
        keys[end - size : end] = waiting.keys[old - size : old]
        rows[end - size : end] = waiting.rows[old - size : old]
        new_ends[link] = end
    return Waiting(keys, rows, new_ends, sizes)


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
    waiting: Waiting,
    reopened: Numbers,
    at: Numbers,
    reopened_count: int,
    left: Floats,
) -> tuple[int, int, float]:
    """Find the shortest row that can send, in the lists of reopened links from ``at[link]`` on.

    Links with no such row are dropped from ``reopened``.  Returns how many remain, the link of the
    list in which the row is (-1: none), and the bytes that the row has left (inf: none).
    """
    keys, rows, ends, kept, chosen, least = waiting.keys, waiting.rows, waiting.ends, 0, -1, np.inf
    for number in range(reopened_count):
        link = reopened[number]
        place, end = at[link], ends[link]
        if left[link] == 0:
            continue
        while place < end:
            row, most = rows[place], np.inf
            for position in range(len(paths)):
                most = min(most, left[paths[position, row]])
            if most > 0 and table[WEIGHT, row] > 0:
                break
            place += 1
        at[link] = place
        if place == end:
            continue
        reopened[kept] = link
        kept += 1
        if keys[place] < least:
            chosen, least = link, keys[place]
    return kept, chosen, least
