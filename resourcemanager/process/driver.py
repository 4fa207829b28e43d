"""Drives a core by the wall clock.

Never here: what an event means or how a command is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railyard.cluster.messaging.reactor import Reactor, Timer, now_s
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired


class Driver(CoreDriver):
    """A core, the wall clock and a log."""

    def __init__(self, core: Core, log: EventLog, reactor: Reactor) -> None:
        super().__init__(core, log, now_s)
        self._reactor = reactor
        self.started_s = now_s()  #: the core's 0 on the machine's clock
        self._timers: dict[str, Timer] = {}
        #: called with each event that was handled, its time and its commands
        self.on_handled: Callable[[float, Event, Sequence[Command]], None] = lambda *_: None

    @property
    def now_s(self) -> float:
        """Seconds since the driver was made: the core's clock."""
        return now_s() - self.started_s

    def _handle(self, event: Event) -> list[Command]:
        commands = super()._handle(event)
        self.on_handled(self.event_s, event, commands)
        return commands

    def _set_timer(self, command: SetTimer) -> None:
        earlier = self._timers.pop(command.timer, None)
        if earlier is not None:
            earlier.cancel()

        def fire() -> None:
            del self._timers[command.timer]
            self.feed(TimerFired(timer=command.timer))

        when_s = self.started_s + command.at_s
        self._timers[command.timer] = self._reactor.call_at(when_s, fire)
