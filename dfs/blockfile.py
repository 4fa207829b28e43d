"""A block on a node's disk: its bytes, then a checksum for every 64 KiB of them.

    blocks/b17        the bytes; a crc32c (4 bytes, little-endian) for each 64 KiB; "RYC2"
    blocks/b17.part   a block that is still being written; worthless after a crash

The checksums are the writer's (``dfs.checksums``).  What is written is checked against them before
the block gets its name, and what is read before it is handed out.  Files are read into private
memory, never mapped: what changes on the disk meanwhile is an error or makes no difference.

One file rather than two, since making a file costs more than all else that a small block costs.
Whether a block that is complete would outlive a power cut is up to who writes it.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from railyard.cluster.errors import RailyardError
from railyard.cluster.files.bulk import fill, new_buffer, read_range
from railyard.cluster.files.lasting import sync_file, sync_folder
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import NodeId
from railyard.dfs.checksums import (
    CHECKED_BYTES,
    SUM_BYTES,
    CheckedRange,
    WrongChecksum,
    pack_sums,
    piece_starts,
    sums_of,
    unpack_sums,
)
from railyard.dfs.messages import BlockId

_MAGIC = b"RYC2"
#: So much of a block is read and checked at a time: whole pieces, and a chunk of a transfer.
READ_BYTES = 16 * CHECKED_BYTES


def blocks_folder(folder: RunFolder, node: NodeId) -> Path:
    """Where a node's blocks are."""
    return folder.node(node) / "blocks"


class ReplicaError(RailyardError):
    """A replica cannot be read, perhaps only just now: descriptors, memory, a disk that hangs.

    What it is worth is not known; only ``ReplicaDamaged`` says that.
    """


class ReplicaDamaged(ReplicaError):
    """A replica is not what was written: a wrong checksum, cut short, or not there at all."""


class BlockWriter:
    """Writes one block of so many bytes, whose checksums are known.

    Raises ``OSError``, for instance if the disk is full.
    """

    def __init__(self, folder: Path, block: BlockId, length: int, sums: array[int]) -> None:
        self.folder = folder
        self._final = folder / f"b{block}"
        self._part = folder / f"b{block}.part"
        self._file = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._sums = sums
        self._checked = CheckedRange(block, 0, length, sums)
        self._open = True

    def write(self, data: memoryview) -> None:
        """Write the next bytes; ``WrongChecksum`` if they are not those that the writer sent."""
        for right in self._checked.add(data):
            self._write(right)

    def seal(self) -> None:
        """Write the end of the block: all its bytes were written."""
        self._write(memoryview(pack_sums(self._sums) + _MAGIC))

    def publish(self, lasting: bool = False) -> None:
        """Make the sealed block complete.

        ``lasting``: returns once it would outlive a power cut, which takes many milliseconds, and
        may be called in another thread.  An error leaves nothing.
        """
        # Its name before its bytes are on the disk: then both take one commit of the file system,
        # and what a power cut between the two leaves shows by its checksums.
        self._part.rename(self._final)
        try:
            if lasting:
                sync_file(self._file)
                sync_folder(self._final.parent)
        except OSError:
            self._final.unlink(missing_ok=True)
            raise
        finally:
            self._close()

    def withdraw(self) -> None:
        """Remove the block, though it is complete."""
        self._final.unlink(missing_ok=True)

    def abort(self) -> None:
        """Forget the block; nothing happens if it is complete."""
        self._close()
        self._part.unlink(missing_ok=True)

    def _write(self, data: memoryview) -> None:
        while len(data):
            data = data[os.write(self._file, data) :]

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)


def stored_length(file_bytes: int) -> int:
    """How many bytes the block in a file of ``file_bytes`` has; at most 0 if it can't be one."""
    rest = file_bytes - len(_MAGIC)
    return rest - SUM_BYTES * -(-rest // (CHECKED_BYTES + SUM_BYTES))


def replica_length(folder: Path, block: BlockId) -> int:
    """How many bytes a block has, as its file's size says; raises as ``read_verified`` does."""
    path = folder / f"b{block}"
    with _reading(path):
        return stored_length(path.stat().st_size)


class OpenBlock:
    """A complete block, open to be read; deleting it meanwhile makes no difference.

    All methods raise ``ReplicaDamaged`` if the block is not there, too short, or damaged in the
    range that is asked for, and ``ReplicaError`` if that cannot be found out.
    """

    def __init__(self, folder: Path, block: BlockId) -> None:
        self.block = block
        self._path = folder / f"b{block}"
        with _reading(self._path):
            self._file = io.FileIO(self._path, opener=_open_at_once)
        try:
            self.length = stored_length(os.fstat(self._file.fileno()).st_size)
            self._sums = self._read_sums()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> memoryview:
        """A range of the block, in memory of its own."""
        self._require(offset, length)
        pieces = piece_starts(offset, length)
        end = min(pieces[-1] + CHECKED_BYTES, self.length)
        data = self._read_pieces(pieces.start, end - pieces.start)
        return data[offset - pieces.start :][:length]

    def packed_sums(self, offset: int, length: int) -> bytes:
        """The checksums of a range, as they travel.

        Where it begins or ends within a piece, a new one, of only what is in the range.
        """
        self._require(offset, length)
        pieces = piece_starts(offset, length)
        sums = self._sums[pieces.start // CHECKED_BYTES :][: len(pieces)]
        for index in {0, len(pieces) - 1}:
            start = max(pieces[index], offset)
            end = min(pieces[index] + CHECKED_BYTES, offset + length)
            if start % CHECKED_BYTES or end != min(pieces[index] + CHECKED_BYTES, self.length):
                (sums[index],) = sums_of(self.block, [self.read(start, end - start)], start)
        return pack_sums(sums)

    def _require(self, offset: int, length: int) -> None:
        wrong_range = f"{self._path} has {self.length} bytes: no {offset} to {offset + length}"
        if offset < 0 or length <= 0:
            raise ReplicaError(wrong_range)
        if offset + length > self.length:
            raise ReplicaDamaged(wrong_range)

    def _read_pieces(self, start: int, size: int) -> memoryview:
        """Whole pieces, checked."""
        if size <= READ_BYTES:
            with _reading(self._path):
                data = read_range(self._file.fileno(), start, size)
            self._check(start, size, data)
            return data
        buffer = new_buffer(size)
        for at in range(0, size, READ_BYTES):  # so that what is checked is in the processor's cache
            part = buffer[at : at + READ_BYTES]
            with _reading(self._path):
                filled = fill(part, self._file.fileno(), start + at)
            self._check(start + at, len(part), part[:filled])
        return buffer

    def _check(self, start: int, size: int, data: memoryview) -> None:
        if len(data) < size:
            raise ReplicaDamaged(f"{self._path}: cut short at {start + len(data)} bytes")
        pieces = piece_starts(start, size)
        sums = self._sums[start // CHECKED_BYTES :][: len(pieces)]
        try:
            CheckedRange(self.block, start, size, sums).add(data)
        except WrongChecksum as error:
            raise ReplicaDamaged(f"{self._path}: {error}") from None

    def _read_sums(self) -> array[int]:
        if self.length <= 0:
            raise ReplicaDamaged(f"{self._path}: too short to be a block")
        size = SUM_BYTES * len(piece_starts(0, self.length))
        with _reading(self._path):
            tail = read_range(self._file.fileno(), self.length, size + len(_MAGIC))
        end = bytes(tail[size:])
        if end != _MAGIC:
            raise ReplicaDamaged(
                f"{self._path}: its end, {end!r}, is not that of a block, {_MAGIC!r}"
            )
        return unpack_sums(tail[:size], 0, self.length)


def _open_at_once(path: str, flags: int) -> int:
    """Without waiting for a writer, should it be a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Says of an ``OSError`` what it means for the replica."""
    try:
        yield
    except FileNotFoundError as error:
        raise ReplicaDamaged(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None


def read_verified(folder: Path, block: BlockId, offset: int, length: int) -> memoryview:
    """A range of a block, whose checksums hold; raises as ``OpenBlock`` does."""
    with OpenBlock(folder, block) as opened:
        return opened.read(offset, length)
