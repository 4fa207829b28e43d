"""Drives a core by the wall clock; its events are journaled before its commands are carried out.

All that is handled in one turn of the loop is journaled together: one write, and one sync where
the cluster is to be safe.  What has not been written has led to no command and no answer, so nobody
knows of it: a ResourceManager that died is replaced by one that replays its journal
(``recovery.py``).

Never here: what an event means or how a command is carried out.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError
from railyard.cluster.files import Reserve, sync_file, sync_folder
from railyard.cluster.machine import cause_of
from railyard.cluster.messaging.reactor import Reactor, Timer, now_s
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired

log = logging.getLogger(__name__)


class Driver(CoreDriver):
    """A core, the wall clock and a journal.

    ``started_s``: the core's 0 on the machine's clock.
    """

    def __init__(self, core: Core, journal: Journal, reactor: Reactor, started_s: float) -> None:
        super().__init__(core, journal, now_s)
        self.reactor = reactor
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
                self.reactor.call_later(0, self.settle)

    def _set_timer(self, command: SetTimer) -> None:
        earlier = self._timers.pop(command.timer, None)
        if earlier is not None:
            earlier.cancel()

        def fire() -> None:
            del self._timers[command.timer]
            self.feed(TimerFired(timer=command.timer))

        self._timers[command.timer] = self.reactor.call_at(self.started_s + command.at_s, fire)


#: Room that the journal has on a disk that is full: for some ten thousand events.
_RESERVE_BYTES = 2**21


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
                self._end(error)
                self._review_mark()

    def flush(self) -> None:
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
