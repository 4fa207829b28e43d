"""Limits the number of open files per client."""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import PeerError

#: Open files per process; over TCP, per role.
FILES_MAX = 10_000


class Writers:
    """The open files of each client."""

    def __init__(self, is_open: Callable[[int], bool]) -> None:
        self._is_open = is_open
        self._files: dict[str, set[int]] = {}

    def check(self, client: str) -> None:
        """Raise ``PeerError`` if a client may not create another file."""
        files = self._files.get(client, set())
        if len(files) >= FILES_MAX:
            files = self._files[client] = set(filter(self._is_open, files))
        if len(files) >= FILES_MAX:
            right = f"at most {FILES_MAX:,}: complete or abandon some"
            raise PeerError(f"{len(files):,} files are being written by this client: {right}")

    def begun(self, client: str, file: int) -> None:
        """A client has created a file."""
        self._files.setdefault(client, set()).add(file)

    def ended(self, client: str, file: int) -> None:
        """A client has completed or abandoned a file."""
        files = self._files.get(client, set())
        files.discard(file)
        if not files:
            self._files.pop(client, None)

    def forget(self) -> None:
        """Drop files that ended in another way, and clients without open files."""
        for client, files in list(self._files.items()):
            for file in [file for file in files if not self._is_open(file)]:
                self.ended(client, file)
