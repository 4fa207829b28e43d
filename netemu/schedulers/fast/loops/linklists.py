"""For each link, the list of the rows that cross it: what ``leveling`` looks at."""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Numbers


@njit(cache=True)
def link_rows(
    paths: Numbers, first: int, count: int, entries: Numbers, begins: Numbers, sizes: Numbers
) -> Numbers:
    """Add rows, from the ``first`` on, to the list of each link that they cross; returns the lists.

    An entry, ``entries[:, place]``, is a row and the other links on its path.  A link's list begins
    at ``begins[link]``, is ``sizes[link]`` long, and has room up to where the next one begins.
    """
    none, more = len(sizes) - 1, np.zeros(len(sizes), np.int64)
    count_rows(paths, first, count, more)
    entries = _with_room(entries, begins, sizes, more, 1 if first == 0 else 2)
    for row in range(first, count):
        for position in range(len(paths)):
            link = paths[position, row]
            if link == none:
                continue
            place, other = begins[link] + sizes[link], 0
            sizes[link] += 1
            entries[0, place] = row
            for elsewhere in range(len(paths)):
                if elsewhere != position:
                    other += 1
                    entries[other, place] = paths[elsewhere, row]
    return entries


@njit(cache=True)
def count_rows(paths: Numbers, first: int, count: int, crossing: Numbers) -> None:
    """Add rows, from the ``first`` on, to the number of rows that cross each link."""
    for position in range(len(paths)):
        for row in range(first, count):
            crossing[paths[position, row]] += 1
    crossing[-1] = 0  # stands for no link


@njit(cache=True)
def _with_room(
    entries: Numbers, begins: Numbers, sizes: Numbers, more: Numbers, times: int
) -> Numbers:
    """The same lists with room for ``more`` entries by link, and ``times`` as much if they move."""
    none, enough = len(sizes) - 1, True
    for link in range(none):
        enough &= begins[link] + sizes[link] + more[link] <= begins[link + 1]
    if enough:
        return entries
    roomier = np.empty((len(entries), times * (sizes.sum() + more.sum())), np.int64)
    begin = 0
    for link in range(none):
        size, was = sizes[link], begins[link]
        roomier[:, begin : begin + size] = entries[:, was : was + size]
        begins[link] = begin
        begin += times * (size + more[link])
    begins[none] = begin
    return roomier
