"""The core's driver in virtual time: timers are actions of the event heap."""

from __future__ import annotations

from collections.abc import Callable

from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import CoreDriver, Log
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.simulator.heap import EventHeap, EventPriority


class VirtualDriver(CoreDriver):
    """Feeds a core with events at the heap's time, and plans the core's timers in the heap."""

    def __init__(
        self, core: Core, heap: EventHeap, log: Log | None, stopwatch: Callable[[], float] | None
    ) -> None:
        super().__init__(core, log, stopwatch)
        self._heap = heap
        self._timers: dict[str, float] = {}

    @property
    def now_s(self) -> float:
        """Virtual seconds since the start of the simulation."""
        return self._heap.now_s

    def _set_timer(self, command: SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._heap.at(
            command.at_s, self._fire, command.timer, command.at_s, priority=EventPriority.TIMER
        )

    def _fire(self, timer: str, at_s: float) -> None:
        if self._timers.get(timer) == at_s:  # otherwise the core has set this timer anew
            del self._timers[timer]
            self.feed(TimerFired(timer=timer))
