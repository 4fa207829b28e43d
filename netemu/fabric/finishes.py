"""When the first flow finishes, over all groups.

A decision can change the rates of many groups, and so their first finishes.  To push each group
would be slow, so the heap has an entry per decision: a sorted list of the groups that it changed.
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
    stale: bool  #: whether ``first_finish_s`` is out of date, as its flows have changed


G = TypeVar("G", bound=Finishing)


class Finishes(Generic[G]):
    """Groups by their first finish; of equal ones, the one noted first."""

    def __init__(self) -> None:
        #: heap of (first finish, number, list of a decision); a list has its first finish at the
        #: end, and entries of groups that have changed since are skipped
        self._heap: list[tuple[float, int, list[tuple[float, int, G]]]] = []
        self._numbers = count()

    def note(self, groups: Iterable[G]) -> None:
        """Note the new first finishes of groups; inf: no flow of it finishes."""
        numbers = self._numbers
        entries = [
            (group.first_finish_s, next(numbers), group)
            for group in groups
            if group.first_finish_s < inf
        ]
        if entries:
            entries.sort(reverse=True)
            heappush(self._heap, (entries[-1][0], entries[-1][1], entries))

    def first_s(self) -> float:
        """When the first flow of all groups finishes; inf if none does."""
        heap = self._heap
        while heap:
            noted_s, number, entries = heap[0]
            first_s = inf
            while entries:
                first_s, _, group = entries[-1]
                if group.first_finish_s == first_s and not group.stale:
                    break
                entries.pop()
            if not entries:
                heappop(heap)
            elif first_s == noted_s:
                return first_s
            else:
                heapreplace(heap, (first_s, number, entries))
        return inf

    def take(self) -> G:
        """Remove and return the group that finishes first; call it right after ``first_s``."""
        return self._heap[0][2].pop()[2]
