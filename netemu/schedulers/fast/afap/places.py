"""The order of flows by priority, as numbers that compiled loops can compare.

A flow may come at any time and belong anywhere in the order, so it gets a number between those of
its neighbours.  Where no float is left between them, all flows get new numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from railyard.netemu.model.arrays import Floats


class Places:
    """Rows in the order of their flows' priorities, each with a number that says where it is."""

    def __init__(self) -> None:
        #: priorities, ascending; a row that has ended may have the same as one that came later:
        #: a flow that grows, or whose name is used again, is another row of the same priority
        self._keys: list[Any] = []
        self._rows: list[int] = []
        self._numbers: list[float] = []

    def add(self, keys: Sequence[tuple[Any, int]], numbers: Floats) -> None:
        """Add rows, ascending by key, and set their ``numbers`` [row], which has room for them."""
        at = 0
        while at < len(keys):
            place = bisect_left(self._keys, keys[at][0])
            end = len(keys)
            if place < len(self._keys):
                end = bisect_right(keys, self._keys[place], lo=at, key=lambda key: key[0])
            self._insert(place, keys[at:end], numbers)
            at = end

    # Inside --------------------------------------------------------------------------------------
    def _insert(self, place: int, keys: Sequence[tuple[Any, int]], numbers: Floats) -> None:
        """Add rows that will be next to each other."""
        rows = [row for _, row in keys]
        between = self._between(place, len(keys))
        self._keys[place:place] = [key for key, _ in keys]
        self._rows[place:place] = rows
        if between is None:
            self._numbers = [float(number) for number in range(len(self._rows))]
            numbers[self._rows] = self._numbers
        else:
            self._numbers[place:place] = between
            numbers[rows] = between

    def _between(self, place: int, count: int) -> list[float] | None:
        """``count`` ascending numbers below that at a place; None if there is no room for them."""
        known = self._numbers
        if place == len(known):
            after = known[-1] if known else -1.0
            return [after + number for number in range(1, count + 1)]
        after = known[place - 1] if place else known[0] - count - 1
        step = (known[place] - after) / (count + 1)
        numbers = [after, *(after + step * number for number in range(1, count + 1)), known[place]]
        return numbers[1:-1] if bool((np.diff(numbers) > 0).all()) else None
