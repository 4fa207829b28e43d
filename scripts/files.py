"""Files on their way between the local file system and the block store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cluster.errors import UsageError
from dfs.client import DfsClient
from dfs.messages import FileStatus

_PIECE_BYTES = 4 * 2**20


def readable_size(local: str) -> int:
    """The size of a local file; raises ``UsageError`` if it is missing, no file, or empty."""
    path = Path(local)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"{local}: {what}: need a file with something in it")
        with path.open("rb"):
            size_bytes = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{local}: cannot be read: {error.strerror}") from None
    if size_bytes == 0:
        raise UsageError(f"{local}: is empty: need a file with something in it")
    return size_bytes


def copy_in(
    store: DfsClient, local: str, path: str, *, overwrite: bool = False, replication: int = 0
) -> FileStatus:
    """Store a local file, "-" for standard input, piece by piece."""
    if local == "-":
        return store.write(
            path, _pieces(sys.stdin.buffer), replication=replication, overwrite=overwrite
        )
    try:
        with open(local, "rb") as file:
            return store.write(path, _pieces(file), replication=replication, overwrite=overwrite)
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
