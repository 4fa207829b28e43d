"""Drives a core by the wall clock; its events are journaled before its commands are carried out.

All that is handled in one turn of the loop is journaled together: one write, and one sync where
the cluster is to be safe.

Never here: what an event means or how a command is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.reactor import Reactor, Timer, now_s
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.resourcemanager.process.restart.journal import Journal


class Driver(CoreDriver):
    """A core, the wall clock and a journal.

    ``started_s``: the core's 0 on the machine's clock.
    """

    def __init__(self, core: Core, journal: Journal, reactor: Reactor, started_s: float) -> None:
        super().__init__(core, journal, now_s)
        self._reactor = reactor
        self._journal = journal
        self.started_s = started_s
        self._timers: dict[str, Timer] = {}
        #: called with each event that was handled, its time and its commands
        self.on_handled: Callable[[float, Event, Sequence[Command]], None] = lambda *_: None
        #: commands whose events are not journaled yet: (time of the event, its commands)
        self._held: list[tuple[float, list[Command]]] = []
        self._settles = False  #: whether ``settle`` is due at the end of this turn

    @property
    def now_s(self) -> float:
        """Seconds since the run began: the core's clock."""
        return now_s() - self.started_s

    def _handle(self, event: Event) -> list[Command]:
        commands = super()._handle(event)
        self.on_handled(self.event_s, event, commands)
        return commands

    def settle(self) -> None:
        """Journal what has happened, then carry out what follows from it.

        It is done at the end of each turn; call it before an answer that others will rely on.
        Nothing happens within a command's handler.
        """
        self._settles = False
        if self._busy:
            return
        self._journal.commit()
        while self._held:
            held, self._held = self._held, []
            self._busy = True
            try:
                for self.event_s, commands in held:
                    self._carry_out(commands)
            finally:
                self._busy = False
            later = list(self._later)
            self._later.clear()
            for event in later:
                self.feed(event)
            self._journal.commit()

    def journal_all(self) -> bool:
        """Write events that have led to no command, too; whether all events are written."""
        self._journal.flush()
        return not self._journal.waits

    def arm(self, timers_s: Mapping[str, float]) -> None:
        """Set the timers that an earlier process had set: {timer: its time on the core's clock}."""
        for timer, at_s in timers_s.items():
            self._set_timer(SetTimer(timer=timer, at_s=at_s))

    def _feed(self, event: Event) -> None:
        try:
            commands = self._handle(event)
        except InvariantError:
            self._journal.flush()  # so that a replay stops at the same place
            raise
        if commands:
            self._held.append((self.event_s, commands))
            if not self._settles:
                self._settles = True
                self._reactor.call_later(0, self.settle)

    def _set_timer(self, command: SetTimer) -> None:
        earlier = self._timers.pop(command.timer, None)
        if earlier is not None:
            earlier.cancel()

        def fire() -> None:
            del self._timers[command.timer]
            self.feed(TimerFired(timer=command.timer))

        when_s = self.started_s + command.at_s
        self._timers[command.timer] = self._reactor.call_at(when_s, fire)
