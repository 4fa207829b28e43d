"""The messages that submitted jobs, in files: what a run needs of a job besides its events.

That is above all the job's code.  A file is there before its job is in the journal, and until
nothing is left to be done for the job.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from railyard.cluster.files.lasting import Durability, sync_file
from railyard.cluster.ids import JobId
from railyard.resourcemanager.process.messages import SubmitJob

log = logging.getLogger(__name__)

_SUFFIX = ".job"


class Submissions:
    """The files of a run folder's jobs."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        self._folder = folder
        self._safe = durability == "safe"

    def keep(self, job: JobId, wanted: SubmitJob) -> None:
        """Write a job's file; a full disk is no reason not to run the job."""
        path = self._path(job)
        try:
            with open(path, "wb") as file:
                file.write(msgspec.msgpack.encode(wanted))
                file.flush()
                if self._safe:
                    sync_file(file.fileno())
        except OSError as error:
            log.warning("%s: %s: %s would not survive a restart", path, error.strerror, job)
            self.forget(job)

    def forget(self, job: JobId) -> None:
        """Remove a job's file; one that stays, on a read-only disk, is removed by a restart."""
        try:
            self._path(job).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: %s", self._path(job), error.strerror)

    def all(self) -> dict[JobId, SubmitJob]:
        """What is in the files; one that is damaged is left out."""
        kept: dict[JobId, SubmitJob] = {}
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                kept[JobId(path.stem)] = msgspec.msgpack.decode(path.read_bytes(), type=SubmitJob)
            except (OSError, msgspec.MsgspecError) as error:
                log.error("%s: %s", path, error)
        return kept

    def _path(self, job: JobId) -> Path:
        return self._folder / f"{job}{_SUFFIX}"
