"""The core's driver in virtual time: timers are actions of the event heap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railyard.cluster.messages.execution import AttemptProgressed, FlowFinished, StartFlow
from railyard.cluster.messaging.wire import Command
from railyard.resourcemanager.core.attempts.together import AttemptsProgressed
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.shuffling.rowmessages import (
    FetchesEnded,
    Numbers,
    StartFetches,
)
from railyard.resourcemanager.core.shuffling.rowshuffle import Arriving
from railyard.resourcemanager.driving.coredriver import CoreDriver, Log
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.simulator.heap import EventHeap, EventPriority
from railyard.simulator.rowlog import RowLog


class VirtualDriver(CoreDriver):
    """Feeds a core with events at the heap's time, and plans the core's timers in the heap."""

    def __init__(
        self, core: Core, heap: EventHeap, log: Log | None, stopwatch: Callable[[], float] | None
    ) -> None:
        row_log = None if log is None else RowLog(log, core.fetch_rows)
        super().__init__(core, row_log, stopwatch)
        self._heap = heap
        self._timers: dict[str, float] = {}
        self.timers_fired = 0  #: how many so far
        self._waiting: list[Command] = []  #: starts of flows that are carried out together

    @property
    def now_s(self) -> float:
        """Virtual seconds since the start of the simulation."""
        return self._heap.now_s

    @property
    def timers_set(self) -> int:
        """How many timers are set and have not fired."""
        return len(self._timers)

    def feed_fetched(self, event: FlowFinished) -> None:
        """Feed the end of a fetch, not from within a command's handler.

        If it leads to new flows only, these start when ``start_waiting`` is called: those of many
        ends together are cheaper.
        """
        commands = self._handle(event)
        if commands:
            self._waiting += commands
            if not all(isinstance(command, StartFlow) for command in commands):
                self.start_waiting()

    def arriving(self, fetches: Numbers) -> Arriving:
        """What fetches that are rows are about to bring."""
        return self.core.fetch_rows.arriving(fetches)

    def feed_fetches(self, fetches: Numbers) -> None:
        """The same for fetches that are rows, one after the other.

        The first one at a time is alone, as policies may want something else at another time.
        """
        core = self.core
        parts = [fetches]
        if core.state.now_s < self.now_s and len(fetches) > 1:
            parts = [fetches[:1], fetches[1:]]
        for some in parts:
            names = [] if self._log is None else core.fetch_rows.names(some)
            commands = self._handle(FetchesEnded(fetches=some, names=names))
            self._waiting += commands
            if not all(isinstance(command, StartFetches) for command in commands):
                self.start_waiting()

    def feed_progress(self, report: AttemptProgressed) -> bool:
        """Feed a report of progress; returns whether nothing would follow from others now."""
        self.feed(report)
        return self.core.only_notes_progress

    def feed_all_progress(self, reports: Sequence[AttemptProgressed]) -> None:
        """Feed reports of progress, in this order, from which nothing follows."""
        if reports:
            self.feed(AttemptsProgressed(reports=reports))

    def start_waiting(self) -> None:
        """Carry out what ``feed_fetched`` has put off."""
        if not self._waiting:
            return
        commands, self._waiting = self._waiting, []
        self._busy = True
        try:
            self._carry_out(commands)
            while self._later:
                self._feed(self._later.popleft())
        finally:
            self._busy = False

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
