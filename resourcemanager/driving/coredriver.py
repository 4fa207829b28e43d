"""What drives a core under either clock: feeds it events, logs them, passes its commands on.

Never here: what an event means, how a command is carried out, what time it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.resourcemanager.schedulers import recipe_named

C = TypeVar("C", bound=Command)
#: Fewer commands than this are carried out one by one.
_FEW_COMMANDS = 3


class Log(Protocol):
    """Where events are kept, in order, with the commands that they led to."""

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None: ...


class CoreDriver(ABC):
    """A core and its log.  Subclasses bring the clock and the timers."""

    def __init__(self, core: Core, log: Log | None, stopwatch: Callable[[], float] | None) -> None:
        self.core = core
        self.event_s = 0.0  #: when the event happened that is being handled, by the core's clock
        self.deciding_s = 0.0  #: seconds spent in the core, if there is a stopwatch
        self.deciding_s_max = 0.0  #: of these, the most for one event
        self._log = log
        self.stopwatch = stopwatch  #: returns seconds; measures what decisions take
        self._handlers: dict[type[Command], Callable[[Any], None]] = {}
        #: of classes that are carried out together where they follow one another
        self._handlers_of_all: dict[type[Command], Callable[[Sequence[Any]], None]] = {}
        self._later: deque[Event] = deque()
        self._busy = False
        self.on(SetTimer, self._set_timer)

    @property
    @abstractmethod
    def now_s(self) -> float:
        """The core's clock."""

    @abstractmethod
    def _set_timer(self, command: SetTimer) -> None:
        """Feed ``TimerFired`` at that time; an earlier order for the same timer is void."""

    def on(self, kind: type[C], handler: Callable[[C], None]) -> None:
        """Have commands of class ``kind`` carried out by ``handler``."""
        self._handlers[kind] = handler

    def on_all(self, kind: type[C], handler: Callable[[Sequence[C]], None]) -> None:
        """Have several commands of class ``kind`` that follow one another carried out together."""
        self._handlers_of_all[kind] = handler

    def feed(self, event: Event) -> None:
        """Let the core handle an event now; within a command's handler, as soon as that returns.

        Raises what the core raises for an event that can't be true.
        """
        if self._busy:
            self._later.append(event)
            return
        self._busy = True
        try:
            self._feed(event)
            while self._later:
                self._feed(self._later.popleft())
        finally:
            self._busy = False

    def _feed(self, event: Event) -> None:
        self._carry_out(self._handle(event))

    def _handle(self, event: Event) -> list[Command]:
        """Let the core handle an event now, and log it; returns its commands."""
        self.event_s = at_s = self.now_s
        log, stopwatch = self._log, self.stopwatch
        begun_s = 0.0 if stopwatch is None else stopwatch()
        try:
            commands = self._ask(event, at_s)
        except InvariantError:
            if log is not None:
                log.write(at_s, event)  # so that a replay stops at the same place
            raise
        if stopwatch is not None:
            took_s = stopwatch() - begun_s
            self.deciding_s += took_s
            self.deciding_s_max = max(self.deciding_s_max, took_s)
        if log is not None:
            log.write(at_s, event, commands)
        return commands

    def _ask(self, event: Event, at_s: float) -> list[Command]:
        return self.core.handle(event, at_s)

    def _carry_out(self, commands: Sequence[Command]) -> None:
        if len(commands) < _FEW_COMMANDS:
            for command in commands:
                self._handlers[type(command)](command)
            return
        for kind, those in groupby(commands, type):
            if (together := self._handlers_of_all.get(kind)) is not None:
                together(list(those))
                continue
            handler = self._handlers[kind]
            for command in those:
                handler(command)


def follow_timers(timers_s: dict[str, float], event: Event, commands: Sequence[Command]) -> None:
    """Keep {timer that has not fired: its time} up to date: what a restart sets again."""
    if isinstance(event, TimerFired):
        timers_s.pop(event.timer, None)
    for command in commands:
        if isinstance(command, SetTimer):
            timers_s[command.timer] = command.at_s


#: Ended jobs of which records are kept; yarn.resourcemanager.max-completed-applications.
RECORDS_KEPT = 1000


def core_for(config: ClusterConfig) -> Core:
    """A fresh core; ``UsageError`` for an unknown scheduler or setting."""
    recipe = recipe_named(config.scheduler)
    options = config.scheduler_options
    return Core(config.topology, recipe, options, config.seed, records_kept=RECORDS_KEPT)
