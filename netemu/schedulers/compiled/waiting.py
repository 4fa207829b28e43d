"""Rows that wait, for each link that they cross in the order of what they have left to send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from netemu.rowtable import WEIGHT
from netemu.schedulers.base import Floats, Numbers


class Waiting(NamedTuple):
    """A list for each link.

    That of a link begins at ``begins[link]``, is ``sizes[link]`` long, and has room up to where the
    next one begins.
    """

    keys: Floats  #: what rows have left to send (bytes)
    rows: Numbers
    begins: Numbers
    sizes: Numbers


@njit(cache=True)
def place_after(waiting: Waiting, link: int, key: float) -> int:
    """The place of the first row in a list that has more left than that."""
    keys = waiting.keys
    begin: int = waiting.begins[link]
    end = begin + waiting.sizes[link]
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def _place_of(waiting: Waiting, link: int, key: float, row: int) -> int:
    """Where a row is, or has to be put: those of one length are in the order of their numbers."""
    keys, rows = waiting.keys, waiting.rows
    begin: int = waiting.begins[link]
    end = begin + waiting.sizes[link]
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key or (keys[middle] == key and rows[middle] < row):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def insert(waiting: Waiting, link: int, key: float, row: int) -> None:
    """Put a row into a link's list, which must have room for it."""
    keys, rows = waiting.keys, waiting.rows
    at = _place_of(waiting, link, key, row)
    for place in range(waiting.begins[link] + waiting.sizes[link], at, -1):
        keys[place], rows[place] = keys[place - 1], rows[place - 1]
    keys[at], rows[at] = key, row
    waiting.sizes[link] += 1


@njit(cache=True)
def remove(waiting: Waiting, link: int, key: float, row: int) -> int:
    """Take a row, which must be there, from a link's list; returns its place."""
    keys, rows = waiting.keys, waiting.rows
    at = _place_of(waiting, link, key, row)
    for place in range(at, waiting.begins[link] + waiting.sizes[link] - 1):
        keys[place], rows[place] = keys[place + 1], rows[place + 1]
    waiting.sizes[link] -= 1
    return at


@njit(cache=True)
def with_room(waiting: Waiting, more: Numbers) -> Waiting:
    """The same lists with room for so many more rows in each."""
    keys, rows, begins, sizes = waiting
    enough = True
    for link in range(len(sizes)):
        enough &= begins[link] + sizes[link] + more[link] <= begins[link + 1]
    if enough:
        return waiting
    total, begin = 2 * (sizes.sum() + more.sum()), 0
    new_keys, new_rows = np.empty(total), np.empty(total, np.int64)
    for link in range(len(sizes)):
        was, size = begins[link], sizes[link]
        new_keys[begin : begin + size] = keys[was : was + size]
        new_rows[begin : begin + size] = rows[was : was + size]
        begins[link] = begin
        begin += 2 * (size + more[link])
    begins[-1] = begin
    return Waiting(new_keys, new_rows, begins, sizes)


@njit(cache=True)
def least_left(paths: Numbers, row: int, left: Floats) -> float:
    """What is left on a row's way."""
    least = np.inf
    for position in range(len(paths)):
        least = min(least, left[paths[position, row]])
    return least


@njit(cache=True)
def first_of(
    waiting: Waiting,
    table: Floats,
    paths: Numbers,
    loose: Numbers,
    at: Numbers,
    many: int,
    left: Floats,
) -> tuple[int, int]:
    """The shortest row that can send, of ``many`` links' lists from the places they are ``at``.

    Those in which none can any more are left out.  Returns how many lists are left, and which it
    is (a link; -1: none).
    """
    kept, chosen, least = 0, -1, np.inf
    for number in range(many):
        link = loose[number]
        place, end = at[link], waiting.begins[link] + waiting.sizes[link]
        if left[link] == 0:
            continue
        while place < end and not _can_send(table, paths, waiting.rows[place], left):
            place += 1
        at[link] = place
        if place == end:
            continue
        loose[kept] = link
        kept += 1
        if waiting.keys[place] < least:
            chosen, least = link, waiting.keys[place]
    return kept, chosen


@njit(cache=True)
def _can_send(table: Floats, paths: Numbers, row: int, left: Floats) -> bool:
    """Whether something is left on a row's way, and it has not been cancelled."""
    return least_left(paths, row, left) > 0 and table[WEIGHT, row] > 0
