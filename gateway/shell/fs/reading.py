"""Commands that read files: to standard output, or all of them into one local file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from functools import partial
from typing import IO, TYPE_CHECKING

from railyard.cluster.packed import (
    GZIP,
    HEAD_BYTES,
    NotPacked,
    ending_of,
    fault_of,
    unpacked,
)
from railyard.gateway.shell.addresses import local_path
from railyard.gateway.shell.fs.command import Command, entries
from railyard.gateway.shell.paths import Found
from railyard.gateway.shell.web import PIECE_BYTES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def cat(command: Command) -> None:
    """-cat PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def text(command: Command) -> None:
    """-text PATH ...: the same, and what is packed is unpacked"""
    command.need(1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, unpacked=True)
    sys.stdout.buffer.flush()


def tail(command: Command) -> None:
    """-tail PATH: its last kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, max(0, found.status["length"] - 1024))
    sys.stdout.buffer.flush()


def head(command: Command) -> None:
    """-head PATH: its first kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, 0, 1024)
    sys.stdout.buffer.flush()


def getmerge(command: Command) -> None:
    """-getmerge [-nl] [-skip-empty-file] PATH ... LOCAL: all files one after the other in one"""
    command.need(2)
    *sources, local = command.arguments
    local = local_path(local)
    with command.about(local), open(local, "wb") as file:
        for found in command.found(sources):
            for each in entries(command, found) if found.is_folder else [found]:
                is_skipped = command.has("skip-empty-file") and not each.status["length"]
                if not each.is_folder and not is_skipped:
                    copy_out(command, each, file)
                    file.write(b"\n" if command.has("nl") else b"")


def copy_out(
    command: Command,
    found: Found,
    file: IO[bytes],
    offset: int = 0,
    length: int | None = None,
    *,
    unpacked: bool = False,
) -> None:
    """Copy bytes of a file of the block store to one that is open."""
    if found.is_folder:
        command.failed(f"`{found.shown}': Is a directory")
        return
    with command.about(found.shown):
        pieces = command.web.read(found.path, offset, length)
        for piece in _unpacked(found.path, pieces) if unpacked else pieces:
            file.write(piece)


def _unpacked(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What is in a packed file; any other file as it is."""
    file = io.BufferedReader(_Pieces(pieces), PIECE_BYTES)
    head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    ending = ending_of(path, head)
    try:
        if not head.startswith(GZIP) and (fault := fault_of(path, head)):
            raise NotPacked(fault)
        yield from unpacked(ending, file) if ending else iter(partial(file.read, PIECE_BYTES), b"")
    except NotPacked as error:
        raise OSError(str(error)) from None


class _Pieces(io.RawIOBase):
    """Pieces as a file that is read from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """The next bytes, as many as there are and fit."""
        target = memoryview(buffer)
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
