"""The log of events as a journal: written before commands go out, and a core rebuilt from it.

A core is a deterministic state machine.  So a ResourceManager that died is replaced by one that
replays its events: the core, its policies and their random numbers are then as they were.

What has not been written has led to no command and no answer, so nobody knows of it.

Never here: who is asked what has happened meanwhile (``resourcemanager.process``).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.files.inputfile import read_file
from railyard.cluster.files.lasting import sync_file, sync_folder
from railyard.cluster.files.reserve import Reserve
from railyard.cluster.files.resources import cause_of
from railyard.cluster.ids import NodeId
from railyard.cluster.messages.execution import SlotsChanged
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.eventlog import (
    Diverged,
    EventLog,
    Step,
    read_log,
    replay_on,
)
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import JobSubmitted, TimerFired

log = logging.getLogger(__name__)

#: Room that the journal has on a disk that is full: for some ten thousand events.
_RESERVE_BYTES = 2**21
#: What to do about a journal from which no core can be rebuilt.
_ADVICE = "the ResourceManager can't be restarted: railyard down, then run the jobs again"


#: Takes an event that the core has handled, its time and its commands.
Take = Callable[[float, Event, Sequence[Command]], None]


@dataclass
class Recovered:
    """What a journal says."""

    core: Core
    started_s: float  #: the core's 0 on the machine's clock
    length_bytes: int  #: of the journal's whole lines
    events: int = 0
    timers_s: dict[str, float] = field(
        default_factory=dict
    )  #: {timer that has not fired: its time}
    job_number: int = 0  #: the highest of a job
    slots: dict[NodeId, int] = field(default_factory=dict)  #: of nodes, where somebody has set them

    def add(self, step: Step) -> None:
        """Follow an event that the core has handled."""
        self.events += 1
        event = step.event
        if isinstance(event, TimerFired):
            self.timers_s.pop(event.timer, None)
        elif isinstance(event, JobSubmitted):
            self.job_number = max(self.job_number, int(event.job[1:]))
        elif isinstance(event, SlotsChanged):
            self.slots[event.node] = event.slots
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timers_s[command.timer] = command.at_s


def recover(path: Path, follow: Callable[[Core], Take] = lambda _: _nothing) -> Recovered:
    """Rebuild the core from a journal; a last line that was cut short is left out.

    ``follow(core)`` is given each event, its time and its commands, after the core.

    Raises ``UsageError`` with file, line and advice if the journal is damaged, or if the core
    decides otherwise than it did.
    """
    try:
        if not whole_mark(path).exists():
            raise UsageError(f"{path}: lacks events, as its disk was full")
        text = read_file(path)
        config, events = read_log(path)
        recovered = Recovered(core_for(config), _started_s(path, text), text.rfind(b"\n") + 1)
        take = follow(recovered.core)
        for step in replay_on(recovered.core, path, events):
            recovered.add(step)
            take(step.at_s, step.event, step.commands)
    except (UsageError, Diverged) as error:
        raise UsageError(f"{error}: {_ADVICE}") from None
    except PeerError as error:  # an event that the core would not have taken is not logged
        raise UsageError(f"{path}: an event is missing: {error}: {_ADVICE}") from None
    return recovered


def _nothing(_at_s: float, _event: Event, _commands: Sequence[Command]) -> None:
    """Take an event, and do nothing about it."""


class Journal(EventLog):
    """A log of events that is whole up to each ``commit``.

    Room for more is reserved on its disk, so that it can be written while that is full.  When that
    is used up, or the disk can't be written, the run goes on, since it matters more than its
    journal.  What is sent meanwhile is in no journal, so the mark of a whole one (``whole_mark``)
    is taken away until all has been written: a ResourceManager that dies before that is not
    restarted.

    With durability ``safe`` a commit is on the disk when it returns, not only in the system's
    memory.  If the disk fails to sync, nobody knows what it has: then this journal is over.

    An earlier ResourceManager that was replaced while it lived may still write a last time.  So it
    keeps the file, whose lock it holds, and this process goes on in a copy of its name.
    """

    def __init__(
        self, path: Path, config: ClusterConfig, started_s: float, resume_bytes: int | None = None
    ) -> None:
        if resume_bytes is not None:
            _leave_locked(path)
        super().__init__(
            path, config, buffered=True, started_s=started_s, resume_bytes=resume_bytes
        )
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._safe = config.durability == "safe"
        self._mark = whole_mark(path)
        self._is_marked = False
        self._uncommitted = False  #: whether there were events since the last commit
        self._reserve = Reserve(self.file, _RESERVE_BYTES)
        self._has_room = True  #: whether there was room on the disk for the reserve
        self._keep_reserve()
        self._review_mark()
        if self._safe:
            sync_folder(path.parent)

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Append an event and a checksum of the commands that it led to."""
        super().write(at_s, event, commands)
        self._uncommitted = True

    def commit(self) -> None:
        """Write all events, before what follows from them is sent."""
        if not self._uncommitted:
            return
        self._uncommitted = False
        self.flush()
        if self._safe and self._is_marked:
            try:
                sync_file(self.file)
            except OSError as error:
                self._end(self._at_s, error)
                self._review_mark()

    def flush(self) -> None:
        """Write what has not been written yet, if there is room for it."""
        if self._unwritten:
            super().flush()
            self._keep_reserve()
        if self.waits == self._is_marked:
            self._review_mark()

    def close(self) -> None:
        """Write what is left, give the reserve back, and close the file."""
        self.flush()
        with contextlib.suppress(OSError):  # read-only
            self._reserve.give_up()
        super().close()

    def _keep_reserve(self) -> None:
        try:
            self._reserve.keep()
        except OSError as error:
            if self._has_room:
                left_bytes, cause = self._reserve.left_bytes, cause_of(error, self._path)
                log.warning("the journal has room for %d bytes: %s", left_bytes, cause)
            self._has_room = False
        else:
            self._has_room = True

    def _review_mark(self) -> None:
        try:
            if self.waits:
                self._mark.unlink(missing_ok=True)
            else:
                self._mark.touch()
        except OSError as error:  # no room for it yet
            log.warning("%s: %s", self._mark, error.strerror)
        else:
            self._is_marked = not self.waits


def _leave_locked(path: Path) -> None:
    """If another process holds the lock of a journal, put a copy in its place."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("%s: an earlier ResourceManager lives: going on in a copy", path)
        else:
            return
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    copy.replace(path)


def whole_mark(path: Path) -> Path:
    """The file beside a journal that is there as long as the journal lacks no event."""
    return path.with_suffix(".whole")


def _started_s(path: Path, text: bytes) -> float:
    started_s = json.loads(text.partition(b"\n")[0]).get("started_s")
    if not isinstance(started_s, float | int):
        raise UsageError(f"{path}:1: need started_s, as in a journal of a cluster")
    return float(started_s)
