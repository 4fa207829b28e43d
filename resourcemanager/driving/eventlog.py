"""The events of a run on disk, one per line, and how they are replayed.

The first line says what the core was made with.  Each other line is an event, its time, and a
checksum of the commands that it led to, if there were any:

    {"type": "run-started", "config": {"topology": ..., "scheduler": "fair", "seed": 1, ...}}
    {"at_s": 1.25, "type": "attempt-started", "attempt": "j1.m0.0", "pid": 4711}
    {"at_s": 2.5, "led_to": 3077642189, "type": "attempt-succeeded", "attempt": "j1.m0.0", ...}

A fresh core that handles the same events gives the same commands.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError, RailyardError, UsageError
from railyard.cluster.inputfile import read_text_file
from railyard.cluster.machine import cause_of, is_full
from railyard.cluster.messaging.wire import Command, Event, to_map
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.interface.events import EVENTS

log = logging.getLogger(__name__)

_HEADER = "run-started"
#: Left out of checksums, as it says nothing.  No text has these bytes: quotes in it are escaped.
_DEFAULT = b',"begins":true'
#: Bytes of lines that are written together, and of lines that wait for room on a full disk.
_BUFFER_BYTES = 2**16
_UNWRITTEN_BYTES_MAX = 2**26
#: What a line raises that is no JSON, or other JSON than expected.
_UNREADABLE = ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError


class EventLog:
    """Writes events as they happen; each line is in the file when ``write`` returns.

    With ``buffered``, lines are in the file once ``flush`` or ``close`` has returned.
    ``started_s``: the core's 0 on the machine's clock; None under a virtual clock.
    ``resume_bytes``: go on with the file that is there, after so many bytes of it.

    While the disk is full or read-only, lines are kept and written once that is over.  If too many
    come, the log ends: one with a gap could not be replayed, and the run itself matters more than
    its log.
    """

    def __init__(
        self,
        path: Path,
        config: ClusterConfig,
        *,
        buffered: bool = False,
        started_s: float | None = None,
        resume_bytes: int | None = None,
    ) -> None:
        self._path = path
        #: its descriptor
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._unwritten = bytearray()
        self._buffer_bytes = _BUFFER_BYTES if buffered else 0
        self._waits = False  #: whether lines wait for the disk
        self._over = False
        self._at_s = 0.0  #: of the last event
        os.ftruncate(self.file, resume_bytes or 0)
        os.lseek(self.file, 0, os.SEEK_END)
        if resume_bytes is None:
            clock = {} if started_s is None else {"started_s": started_s}
            self._add({"type": _HEADER, **clock, "config": msgspec.to_builtins(config)})
            self._write_out()

    @property
    def waits(self) -> bool:
        """Whether lines wait for the disk, or are not written any more."""
        return self._waits or self._over

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Append an event and a checksum of the commands that it led to."""
        if self._over:
            return
        led_to = {"led_to": checksum(commands)} if commands else {}
        self._add({"at_s": at_s, **led_to, **to_map(event)})
        self._at_s = at_s
        if len(self._unwritten) > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what has not been written yet, if there is room for it."""
        try:
            self._write_out()
        except OSError as error:
            self._failed(error)

    def close(self) -> None:
        """Write what is left, and close the file."""
        try:
            self._write_out()
        except OSError as error:
            log.warning("the log of events is cut short: %s", cause_of(error, self._path))
        os.close(self.file)

    def _add(self, row: dict[str, Any]) -> None:
        self._unwritten += json.dumps(row).encode() + b"\n"

    def _write_out(self) -> None:
        while self._unwritten:
            del self._unwritten[: os.write(self.file, self._unwritten)]
        self._waits = False

    def _failed(self, error: OSError) -> None:
        if len(self._unwritten) > _UNWRITTEN_BYTES_MAX:
            self._end(error)
        elif not self._waits:
            self._waits = True
            what = "waits for room" if is_full(error) else "can't be written"
            cause = cause_of(error, self._path)
            log.warning("the log of events %s from %.3f s on: %s", what, self._at_s, cause)

    def _end(self, error: OSError) -> None:
        self._over = True
        self._unwritten.clear()
        cause = cause_of(error, self._path)
        log.warning("the log of events ends at %.3f s: %s", self._at_s, cause)


@dataclass(frozen=True)
class Step:
    """An event, its time, and the commands that the core gave for it."""

    at_s: float
    event: Event
    commands: list[Command]
    state: ClusterState  #: of its core; it changes with the next step


@dataclass(frozen=True)
class LoggedEvent:
    """An event as it stands in the log."""

    at_s: float
    event: Event
    led_to: int  #: checksum of its commands; 0 if there were none


def checksum(commands: Sequence[Command]) -> int:
    """CRC-32 of commands, by which replays compare them; 0 if there are none."""
    if not commands:
        return 0
    return zlib.crc32(msgspec.json.encode(commands).replace(_DEFAULT, b""))


def read_log(path: Path) -> tuple[ClusterConfig, Iterator[LoggedEvent]]:
    """The configuration of a run, and its events in order.

    Raises ``UsageError`` with file and line for a file that is no log.  A last line that was cut
    short, since its writer was killed, is left out.
    """
    # What follows the last newline was cut short, or is empty.
    first, *others = read_text_file(path, "log of events").split("\n")[:-1] or ["{}"]
    return read_header(path, first)[0], events_in(path, others)


def read_header(path: Path, line: str) -> tuple[ClusterConfig, float | None]:
    """The configuration in a log's first line, and the core's 0 on the machine's clock, if any.

    Raises ``UsageError``.
    """
    try:
        header = json.loads(line)
        if header.get("type") != _HEADER:
            raise UsageError(f"{path}:1: need a line of type {_HEADER}")
        config = msgspec.convert(header["config"], ClusterConfig)
        started_s = header.get("started_s")
        return config, None if started_s is None else float(started_s)
    except _UNREADABLE as error:
        raise UsageError(f"{path}:1: {error}") from None


def replay(path: Path) -> Iterator[Step]:
    """Let a fresh core handle the events of a log, one at a time.

    Raises ``Diverged`` at the first that leads to other commands than it did.
    """
    config, events = read_log(path)
    yield from replay_on(core_for(config), path, events)


def replay_on(
    core: Core, path: Path, events: Iterable[LoggedEvent], first: int = 2
) -> Iterator[Step]:
    """Let a core, made as the log says, handle its next events; raises as ``replay`` does.

    ``first``: the number of the log's line with the first of them.
    """
    for number, logged in enumerate(events, start=first):
        commands = core.handle(logged.event, logged.at_s)
        if checksum(commands) != logged.led_to:
            event = json.dumps(to_map(logged.event))
            now = ", ".join(type(command).__name__ for command in commands) or "nothing"
            raise Diverged(f"{path}:{number}: {event} led to other commands than now: {now}")
        yield Step(logged.at_s, logged.event, commands, core.state)


class Diverged(RailyardError):
    """A core gave other commands than the log's for the same events: its code has changed."""


def events_in(path: Path, lines: Iterable[str], first: int = 2) -> Iterator[LoggedEvent]:
    """The events in lines of a log, of which the first has the number ``first``.

    Raises ``UsageError`` for a line that is no event.
    """
    for number, line in enumerate(lines, start=first):
        try:
            row = json.loads(line)
            at_s, led_to = float(row.pop("at_s")), int(row.pop("led_to", 0))
            event = EVENTS.from_map(row)
        except (*_UNREADABLE, PeerError) as error:
            raise UsageError(f"{path}:{number}: {type(error).__name__}: {error}") from None
        assert isinstance(event, Event), "the core's vocabulary is events only"
        yield LoggedEvent(at_s, event, led_to)
