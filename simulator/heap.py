"""The virtual clock: what will happen, in a total order.

Simultaneous things happen in the order (rank, sequence): what was planned first goes first within
a rank, so that a run depends on nothing but its seed.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """What goes first of what happens at one time."""

    FAULT = 0  #: so that whoever acts at that time finds the world as it is then
    ARRIVAL = 1
    FACT = 2  #: what nodes do and tell
    TIMER = 3  #: of the core


Action = Callable[..., None]
#: (time, rank, sequence, action, args)
_Planned = tuple[float, int, int, Action, tuple[Any, ...]]


class EventHeap:
    """Actions and their times.  ``now_s`` never goes back."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[_Planned] = []
        #: facts that were planned for the moment at which that was: in order as they come
        self._at_once: deque[_Planned] = deque()
        self._sequence = 0

    def at(self, time_s: float, action: Action, *args: Any, rank: int = Rank.FACT) -> None:
        """Plan ``action(*args)``; what is planned for the past happens now."""
        self._sequence += 1
        time_s = max(time_s, self.now_s)
        heapq.heappush(self._heap, (time_s, rank, self._sequence, action, args))

    def after(self, seconds: float, action: Action, *args: Any) -> None:
        """Plan ``action(*args)`` for so many seconds from now."""
        self._sequence += 1
        time_s = self.now_s + seconds
        planned = (time_s, Rank.FACT, self._sequence, action, args)
        if time_s == self.now_s:  # most are
            self._at_once.append(planned)
        else:
            heapq.heappush(self._heap, planned)

    def next_s(self) -> float:
        """When the next action is due; inf if none is planned."""
        first = [planned[0][0] for planned in (self._heap, self._at_once) if planned]
        return min(first, default=math.inf)

    def run_due(self) -> None:
        """Do all that is due by now, and what that plans for now."""
        heap, at_once, now_s = self._heap, self._at_once, self.now_s
        while True:
            if at_once and not (heap and heap[0] < at_once[0]):
                _, _, _, action, args = at_once.popleft()
            elif heap and heap[0][0] <= now_s:
                _, _, _, action, args = heapq.heappop(heap)
            else:
                return
            action(*args)
