"""Who is the ResourceManager: the process that holds the lock of its run folder, and its epoch.

The kernel gives the lock up only when the process that held it is dead: one that was stopped holds
it still, so no two ever act at once.
"""

from __future__ import annotations

import fcntl
import os

from railyard.cluster.errors import UsageError
from railyard.cluster.files.runfolder import RunFolder


class Epoch:
    """The lock, held until this process ends or ``close`` is called."""

    def __init__(self, folder: RunFolder) -> None:
        """Take the lock; ``UsageError`` if another process has it."""
        path = folder.path / "resourcemanager.epoch"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            right = "need that to end first"
            raise UsageError(f"{path}: another ResourceManager acts: {right}") from None
        written = os.pread(self._file, 20, 0)
        #: 1 for the first ResourceManager of a cluster, one more for each that follows
        self.number = 1 + (int(written) if written.isdigit() else 0)
        os.pwrite(self._file, str(self.number).encode(), 0)

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._file)
