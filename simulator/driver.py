"""Drives a core by the virtual clock."""

from __future__ import annotations

from collections.abc import Callable

from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import CoreDriver, Log
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.simulator.heap import EventHeap, Rank


class VirtualDriver(CoreDriver):
    """A core, a heap of events and perhaps a log."""

    def __init__(
        self, core: Core, heap: EventHeap, log: Log | None, stopwatch: Callable[[], float] | None
    ) -> None:
        super().__init__(core, log, stopwatch)
        self._heap = heap
        self._timers: dict[str, float] = {}

    @property
    def now_s(self) -> float:
        """Seconds since the simulation's beginning."""
        return self._heap.now_s

    def _set_timer(self, command: SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._heap.at(command.at_s, self._fire, command.timer, command.at_s, rank=Rank.TIMER)

    def _fire(self, timer: str, at_s: float) -> None:
        if self._timers.get(timer) == at_s:  # otherwise a later order has replaced this one
            del self._timers[timer]
            self.feed(TimerFired(timer=timer))
