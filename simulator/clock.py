"""The virtual clock: planned actions in a total order, and the core's driver in their time.

Actions due at the same time run by (priority, sequence), and within a priority in the order in
which they were planned.  So a run depends on its seed alone.  Simulations make few reference cycles
and keep many objects, so garbage is collected rarely while one runs.
"""

from __future__ import annotations

import gc
import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, TypeVar

from railyard.cluster.messaging.wire import Command, Event
from railyard.netemu.model.arrays import Numbers, instant_s
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.shuffling.fetches import FetchesEnded
from railyard.resourcemanager.driving.coredriver import CoreDriver, Log
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired

#: New objects before a collection of the youngest generation.  Python's default of 700 costs a
#: fifth of a run, 20,000 a twelfth.  Finished jobs need no collector (see ``Job.dissolve``).
_NEW_OBJECTS = 5_000_000
#: Objects that blocks left before the next block begins with a collection, which takes time for
#: each object of the process, of whomever it is: 1 s for some ten millions.
_LEFT_OBJECTS = 1_000_000
_left_objects = 0  #: since the last such collection


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely while the block runs, and never the objects that exist before it."""
    global _left_objects
    before = gc.get_threshold()
    if _left_objects >= _LEFT_OBJECTS:
        gc.collect()
        _left_objects = 0
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        young, older, _ = gc.get_count()
        _left_objects += young + older * _NEW_OBJECTS
        gc.freeze()  # otherwise the next collection would scan all objects of the block at once
        gc.set_threshold(*before)
        gc.unfreeze()


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
        self._polls = 0  #: how many of all node events are polls
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
        if seconds:
            self._plan_node_event(self.now_s + seconds, (action, args))
        else:  # the common case
            self._at_once.append((action, args))

    def poll_after(
        self, seconds: float, action: Callable[[list[T]], None], items: Iterable[T]
    ) -> None:
        """Plan ``action(items)`` as a node event ``seconds`` from now that only polls.

        From a poll nothing follows unless something else has changed since the last one.
        If it is planned right after the same action for the same time, this gets more items.
        """
        planned = self._later.get(self.now_s + seconds)
        if planned:
            last, args = planned[-1]
            if last == self._poll and args[0] == action:
                args[1].extend(items)
                return
        self._polls += 1
        self.after(seconds, self._poll, action, list(items))

    @property
    def only_polls(self) -> bool:
        """Whether nothing but polls, timers and observations is planned, or nothing at all."""
        return self._polls == len(self._at_once) + self._many_later and not self._faults

    def next_timer_s(self) -> float:
        """The time of the next timer, observation, fault or arrival; inf if none is planned."""
        return self._others[0][0] if self._others else math.inf

    def next_s(self) -> float:
        """The time of the next action; inf if none is planned."""
        if self._at_once:
            return self.now_s
        others_s = self._others[0][0] if self._others else math.inf
        return min(self._times[0], others_s) if self._times else others_s

    def run_polls(self, until_s: float, network_s: float, wait: Callable[[float], None]) -> None:
        """Run the polls before all else that is due, each after ``wait`` with its time.

        Only before ``until_s`` and the network's next event: all that they may do is to plan the
        next poll.  9 of 10 times of a run are a poll's alone.
        """
        later, times = self._later, self._times
        until_s = min(until_s, self.next_timer_s())
        while times and not self._at_once:
            time_s = times[0]
            if time_s >= until_s or time_s + instant_s(time_s) >= network_s:
                return
            action, args = later[time_s][0]
            if len(later[time_s]) > 1 or action != self._poll:
                return
            del later[heapq.heappop(times)]
            self._many_later -= 1
            self.now_s = time_s
            wait(time_s)
            action(*args)

    def run_due(self) -> None:
        """Run all actions due by ``now_s``, including those that they plan for now."""
        at_once, others, times, now_s = self._at_once, self._others, self._times, self.now_s
        due: list[_Call] = []
        while times and times[0] <= now_s:
            due += self._later.pop(heapq.heappop(times))
        self._many_later -= len(due)
        at_once.extendleft(reversed(due))
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

    def _poll(self, action: Callable[[list[T]], None], items: list[T]) -> None:
        self._polls -= 1
        action(items)


def _check_finite(time_s: float) -> None:
    if not time_s < math.inf:  # also true for NaN, which cannot be sorted
        raise ValueError(f"time_s = {time_s!r}: need a finite time")


class VirtualDriver(CoreDriver):
    """Feeds a core with events at the heap's time, and plans the core's timers in the heap."""

    def __init__(self, core: Core, heap: EventHeap, log: Log | None = None) -> None:
        super().__init__(core, log, None)
        self._heap = heap
        self._timers: dict[str, float] = {}
        self.timers_fired = 0  #: how many so far

    @property
    def now_s(self) -> float:
        return self._heap.now_s

    @property
    def timers_set(self) -> int:
        return len(self._timers)

    def _set_timer(self, command: SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._heap.at(
            command.at_s, self._fire, command.timer, command.at_s, priority=EventPriority.TIMER
        )

    def _fire(self, timer: str, at_s: float) -> None:
        if self._timers.get(timer) == at_s:  # otherwise the core has set this timer anew
            del self._timers[timer]
            self.timers_fired += 1
            self.feed(TimerFired(timer=timer))


class BatchDriver(VirtualDriver):
    """The same, where many fetches start and end together.  There is no log of single ones."""

    def feed_fetches(self, fetches: Numbers) -> None:
        """Feed the ends of fetches, in this order.

        As after each event, policies may want something after each of the first ones at a time,
        and after each one if they look at fetches.
        """
        core = self.core
        alone = len(fetches) if core.shuffle.looks_at_each else core.state.now_s != self.now_s
        for number in range(alone):
            self.feed(FetchesEnded(fetches=fetches[number : number + 1]))
        if len(fetches) > alone:
            self.feed(FetchesEnded(fetches=fetches[alone:]))

    def _ask(self, event: Event, at_s: float) -> list[Command]:
        return self.core.handle_together(event, at_s)
