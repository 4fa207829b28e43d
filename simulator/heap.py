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
_Call = tuple[Action, tuple[Any, ...]]
_FACT = int(Rank.FACT)


class EventHeap:
    """Actions and their times.  ``now_s`` never goes back.

    Nearly all are facts, of which many are planned for one time: each of their times is in a heap
    once.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        #: facts that are due, in order: those planned while it was that time already go last
        self._at_once: deque[_Call] = deque()
        self._facts: dict[float, list[_Call]] = {}  #: those of later, by time
        self._times: list[float] = []  #: these times, as a heap
        #: (time, rank, sequence, action, args) of all others, as a heap
        self._others: list[tuple[float, int, int, Action, tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, time_s: float, action: Action, *args: Any, rank: int = _FACT) -> None:
        """Plan ``action(*args)``; what is planned for the past happens now.

        Raises ``ValueError`` for a time that never comes.
        """
        if rank == _FACT:
            self._plan_fact(time_s, (action, args))
        else:
            self._sequence += 1
            _check_finite(time_s)
            planned = (max(time_s, self.now_s), rank, self._sequence, action, args)
            heapq.heappush(self._others, planned)

    def after(self, seconds: float, action: Action, *args: Any) -> None:
        """Plan ``action(*args)`` for so many seconds from now."""
        if seconds:
            self._plan_fact(self.now_s + seconds, (action, args))
        else:  # as mostly
            self._at_once.append((action, args))

    def next_s(self) -> float:
        """When the next action is due; inf if none is planned."""
        if self._at_once:
            return self.now_s
        others_s = self._others[0][0] if self._others else math.inf
        return min(self._times[0], others_s) if self._times else others_s

    def run_due(self) -> None:
        """Do all that is due by now, and what that plans for now."""
        at_once, others, now_s = self._at_once, self._others, self.now_s
        self._take_due_facts()
        while True:
            if others and others[0][0] <= now_s and (not at_once or others[0][1] < _FACT):
                _, _, _, action, args = heapq.heappop(others)
            elif at_once:
                action, args = at_once.popleft()
            else:
                return
            action(*args)

    def _plan_fact(self, time_s: float, call: _Call) -> None:
        if time_s <= self.now_s:
            self._at_once.append(call)
            return
        planned = self._facts.get(time_s)
        if planned is None:
            _check_finite(time_s)
            self._facts[time_s] = [call]
            heapq.heappush(self._times, time_s)
        else:
            planned.append(call)

    def _take_due_facts(self) -> None:
        times, due = self._times, []
        while times and times[0] <= self.now_s:
            due += self._facts.pop(heapq.heappop(times))
        self._at_once.extendleft(reversed(due))


def _check_finite(time_s: float) -> None:
    if not time_s < math.inf:  # NaN, which has no place in an order, is not less either
        raise ValueError(f"time_s = {time_s!r}: need a time that comes")
