"""Holds back what must not be known before the journal's entries are on the disk.

One sync at a time runs beside the event loop, and all that is committed meanwhile waits together
for the next: a disk that syncs 100 times a second bounds how long each waits, not how many get on.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.background import Background
from railyard.cluster.errors import InvariantError
from railyard.dfs.namenode.durable.sqlite_journal import SqliteJournal


class GroupCommit:
    """``syncing``: where the journal is synced."""

    def __init__(self, journal: SqliteJournal, syncing: Background) -> None:
        self._journal = journal
        self._syncing = syncing
        self._held: list[Callable[[], None]] = []  #: for the next sync
        self._running = False

    @property
    def commits(self) -> int:
        """How often there was something to keep."""
        return self._journal.commits

    def hold(self, release: Callable[[], None]) -> None:
        """Call ``release`` once all that is committed now is on the disk; in the order of calls."""
        self._held.append(release)
        self._sync()

    def _sync(self) -> None:
        if self._running or not self._held:
            return
        held, self._held = self._held, []
        self._running = True

        def ended(error: OSError | None) -> None:
            if error is not None:  # nobody knows any more what is on the disk
                raise InvariantError(f"the journal cannot be synced: {error.strerror}")
            self._running = False
            self._sync()
            for release in held:
                release()

        self._syncing.do(self._journal.sync, ended)
