"""Copies files between the local file system and the block store."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from railyard.cluster.errors import UsageError
from railyard.cluster.files.resources import Exhausted, cause_of
from railyard.cluster.ids import RackId
from railyard.cluster.shown import printable
from railyard.dfs.client import DfsClient
from railyard.dfs.messages.files import FileStatus, PlacementHint
from railyard.scripts.terminal.interrupts import deferred

#: In place of a local path: standard input or output.
STANDARD_STREAM = "-"
_PIECE_BYTES = 4 * 2**20
#: Of a path: one in a deep tree says nothing by its length.
_SHOWN_LETTERS_MAX = 200


class NotCopied(Exhausted):
    """A file could not be copied though the request was valid, as with a full disk."""


def copy_in(
    store: DfsClient,
    local: str,
    path: str,
    *,
    overwrite: bool = False,
    replication: int = 0,
    racks: tuple[tuple[RackId, ...], ...] = (),
) -> FileStatus:
    """Store a local file, "-" for standard input, piece by piece; ``racks`` for each replica.

    Raises ``UsageError`` if there is no such file, ``NotCopied`` if reading it breaks off.
    """
    write = partial(
        store.write,
        path,
        replication=replication,
        overwrite=overwrite,
        hint=PlacementHint(racks=racks),
    )
    if local == STANDARD_STREAM:
        return write(_pieces(sys.stdin.buffer, "standard input"))
    try:
        file = open(local, "rb")  # noqa: SIM115 - errors of opening and of reading are handled apart
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{local}: cannot be read: {why}") from None
    with file:
        return write(_pieces(file, local))


def copy_out(store: DfsClient, path: str, local: Path) -> int:
    """Fetch a file or a folder to a new local path; returns its size in bytes.

    It is there whole or not at all: until then it has another name, beside the one asked for.
    Raises ``UsageError`` if something is there already, ``NotCopied`` if it cannot be written.
    """
    status = store.status(path)
    _require_nothing_at(local)
    try:
        with _unfinished(local) as made:
            total = _tree_out(store, path, made) if status.folder else _file_out(store, path, made)
            _require_nothing_at(local)
            made[0].rename(local)
            return total
    except OSError as error:
        where = error.filename or local
        shown = printable(str(where), _SHOWN_LETTERS_MAX)
        raise NotCopied(f"{shown}: cannot be written: {cause_of(error, local.parent)}") from None


def _require_nothing_at(local: Path) -> None:
    if local.is_symlink() or local.exists():
        raise UsageError(f"{local}: exists already: need a path where nothing is yet")


@contextmanager
def _unfinished(local: Path) -> Iterator[list[Path]]:
    """The paths that a copy makes, its root first; they are removed if it fails."""
    made = [local.parent / f".railyard-{secrets.token_hex(4)}.part"]
    try:
        yield made
    except BaseException:
        with deferred():
            for path in reversed(made):
                with suppress(OSError):
                    _remove(path)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _tree_out(store: DfsClient, path: str, made: list[Path]) -> int:
    """Fetch a folder to the first path of ``made``, and note all that is made there."""
    total = 0
    waiting = [(path, made[0])]  # not recursive: a path may have thousands of folders
    made[0].mkdir()
    while waiting:
        folder, target = waiting.pop()
        for entry in store.list(folder):
            made.append(target / entry.path.rsplit("/", 1)[-1])
            if entry.folder:
                made[-1].mkdir()
                waiting.append((entry.path, made[-1]))
            else:
                total += _file_out(store, entry.path, made)
    return total


def _file_out(store: DfsClient, path: str, made: list[Path]) -> int:
    """Fetch a file to the last path of ``made``."""
    with made[-1].open("xb") as file:
        return sum(file.write(piece) for piece in store.read(path))


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        while piece := file.read(_PIECE_BYTES):
            yield piece
    except OSError as error:
        raise NotCopied(f"{name}: cannot be read to its end: {error.strerror}") from None
