"""The network's counters when a job began and when it ended.

They are in files: they are seldom asked for, there are many of them, and a ResourceManager that is
restarted needs those that others before it have noted.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from railyard.cluster.ids import JobId
from railyard.netemu.messages import NetworkStats

log = logging.getLogger(__name__)

When = Literal["begin", "end"]


class Looks:
    """The looks at the network of the jobs that are known."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is for these files alone; it need not exist."""
        self._folder = folder
        #: jobs with a file
        self._jobs = {JobId(path.stem): None for path in folder.glob("*.*")}

    def note(self, job: JobId, when: When, stats: NetworkStats) -> None:
        """Keep a look; a full disk is no reason to end."""
        path = self._path(job, when)
        self._jobs[job] = None
        try:
            self._folder.mkdir(exist_ok=True)
            path.write_bytes(msgspec.msgpack.encode(stats))
        except OSError as error:
            log.warning("%s: %s: it will not be known", path, error.strerror)

    def at(self, job: JobId, when: When) -> NetworkStats | None:
        """The counters then; None if nobody has looked, or it could not be kept."""
        with suppress(OSError, msgspec.MsgspecError):  # cut short by a full disk
            return msgspec.msgpack.decode(self._path(job, when).read_bytes(), type=NetworkStats)
        return None

    def keep_only(self, known: Container[JobId]) -> None:
        """Forget the looks of all other jobs."""
        for job in [job for job in self._jobs if job not in known]:
            del self._jobs[job]
            with suppress(OSError):  # read-only
                self._path(job, "begin").unlink(missing_ok=True)
                self._path(job, "end").unlink(missing_ok=True)

    def _path(self, job: JobId, when: When) -> Path:
        return self._folder / f"{job}.{when}"
