"""The order of flows by priority, then by name, as numbers that loops can compare.

A flow may come at any time and belong anywhere in the order, so it gets a number between those of
its neighbours.  Where no float is left between them, all flows get new numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from railyard.netemu.model.arrays import Floats

#: Priority, then name; () comes last, as (inf,) does.
Key = tuple[tuple[float, ...], str]
#: So many flows that have ended may be in the order.
_ENDED_MAX = 1000


class Places:
    """Flows in the order of their keys, each with a number that says where it is."""

    def __init__(self, is_open: Callable[[Key, int], bool]) -> None:
        self._is_open = is_open
        self._keys: list[Key] = []
        self._flows: list[int] = []
        self._numbers: list[float] = []

    def add(self, new: Sequence[tuple[Key, int]], numbers: Floats, open_flows: int) -> bool:
        """Add flows, and set their ``numbers``, [flow]; so many flows are open.

        Returns whether flows that were there have other numbers now.
        """
        if len(self._keys) > 2 * open_flows + _ENDED_MAX:
            self._forget_ended()
        new, at, is_anew = sorted(new), 0, False
        while at < len(new):
            place = bisect_left(self._keys, new[at][0])
            end = len(new)
            if place < len(self._keys):
                end = max(bisect_right(new, self._keys[place], lo=at, key=lambda n: n[0]), at + 1)
            is_anew = self._insert(place, new[at:end], numbers) or is_anew
            at = end
        return is_anew

    def _forget_ended(self) -> None:
        kept = [
            at
            for at, entry in enumerate(zip(self._keys, self._flows, strict=False))
            if self._is_open(*entry)
        ]
        self._keys = [self._keys[at] for at in kept]
        self._flows = [self._flows[at] for at in kept]
        self._numbers = [self._numbers[at] for at in kept]

    def _insert(self, place: int, new: Sequence[tuple[Key, int]], numbers: Floats) -> bool:
        """Add flows that will be next to each other; returns whether all have other numbers."""
        between = self._between(place, len(new))
        self._keys[place:place] = [key for key, _ in new]
        self._flows[place:place] = [flow for _, flow in new]
        if between is None:
            self._numbers += [0.0] * len(new)
            self._forget_ended()  # whose numbers others may have now
            self._numbers = [float(number) for number in range(len(self._flows))]
            numbers[self._flows] = self._numbers
        else:
            self._numbers[place:place] = between
            numbers[[flow for _, flow in new]] = between
        return between is None

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
