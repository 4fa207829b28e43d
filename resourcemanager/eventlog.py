"""The events of a run on disk, one a line, and how they are played again.

The first line says what the core was made with; each other one is an event and when it was told:

    {"type": "run-started", "config": {"topology": ..., "scheduler": "fair", "seed": 1, ...}}
    {"at_s": 1.25, "type": "attempt-started", "attempt": "j1.m0.0", "pid": 4711}

A fresh core that is told the same events gives the same commands.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from cluster.config import ClusterConfig
from cluster.errors import PeerError, UsageError
from cluster.wire import Command, Event, to_map
from resourcemanager.core import Core
from resourcemanager.events import EVENTS
from resourcemanager.schedulers import recipe_named

log = logging.getLogger(__name__)

#: Of so many ended jobs a cluster can still tell; yarn.resourcemanager.max-completed-applications.
RECORDS_KEPT = 1000
_HEADER = "run-started"


def core_for(config: ClusterConfig) -> Core:
    """A fresh core; ``UsageError`` for an unknown scheduler or setting."""
    recipe = recipe_named(config.scheduler)
    options = config.scheduler_options
    return Core(config.topology, recipe, options, config.seed, records_kept=RECORDS_KEPT)


class EventLog:
    """Writes events as they happen; each line is whole on disk when ``write`` returns.

    Once a line could not be written (the disk is full) the log is over: one with a hole could not
    be played again, and what happens matters more than that it is noted.
    """

    def __init__(self, path: Path, config: ClusterConfig) -> None:
        self._over = False
        self._file: TextIO = open(path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._line({"type": _HEADER, "config": msgspec.to_builtins(config)})

    def write(self, at_s: float, event: Event) -> None:
        """Append an event."""
        if self._over:
            return
        try:
            self._line({"at_s": at_s, **to_map(event)})
        except OSError as error:
            self._over = True
            log.warning("the log of events ends at %.3f s: %s", at_s, error.strerror)

    def close(self) -> None:
        """Write no more."""
        with contextlib.suppress(OSError):  # of a line that was cut short
            self._file.close()

    def _line(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class Step:
    """An event, when it was told, and what the core ordered."""

    at_s: float
    event: Event
    commands: list[Command]


def read_log(path: Path) -> tuple[ClusterConfig, Iterator[tuple[float, Event]]]:
    """What the run was made with, and its events, in order.

    Raises ``UsageError`` with file and line for what is no log.  A last line that was cut short
    when its writer was killed is left out.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    whole = lines[:-1]  # what follows the last newline was cut short, or is empty
    try:
        header = json.loads(whole[0]) if whole else {}
        if header.get("type") != _HEADER:
            raise UsageError(f"{path}:1: need a line of type {_HEADER}")
        config = msgspec.convert(header["config"], ClusterConfig)
    except (ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path}:1: {error}") from None
    return config, _events(path, whole)


def replay(path: Path) -> Iterator[Step]:
    """Tell a fresh core the events of a log, one at a time."""
    config, events = read_log(path)
    core = core_for(config)
    for at_s, event in events:
        yield Step(at_s, event, core.handle(event, at_s))


def _events(path: Path, lines: list[str]) -> Iterator[tuple[float, Event]]:
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = json.loads(line)
            at_s = float(row.pop("at_s"))
            event = EVENTS.from_map(row)
        except (ValueError, KeyError, AttributeError, PeerError) as error:
            raise UsageError(f"{path}:{number}: {type(error).__name__}: {error}") from None
        assert isinstance(event, Event), "the core's vocabulary is events only"
        yield at_s, event
