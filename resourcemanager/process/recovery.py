"""A core rebuilt from a journal: all of it at once, or as another process writes it.

Never here: who is asked what has happened meanwhile (``resourcemanager.process``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.files import sync_file
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import SlotsChanged
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import core_for, follow_timers
from railyard.resourcemanager.driving.eventlog import (
    Diverged,
    Step,
    events_in,
    read_header,
    replay_on,
)
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.process.driver import whole_mark
from railyard.resourcemanager.process.taskhistory import TaskHistory

log = logging.getLogger(__name__)
S = TypeVar("S", bound=msgspec.Struct)

#: What to do about a journal from which no core can be rebuilt.
_ADVICE = "the ResourceManager can't be restarted: railyard down, then run the jobs again"
#: How much of a journal is read at once, about 1,500 events; more if a line is longer.
PIECE_BYTES = 2**18
#: A journal of this size takes about half a second to be replayed: worth a standby.
_WORTH_BYTES = 2**21


@dataclass
class Recovered:
    """What a journal says; at first, of a run that begins."""

    core: Core
    started_s: float  #: the core's 0 on the machine's clock
    history: TaskHistory
    #: of the journal's lines that were replayed; None: there is no journal yet
    length_bytes: int | None = None
    events: int = 0
    #: {timer that has not fired: its time}
    timers_s: dict[str, float] = field(default_factory=dict)
    job_number: int = 0  #: the highest of a job
    slots: dict[NodeId, int] = field(default_factory=dict)  #: of nodes, where somebody has set them

    def add(self, step: Step) -> None:
        """Follow an event that the core has handled."""
        self.events += 1
        event = step.event
        follow_timers(self.timers_s, event, step.commands)
        if isinstance(event, JobSubmitted):
            self.job_number = max(self.job_number, int(event.job[1:]))
        elif isinstance(event, SlotsChanged):
            self.slots[event.node] = event.slots
        self.history.take(step.at_s, event, step.commands)


class Follower:
    """Follows a journal; raises ``UsageError`` with file, line and advice if that can't be done.

    It can't if the journal is damaged, or if the core decides otherwise than it did.  A journal
    that can't be read raises ``OSError``: another try may succeed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 2  #: the number of the next
        self._recovered: Recovered | None = None

    def advance(self) -> bool:
        """Replay some more; whether there may be still more."""
        begin_bytes = self._length_bytes
        try:
            lines = self._next_lines()
            if self._recovered is not None:  # otherwise nothing is there yet
                events = events_in(self._path, lines, self._line)
                for step in replay_on(self._recovered.core, self._path, events, self._line):
                    self._recovered.add(step)
                self._line += len(lines)
        except (UsageError, Diverged) as error:
            raise UsageError(f"{error}: {_ADVICE}") from None
        except PeerError as error:  # an event that the core would not have taken is not logged
            raise UsageError(f"{self._path}: an event is missing: {error}: {_ADVICE}") from None
        return self._length_bytes > begin_bytes

    def finish(self) -> Recovered:
        """Replay all that is left; a last line that was cut short is left out."""
        if not whole_mark(self._path).exists():
            raise UsageError(f"{self._path}: lacks events, as its disk was full: {_ADVICE}")
        while self.advance():
            continue
        if self._recovered is None:
            raise UsageError(f"{self._path}:1: need a line of type run-started: {_ADVICE}")
        return self._recovered

    @property
    def _length_bytes(self) -> int:
        return 0 if self._recovered is None else self._recovered.length_bytes or 0

    def _next_lines(self) -> list[str]:
        """The whole lines that come next, some of them; none if there are none yet."""
        begin_bytes, length_bytes = self._length_bytes, PIECE_BYTES
        try:
            with open(self._path, "rb") as file:
                while True:
                    file.seek(begin_bytes)
                    piece = file.read(length_bytes)
                    end_bytes = piece.rfind(b"\n") + 1
                    if end_bytes or len(piece) < length_bytes:
                        break
                    length_bytes *= 2
            lines = piece[:end_bytes].decode().split("\n")[:-1]
        except UnicodeDecodeError:
            raise UsageError(f"{self._path}: need text in UTF-8") from None
        if lines and self._recovered is None:
            self._recovered = self._begin(lines.pop(0))
        if self._recovered is not None:
            self._recovered.length_bytes = begin_bytes + end_bytes
        return lines

    def _begin(self, line: str) -> Recovered:
        config, started_s = read_header(self._path, line)
        if started_s is None:
            raise UsageError(f"{self._path}:1: need started_s, as in a journal of a cluster")
        core = core_for(config)
        return Recovered(core, started_s, TaskHistory(core.state), 0)


def is_worth_a_standby(path: Path) -> bool:
    """Whether a journal is long enough that a standby should follow it."""
    try:
        return path.stat().st_size >= _WORTH_BYTES
    except FileNotFoundError:
        return False


class JobFiles(Generic[S]):
    """A message about each of some jobs, in files that a restart finds.

    A disk that is full or read-only is no reason to end: what it does not take is missing then.
    """

    def __init__(self, folder: Path, suffix: str, kind: type[S], *, safe: bool = False) -> None:
        """``safe``: a file is on the disk once it is kept."""
        self._folder = folder
        self._suffix = suffix
        self._kind = kind
        self._safe = safe

    def keep(self, job: JobId, message: S) -> None:
        path = self._path(job)
        try:
            self._folder.mkdir(exist_ok=True)
            with open(path, "wb") as file:
                file.write(msgspec.msgpack.encode(message))
                file.flush()
                if self._safe:
                    sync_file(file.fileno())
        except OSError as error:
            log.warning("%s: %s: a restart will not know it", path, error.strerror)
            self.forget(job)

    def forget(self, job: JobId) -> None:
        """Remove a job's file; one that stays, on a read-only disk, is removed by a restart."""
        try:
            self._path(job).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: %s", self._path(job), error.strerror)

    def get(self, job: JobId) -> S | None:
        """The message about a job; None if there is none, or it is damaged."""
        path = self._path(job)
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=self._kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.error("%s: %s", path, error)
            return None

    def jobs(self) -> list[JobId]:
        return [JobId(path.stem) for path in sorted(self._folder.glob(f"*{self._suffix}"))]

    def _path(self, job: JobId) -> Path:
        return self._folder / f"{job}{self._suffix}"
