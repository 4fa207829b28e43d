"""When the first flows finish: groups that got their rates together stand in one line.

A decision may give many groups other rates, and what was known of their finishes is void then.  So
there is a heap of lines, not of groups: one entry for each decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import inf
from typing import Generic, Protocol, TypeVar


class Finishing(Protocol):
    """A group of flows."""

    first_finish_s: float
    stale: bool  #: whether the above is void, as its flows have changed


G = TypeVar("G", bound=Finishing)


class Finishes(Generic[G]):
    """Groups by their first finish; ties: by when that was noted."""

    def __init__(self) -> None:
        #: heap of (first finish in the line, number, line); a line has its first at the end, and
        #: what it knows of groups that have changed since is void
        self._lines: list[tuple[float, int, list[tuple[float, int, G]]]] = []
        self._numbers = count()

    def note(self, groups: Iterable[G]) -> None:
        """Groups have other first finishes than before; inf: none."""
        numbers = self._numbers
        line = [
            (group.first_finish_s, next(numbers), group)
            for group in groups
            if group.first_finish_s < inf
        ]
        if line:
            line.sort(reverse=True)
            heappush(self._lines, (line[-1][0], line[-1][1], line))

    def first_s(self) -> float:
        """When the first of all finishes; inf if none does."""
        lines = self._lines
        while lines:
            noted_s, number, line = lines[0]
            first_s = inf
            while line:
                first_s, _, group = line[-1]
                if group.first_finish_s == first_s and not group.stale:
                    break
                line.pop()
            if not line:
                heappop(lines)
            elif first_s == noted_s:
                return first_s
            else:
                heapreplace(lines, (first_s, number, line))
        return inf

    def take(self) -> G:
        """The group that is the first, right after ``first_s``; it is forgotten."""
        return self._lines[0][2].pop()[2]
