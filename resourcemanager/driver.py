"""Drives a core by the wall clock: tells it events, keeps them, hands its commands on.

Never here: what an event means or how a command is carried out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar, cast

from cluster.errors import InvariantError
from cluster.reactor import Reactor, Timer, now_s
from cluster.wire import Command, Event
from resourcemanager.commands import SetTimer
from resourcemanager.core import Core
from resourcemanager.eventlog import EventLog
from resourcemanager.events import TimerFired

C = TypeVar("C", bound=Command)


class Driver:
    """A core, its clock and its log."""

    def __init__(self, core: Core, log: EventLog, reactor: Reactor) -> None:
        self.core = core
        self.deciding_s = 0.0  #: wall time spent in the core
        self.deciding_s_max = 0.0
        self._log = log
        self._reactor = reactor
        self._started_s = now_s()
        self._handlers: dict[type[Command], Callable[[Command], None]] = {}
        self._timers: dict[str, Timer] = {}
        self._later: deque[Event] = deque()
        self._busy = False
        self.on(SetTimer, self._set_timer)

    @property
    def now_s(self) -> float:
        """Seconds since the driver was made: the core's clock."""
        return now_s() - self._started_s

    def on(self, kind: type[C], handler: Callable[[C], None]) -> None:
        """Have commands of class ``kind`` carried out by ``handler``."""
        self._handlers[kind] = cast("Callable[[Command], None]", handler)

    def tell(self, event: Event) -> None:
        """Tell the core, now; from within a command's handler: as soon as that is done.

        Raises what the core raises for an event that can't be true.
        """
        if self._busy:
            self._later.append(event)
            return
        self._busy = True
        try:
            self._tell(event)
            while self._later:
                self._tell(self._later.popleft())
        finally:
            self._busy = False

    def _tell(self, event: Event) -> None:
        at_s = self.now_s
        try:
            commands = self.core.handle(event, at_s)
        except InvariantError:
            self._log.write(at_s, event)  # so that a replay stops at the same place
            raise
        self._log.write(at_s, event)
        took_s = self.now_s - at_s
        self.deciding_s += took_s
        self.deciding_s_max = max(self.deciding_s_max, took_s)
        for command in commands:
            self._handlers[type(command)](command)

    def _set_timer(self, command: SetTimer) -> None:
        earlier = self._timers.pop(command.timer, None)
        if earlier is not None:
            earlier.cancel()

        def fire() -> None:
            del self._timers[command.timer]
            self.tell(TimerFired(timer=command.timer))

        when_s = self._started_s + command.at_s
        self._timers[command.timer] = self._reactor.call_at(when_s, fire)
