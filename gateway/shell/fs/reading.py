"""Commands that read files: to standard output, or all of them into one local file."""

from __future__ import annotations

import bz2
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import IO, Protocol

from railyard.gateway.shell.addresses import local_path
from railyard.gateway.shell.fs.command import Command, entries
from railyard.gateway.shell.paths import Found

_GZIP = 16 + zlib.MAX_WBITS  #: zlib's word for its header


class _Unpacking(Protocol):
    """What ``zlib`` and ``bz2`` unpack with."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def cat(command: Command) -> None:
    """-cat PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def text(command: Command) -> None:
    """-text PATH ...: the same, and what is packed with gzip or bzip2 is unpacked"""
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
    """What is in a packed file, which may have several parts; any other file as it is."""
    first = next(pieces, b"")
    new = _unpacker(path, first)
    unpacking = None if new is None else new()
    for piece in chain((first,), pieces):
        if new is None or unpacking is None:
            yield piece
            continue
        while piece:
            try:
                yield unpacking.decompress(piece)
            except zlib.error as error:
                raise OSError(f"not in gzip format: {error}") from None
            piece = unpacking.unused_data
            if unpacking.eof:
                unpacking = new()


def _unpacker(path: str, first: bytes) -> Callable[[], _Unpacking] | None:
    if first.startswith(b"\x1f\x8b"):
        return partial(zlib.decompressobj, _GZIP)
    return bz2.BZ2Decompressor if path.endswith(".bz2") else None
