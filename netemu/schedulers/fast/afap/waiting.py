"""Rows that wait: a heap for each route, and by link the routes that cross it.

Rows of one route cross the same links, so only the first of them can gain.  A heap is a skew heap:
it needs nothing but two numbers for each row.  Rows that have ended are removed when they come to
its top.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import WEIGHT

NONE = -1


class Waiting(NamedTuple):
    """Rows that wait, in a heap for each route."""

    numbers: Floats  #: by row: its place in the order of priorities, ascending
    lower: Numbers  #: by row: the child to which the next row goes, or none
    upper: Numbers  #: by row: the other child, or none
    tops: Numbers  #: by route: the first row that waits on it, or none
    #: [link, place]: the number of a route that crosses it, then that route's links, so that what
    #: says whether it is open is side by side; after the last route comes none
    crossing: Numbers
    counts: Numbers  #: by link: how many routes cross it


def none_waiting(links: int, positions: int) -> Waiting:
    """No rows that wait, and no routes."""
    nothing = np.empty(0, dtype=np.int64)
    return Waiting(
        numbers=np.empty(0),
        lower=nothing,
        upper=nothing,
        tops=nothing,
        crossing=np.full((links, 1, positions + 1), NONE),
        counts=np.zeros(links, dtype=np.int64),
    )


def with_routes(waiting: Waiting, ways: Numbers) -> Waiting:
    """The same rows, and more routes, over these links [route, position], on which no row waits."""
    first, crossing = len(waiting.tops), waiting.crossing
    links, room, width = crossing.shape
    most = int((waiting.counts + np.bincount(ways.ravel(), minlength=links))[:-1].max(initial=0))
    if most >= room:
        more = np.full((links, 2 * most + 1 - room, width), NONE)
        crossing = np.concatenate([crossing, more], axis=1)
    _cross(ways, first, crossing, waiting.counts)
    tops = np.concatenate([waiting.tops, np.full(len(ways), NONE)])
    return waiting._replace(tops=tops, crossing=crossing)


@njit(cache=True)
def _cross(ways: Numbers, first: int, crossing: Numbers, counts: Numbers) -> None:
    """Enter routes, numbered from ``first`` on, at each link that they cross."""
    for number in range(len(ways)):
        for link in ways[number]:
            if link == len(counts) - 1:  # stands for no link
                continue
            crossing[link, counts[link], 0] = first + number
            crossing[link, counts[link], 1:] = ways[number]
            counts[link] += 1


@njit(cache=True)
def add_waiting(rows: Numbers, routes: Numbers, waiting: Waiting) -> None:
    """Let each of these rows wait on its route."""
    for number in range(len(rows)):
        row, route = rows[number], routes[number]
        waiting.lower[row] = waiting.upper[row] = NONE
        waiting.tops[route] = _merge(waiting.tops[route], row, waiting)


@njit(cache=True)
def first_waiting(table: Floats, route: int, waiting: Waiting) -> int:
    """The first row that waits on a route and has not ended, or none."""
    tops = waiting.tops
    while tops[route] != NONE and table[WEIGHT, tops[route]] == 0:
        take_first(route, waiting)
    return int(tops[route])


@njit(cache=True)
def take_first(route: int, waiting: Waiting) -> None:
    """Remove the first row that waits on a route."""
    first = waiting.tops[route]
    waiting.tops[route] = _merge(waiting.lower[first], waiting.upper[first], waiting)


@njit(cache=True)
def _merge(one: int, other: int, waiting: Waiting) -> int:
    """Merge two heaps, given by their top rows; returns the top of the result."""
    numbers, lower, upper = waiting.numbers, waiting.lower, waiting.upper
    if one == NONE or other == NONE:
        return max(one, other)
    if numbers[other] < numbers[one]:
        one, other = other, one
    top = one
    for _ in range(len(numbers) + 1):  # down the upper children, which become the lower ones
        rest, upper[one] = upper[one], lower[one]
        if rest == NONE:
            lower[one] = other
            return top
        if numbers[other] < numbers[rest]:
            rest, other = other, rest
        lower[one] = rest
        one = rest
    raise InvariantError("afap: a heap of rows that wait has a circle")
