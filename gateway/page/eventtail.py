"""The rows of a log of events that is being written: its events are replayed as they come."""

from __future__ import annotations

import logging
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError
from railyard.gateway.page.feed import Feed, Row
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.eventlog import events_in, replay_on
from railyard.resourcemanager.driving.makecore import core_for

log = logging.getLogger(__name__)

#: Of a log that has grown while nobody looked, about so much is read before others get a turn.
_READ_BYTES = 2**18


class EventTail:
    """The rows of a log of events that is being written."""

    def __init__(self, path: Path, config: ClusterConfig) -> None:
        self._path = path
        self._config = config
        self._line = 1  #: number of the next line
        self._offset = 0  #: of the next line in the file
        self._made: tuple[Core, Feed] | None = None
        self._over = False

    def read(self) -> tuple[list[Row], bool]:
        """The rows of what has come, and whether there may be more to read at once."""
        if self._over:
            return [], False
        if self._made is None:
            core = core_for(self._config)
            self._made = core, Feed(core)
        core, feed = self._made
        first, lines, more = self._next_lines()
        events = events_in(self._path, [line.decode() for line in lines], first)
        try:
            for step in replay_on(core, self._path, events, first):
                feed.take(step)
        except RailyardError as error:
            self._over = True
            log.warning("the page shows nothing after this: %s", error)
            return [*feed.drain(), [0, "note", f"what follows cannot be shown: {error}"]], False
        return feed.drain(), more

    def _next_lines(self) -> tuple[int, list[bytes], bool]:
        """The number of the first of some lines with events, these, and whether there are more."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines = file.readlines(_READ_BYTES)
        except FileNotFoundError:
            return self._line, [], False
        more = sum(map(len, lines)) >= _READ_BYTES
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()  # not whole yet; it may even be written anew
        first = self._line
        self._line += len(lines)
        self._offset += sum(map(len, lines))
        if first == 1 and lines:  # what the core was made with
            first, lines = 2, lines[1:]
        return first, lines, more
