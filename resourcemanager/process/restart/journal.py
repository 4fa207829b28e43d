"""The log of events as a journal: written before commands go out.

A core is a deterministic state machine.  So a ResourceManager that died is replaced by one that
replays its events (``following.py``): the core, its policies and their random numbers are then as
they were.

What has not been written has led to no command and no answer, so nobody knows of it.

Never here: what is done with a journal that is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.files.lasting import sync_file, sync_folder
from railyard.cluster.files.reserve import Reserve
from railyard.cluster.files.resources import cause_of
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.driving.eventlog import EventLog

log = logging.getLogger(__name__)

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
