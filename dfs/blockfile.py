"""A block on a node's disk: its bytes, then a checksum for every 64 KiB of them.

    blocks/b17        the bytes; a crc32c (4 bytes, little-endian) for each 64 KiB; "RYC2"
    blocks/b17.part   a block that is still being written; worthless after a crash

The checksums are the writer's (``dfs.checksums``).  Bytes are checked against them before the block
gets its final name, and again on every read.  Files are read into private memory, never mapped: a
change on the disk meanwhile is an error or makes no difference.

Data and checksums share one file, since creating a file is the largest cost of a small block.
Whether a complete block survives a power cut depends on how it was published.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from railyard.cluster.errors import RailyardError
from railyard.cluster.files.bulk import fill, new_buffer, read_range
from railyard.cluster.files.lasting import opened_folder, sync_file, sync_folder
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
from railyard.dfs.messages.blocks import BlockId

_MAGIC = b"RYC2"
#: Bytes of a block that are read and checked at a time: whole pieces, and a chunk of a transfer.
READ_BYTES = 16 * CHECKED_BYTES


def blocks_folder(folder: RunFolder, node: NodeId) -> Path:
    """The folder with a node's block files."""
    return folder.node(node) / "blocks"


def block_name(block: BlockId) -> str:
    """The name of a block's file.

    Blocks' files are not named by ``pathlib``, which interns each name that it is given: Python's
    table of interned strings is the supervisor's, shared by all daemons, until its room is used up
    and a process makes one of its own, of 2 MB.
    """
    return f"b{block}"


def remove_file(folder: Path, name: str) -> None:
    """Remove a file, which need not exist; raises ``OSError``."""
    with suppress(FileNotFoundError), opened_folder(folder) as opened:
        os.unlink(name, dir_fd=opened)


class ReplicaError(RailyardError):
    """A replica cannot be read, perhaps only for now: no descriptors, no memory, a hanging disk.

    Says nothing about the replica itself; ``ReplicaDamaged`` does.
    """


class ReplicaDamaged(ReplicaError):
    """A replica differs from what was written: wrong checksum, truncated, or missing."""


class BlockWriter:
    """Writes one block with a known length in bytes and known checksums.

    Raises ``OSError``, for instance if the disk is full.
    """

    def __init__(self, folder: Path, block: BlockId, length: int, sums: array[int]) -> None:
        self.folder = folder
        self._final = block_name(block)
        self._part = f"{self._final}.part"
        self._file = os.open(f"{folder}/{self._part}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._sums = sums
        self._checked = CheckedRange(block, 0, length, sums)
        self._open = True

    def write(self, data: memoryview) -> None:
        """Write the next bytes; raises ``WrongChecksum`` if they do not match the checksums."""
        for right in self._checked.add(data):
            self._write(right)

    def seal(self) -> None:
        """Write the checksums and the magic number, after all bytes of the block."""
        self._write(memoryview(pack_sums(self._sums) + _MAGIC))

    def publish(self, lasting: bool = False) -> None:
        """Rename the sealed block to its final name.

        With ``lasting`` it is synced to the disk first, which takes many milliseconds and may be
        done in another thread.  After an error nothing is left of the block.
        """
        # Rename before syncing: both then take one commit of the file system, and a block torn by
        # a power cut between the two is detected by its checksums.
        with opened_folder(self.folder) as opened:
            os.rename(self._part, self._final, src_dir_fd=opened, dst_dir_fd=opened)
        try:
            if lasting:
                sync_file(self._file)
                sync_folder(self.folder)
        except OSError:
            self._close()  # first: to remove it takes a descriptor
            remove_file(self.folder, self._final)
            raise
        finally:
            self._close()

    def withdraw(self) -> None:
        """Remove the block although it is complete."""
        remove_file(self.folder, self._final)

    def abort(self) -> None:
        """Discard the block; does nothing if it is complete."""
        self._close()
        remove_file(self.folder, self._part)

    def _write(self, data: memoryview) -> None:
        while len(data):
            data = data[os.write(self._file, data) :]

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)


def stored_length(file_bytes: int) -> int:
    """Length in bytes of the block in a file of ``file_bytes``; <= 0 if the file is too short."""
    rest = file_bytes - len(_MAGIC)
    return rest - SUM_BYTES * -(-rest // (CHECKED_BYTES + SUM_BYTES))


def replica_length(folder: Path, block: BlockId) -> int:
    """Length of a block in bytes, from its file's size; raises as ``read_verified`` does."""
    name = block_name(block)
    with _reading(f"{folder}/{name}"), opened_folder(folder) as opened:
        return stored_length(os.stat(name, dir_fd=opened).st_size)


class OpenBlock:
    """A complete block that is open for reading; it stays readable if it is deleted meanwhile.

    All methods raise ``ReplicaDamaged`` if the block is missing, too short, or damaged in the
    requested range, and ``ReplicaError`` if that cannot be determined.
    """

    def __init__(self, folder: Path, block: BlockId) -> None:
        self.block = block
        self._path = f"{folder}/{block_name(block)}"
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
        """Read and verify a range of the block, into private memory."""
        self._require(offset, length)
        pieces = piece_starts(offset, length)
        end = min(pieces[-1] + CHECKED_BYTES, self.length)
        data = self._read_pieces(pieces.start, end - pieces.start)
        return data[offset - pieces.start :][:length]

    def packed_sums(self, offset: int, length: int) -> bytes:
        """The checksums of a range in wire format.

        If the range begins or ends within a piece, that piece's checksum is computed anew, for only
        the bytes within the range.
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
        """Read and verify ``size`` bytes from ``start`` on: whole pieces."""
        if size <= READ_BYTES:
            with _reading(self._path):
                data = read_range(self._file.fileno(), start, size)
            self._check(start, size, data)
            return data
        buffer = new_buffer(size)
        for at in range(0, size, READ_BYTES):  # checked while in the CPU cache
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
    """Open without blocking, should the file be a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn an ``OSError`` into ``ReplicaDamaged`` or ``ReplicaError``."""
    try:
        yield
    except FileNotFoundError as error:
        raise ReplicaDamaged(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None


def read_verified(folder: Path, block: BlockId, offset: int, length: int) -> memoryview:
    """Read and verify a range of a block; raises as ``OpenBlock`` does."""
    with OpenBlock(folder, block) as opened:
        return opened.read(offset, length)
