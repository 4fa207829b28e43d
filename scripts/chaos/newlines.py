"""A file that grows by lines, read as it grows."""

from __future__ import annotations

from pathlib import Path


class NewLines:
    """The whole lines that were added to a file since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def read(self) -> list[bytes]:
        """These lines, without their ends; none if there is no such file."""
        if self._size_bytes <= self._read_bytes:
            return []
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        return whole.splitlines()

    @property
    def _size_bytes(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
