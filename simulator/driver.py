"""The core's driver in virtual time: timers are actions of the event heap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from railyard.cluster.ids import AttemptId
from railyard.cluster.messages.execution import AttemptProgressed
from railyard.cluster.messaging.wire import Command, Event
from railyard.netemu.model.arrays import Numbers
from railyard.resourcemanager.core.attempts.attempts import AttemptsProgressed
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.shuffling.fetches import Arriving
from railyard.resourcemanager.core.shuffling.messages import FetchesEnded
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
        self.timers_fired = 0  #: how many so far

    @property
    def now_s(self) -> float:
        """Virtual seconds since the start of the simulation."""
        return self._heap.now_s

    @property
    def timers_set(self) -> int:
        """How many timers are set and have not fired."""
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

    def __init__(self, core: Core, heap: EventHeap, stopwatch: Callable[[], float] | None) -> None:
        super().__init__(core, heap, None, stopwatch)

    def arriving(self, fetches: Numbers) -> Iterator[Arriving]:
        """What fetches are about to bring."""
        return self.core.shuffle.arriving(fetches)

    def feed_fetches(self, fetches: Numbers) -> None:
        """Feed the ends of fetches, in this order.

        As after each event, policies may want something after each of the first ones at a time,
        and after each one if they look at fetches.
        """
        alone = self._alone(len(fetches), self.core.shuffle.looks_at_each)
        for number in range(alone):
            self.feed(FetchesEnded(fetches=fetches[number : number + 1]))
        if len(fetches) > alone:
            self.feed(FetchesEnded(fetches=fetches[alone:]))

    def feed_progress(self, reports: Sequence[tuple[AttemptId, float]]) -> None:
        """Feed reports of progress, in this order, in the same way."""
        alone = self._alone(len(reports), self.core.state.policies.look_at_progress)
        for attempt, progress in reports[:alone]:
            self.feed(AttemptProgressed(attempt=attempt, progress=progress))
        if len(reports) > alone:
            self.feed(AttemptsProgressed(reports=reports[alone:]))

    def _alone(self, many: int, each: bool) -> int:
        """How many of so many events come by themselves."""
        return many if each else min(many, int(self.core.state.now_s != self.now_s))

    def _ask(self, event: Event, at_s: float) -> list[Command]:
        return self.core.handle_together(event, at_s)
