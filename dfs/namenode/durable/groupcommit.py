"""Group commit: holds replies and commands back until their journal entries are on the disk.

One sync at a time runs in a thread, and all changes committed meanwhile wait together for the next.
So a disk with 100 syncs a second bounds the latency of changes, not their rate.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.background import Background
from railyard.cluster.errors import InvariantError
from railyard.dfs.namenode.durable.sqlite_journal import SqliteJournal


class GroupCommit:
    """Syncs ``journal`` in a thread of ``syncing``, for all changes that wait."""

    def __init__(self, journal: SqliteJournal, syncing: Background) -> None:
        self._journal = journal
        self._syncing = syncing
        self._held: list[Callable[[], None]] = []  #: waiting for the next sync
        self._running = False

    @property
    def commits(self) -> int:
        """The number of commits to the journal."""
        return self._journal.commits

    def hold(self, release: Callable[[], None]) -> None:
        """Call ``release`` once all commits so far are on the disk; in the order of calls."""
        self._held.append(release)
        self._sync()

    def _sync(self) -> None:
        if self._running or not self._held:
            return
        held, self._held = self._held, []
        self._running = True

        def ended(error: OSError | None) -> None:
            if error is not None:  # the state on the disk is unknown from here on
                raise InvariantError(f"the journal cannot be synced: {error.strerror}")
            self._running = False
            self._sync()
            for release in held:
                release()

        self._syncing.do(self._journal.sync, ended)
