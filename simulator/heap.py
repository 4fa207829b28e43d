"""The event heap of the virtual clock: planned actions in a total order.

Actions due at the same time run by (priority, sequence), and within a priority in the order in
which they were planned.  So a run depends on its seed alone.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, TypeVar


class EventPriority(IntEnum):
    """Of the actions due at one time, those with the lowest number run first."""

    FAULT = 0  #: first, so that all other actions of that time see the cluster as it is then
    ARRIVAL = 1
    NODE_EVENT = 2  #: what nodes do and report to the core
    TIMER = 3  #: the core's timers
    OBSERVATION = 4  #: last: of the network's rates, which follow from all that happens


T = TypeVar("T")
Action = Callable[..., None]
_Call = tuple[Action, tuple[Any, ...]]
_NODE_EVENT = int(EventPriority.NODE_EVENT)


class EventHeap:
    """Planned actions by time in seconds.  ``now_s`` never goes back.

    Nearly all actions are node events, and many of them share a time.  So each of their times is
    in the heap only once.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        #: node events due now, in order; those that are planned for now at this time go last
        self._at_once: deque[_Call] = deque()
        self._later: dict[float, list[_Call]] = {}  #: {time_s: node events due then}
        self._many_later = 0  #: how many node events ``_later`` has
        self._looks = 0  #: how many of all node events are looks
        self._times: list[float] = []  #: a heap of the keys of ``_later``
        #: a heap of (time_s, priority, sequence, action, args) of all other actions
        self._others: list[tuple[float, int, int, Action, tuple[Any, ...]]] = []
        self._faults = 0  #: how many of these are faults or arrivals
        self._sequence = 0

    def at(self, time_s: float, action: Action, *args: Any, priority: int = _NODE_EVENT) -> None:
        """Plan ``action(*args)`` for a time; an action that is planned for the past runs now.

        Raises ``ValueError`` if the time is infinite or NaN.
        """
        if priority == _NODE_EVENT:
            self._plan_node_event(time_s, (action, args))
        else:
            self._sequence += 1
            _check_finite(time_s)
            self._faults += priority < _NODE_EVENT
            planned = (max(time_s, self.now_s), priority, self._sequence, action, args)
            heapq.heappush(self._others, planned)

    def after(self, seconds: float, action: Action, *args: Any) -> None:
        """Plan ``action(*args)`` as a node event ``seconds`` from now."""
        if seconds:
            self._plan_node_event(self.now_s + seconds, (action, args))
        else:  # the common case
            self._at_once.append((action, args))

    def look_after(
        self, seconds: float, action: Callable[[list[T]], None], items: Iterable[T]
    ) -> None:
        """Plan ``action(items)`` as a node event ``seconds`` from now that only looks.

        From looks nothing follows unless something else has changed since the last one.
        If it is planned right after the same action for the same time, this gets more items.
        """
        planned = self._later.get(self.now_s + seconds)
        if planned:
            last, args = planned[-1]
            if last == self._look and args[0] == action:
                args[1].extend(items)
                return
        self._looks += 1
        self.after(seconds, self._look, action, list(items))

    @property
    def only_looks(self) -> bool:
        """Whether nothing but looks, timers and observations is planned, or nothing at all."""
        return self._looks == len(self._at_once) + self._many_later and not self._faults

    def next_timer_s(self) -> float:
        """While there are ``only_looks``: the time of the next timer or observation, or inf."""
        return self._others[0][0] if self._others else math.inf

    def next_s(self) -> float:
        """The time of the next action; inf if none is planned."""
        if self._at_once:
            return self.now_s
        others_s = self._others[0][0] if self._others else math.inf
        return min(self._times[0], others_s) if self._times else others_s

    def run_due(self) -> None:
        """Run all actions due by ``now_s``, including those that they plan for now."""
        at_once, others, now_s = self._at_once, self._others, self.now_s
        self._take_due()
        while True:
            if others and others[0][0] <= now_s and (not at_once or others[0][1] < _NODE_EVENT):
                _, priority, _, action, args = heapq.heappop(others)
                self._faults -= priority < _NODE_EVENT
            elif at_once:
                action, args = at_once.popleft()
            else:
                return
            action(*args)

    def _plan_node_event(self, time_s: float, call: _Call) -> None:
        if time_s <= self.now_s:
            self._at_once.append(call)
            return
        self._many_later += 1
        planned = self._later.get(time_s)
        if planned is None:
            _check_finite(time_s)
            self._later[time_s] = [call]
            heapq.heappush(self._times, time_s)
        else:
            planned.append(call)

    def _take_due(self) -> None:
        times = self._times
        if not times or times[0] > self.now_s:
            return
        due: list[_Call] = []
        while times and times[0] <= self.now_s:
            due += self._later.pop(heapq.heappop(times))
        self._many_later -= len(due)
        self._at_once.extendleft(reversed(due))

    def _look(self, action: Callable[[list[T]], None], items: list[T]) -> None:
        self._looks -= 1
        action(items)


def _check_finite(time_s: float) -> None:
    if not time_s < math.inf:  # also true for NaN, which cannot be sorted
        raise ValueError(f"time_s = {time_s!r}: need a finite time")
