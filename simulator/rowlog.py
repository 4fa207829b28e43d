"""Logs of runs in which much is told at once: they have the event and commands of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railyard.cluster.messages.execution import FlowFinished
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.attempts.together import AttemptsProgressed
from railyard.resourcemanager.core.shuffling.rowmessages import (
    FetchesEnded,
    NameFetches,
    StartFetches,
)
from railyard.resourcemanager.core.shuffling.rowshuffle import RowShuffle
from railyard.resourcemanager.driving.coredriver import Log


class RowLog:
    """Writes to another log what was told at once; to be called before any other event happens."""

    def __init__(self, log: Log, rows: RowShuffle) -> None:
        self._log = log
        self._rows = rows

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Append an event, or the end of each fetch."""
        if isinstance(event, AttemptsProgressed):
            assert not commands, "nothing follows from reports of progress that come together"
            for report in event.reports:
                self._log.write(at_s, report)
            return
        if not self._rows.are_used:
            self._log.write(at_s, event, commands)
            return
        if not isinstance(event, FetchesEnded):
            self._log.write(at_s, event, [each for each, _ in self._each(commands)])
            return
        #: those of the first ends without commands, and the others, by the end that they follow
        led_to: dict[int, list[Command]] = {}
        waiting: list[Command] = []
        last = len(event.names) - 1
        for command, after in self._each(commands):
            waiting.append(command)
            if after is not None:
                led_to[after], waiting = waiting, []
        if waiting:
            led_to[last] = led_to.get(last, []) + waiting
        for number, name in enumerate(event.names):
            self._log.write(at_s, FlowFinished(flow=name), led_to.get(number, []))

    def _each(self, commands: Sequence[Command]) -> Iterator[tuple[Command, int | None]]:
        """Each command, and the end of a fetch that it follows from."""
        for command in commands:
            if isinstance(command, NameFetches):
                continue
            if not isinstance(command, StartFetches):
                yield command, None
                continue
            after = command.after.tolist() or [None] * len(command.fetches)
            yield from zip(self._rows.as_commands(command), after, strict=True)
