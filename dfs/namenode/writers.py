"""How many files each client is writing: no more than any has a use for."""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import PeerError

#: Files that one process may be writing; over TCP, that all processes of a role may.
FILES_MAX = 10_000


class Writers:
    """The open files of each client."""

    def __init__(self, is_open: Callable[[int], bool]) -> None:
        self._is_open = is_open
        self._files: dict[str, set[int]] = {}

    def check(self, client: str) -> None:
        """Raise ``PeerError`` if a client may not begin another file."""
        files = self._files.get(client, set())
        if len(files) >= FILES_MAX:
            files = self._files[client] = set(filter(self._is_open, files))
        if len(files) >= FILES_MAX:
            right = f"at most {FILES_MAX:,}: complete or abandon some"
            raise PeerError(f"{len(files):,} files are being written by this client: {right}")

    def begun(self, client: str, file: int) -> None:
        """A client has begun a file."""
        self._files.setdefault(client, set()).add(file)

    def ended(self, client: str, file: int) -> None:
        """A client has completed or abandoned a file."""
        files = self._files.get(client, set())
        files.discard(file)
        if not files:
            self._files.pop(client, None)

    def forget(self) -> None:
        """Forget files that ended in another way, and clients without any."""
        for client, files in list(self._files.items()):
            for file in [file for file in files if not self._is_open(file)]:
                self.ended(client, file)
