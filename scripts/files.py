"""Files on their way between the local file system and the block store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from cluster.errors import RailyardError, UsageError
from cluster.ids import RackId
from dfs.client import DfsClient
from dfs.messages import FileStatus, PlacementHint

#: In place of a local path: standard input or output.
STANDARD_STREAM = "-"
_PIECE_BYTES = 4 * 2**20


class InputError(RailyardError):
    """A file that a job is to read is missing or can't be read."""


class LocalFile:
    """A local file, for readers of ranges (``jobs.taskio.FileReader``)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stored_bytes = path.stat().st_size  #: length of the file

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from ``offset``; fewer than ``length`` only at the file's end."""
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(length)


def readable_size(path: Path) -> int:
    """The size of a local file; raises ``InputError`` if it is missing or can't be read."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is not a file")
        with path.open("rb"):
            return path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def copy_in(
    store: DfsClient,
    local: str,
    path: str,
    *,
    overwrite: bool = False,
    replication: int = 0,
    racks: tuple[tuple[RackId, ...], ...] = (),
) -> FileStatus:
    """Store a local file, "-" for standard input, piece by piece; ``racks`` for each replica."""
    write = partial(
        store.write,
        path,
        replication=replication,
        overwrite=overwrite,
        hint=PlacementHint(racks=racks),
    )
    if local == STANDARD_STREAM:
        return write(_pieces(sys.stdin.buffer))
    try:
        with open(local, "rb") as file:
            return write(_pieces(file))
    except OSError as error:
        raise UsageError(f"{local}: cannot be read: {error.strerror}") from None


def copy_out(store: DfsClient, path: str, local: Path) -> int:
    """Fetch a file or a folder to a new local path; how many bytes that were."""
    status = store.status(path)
    if local.exists():
        raise UsageError(f"{local}: exists already: need a path where nothing is yet")
    try:
        if status.folder:
            return _folder_out(store, path, local)
        return _file_out(store, path, local)
    except OSError as error:
        raise UsageError(f"{local}: cannot be written: {error.strerror}") from None


def _folder_out(store: DfsClient, path: str, local: Path) -> int:
    local.mkdir()
    total = 0
    for entry in store.list(path):
        target = local / entry.path.rsplit("/", 1)[-1]
        out = _folder_out if entry.folder else _file_out
        total += out(store, entry.path, target)
    return total


def _file_out(store: DfsClient, path: str, local: Path) -> int:
    with local.open("xb") as file:
        return sum(file.write(piece) for piece in store.read(path))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
