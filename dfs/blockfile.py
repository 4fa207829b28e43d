"""A block on a node's disk, and its checksums, a crc32c for every 64 KiB, from writer to reader.

    blocks/b17        the bytes; a crc32c (4 bytes, little-endian) for each 64 KiB; "RYC2"
    blocks/b17.part   a block that is still being written; worthless after a crash

The writer computes the checksums.  They are sent and stored with the block's bytes and sent again
to the reader; every process on the way verifies them, before a block gets its final name and on
every read.  They are seeded with the block's id, so the bytes of another block do not pass.  Files
are read into private memory, never mapped.

Data and checksums share one file, since creating a file is the largest cost of a small block.
Whether a complete block survives a power cut depends on how it was published.
"""

from __future__ import annotations

import io
import os
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from crc32c import crc32c

from railyard.cluster.errors import PeerError, RailyardError
from railyard.cluster.files import (
    fill,
    new_buffer,
    opened_folder,
    read_range,
    sync_file,
    sync_folder,
)
from railyard.cluster.ids import NodeId
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import BlockId

#: Bytes of a piece, which has one checksum: a read of a few bytes reads and checks at least these.
CHECKED_BYTES = 2**16
SUM_BYTES = 4
_MAGIC = b"RYC2"
#: Bytes of a block that are read and checked at a time: whole pieces, and a chunk of a transfer.
READ_BYTES = 16 * CHECKED_BYTES


class WrongChecksum(RailyardError):
    """Bytes of a block differ from those that were written."""


def piece_starts(offset: int, length: int) -> range:
    """Offsets in the block of the pieces that overlap a range."""
    return range(offset - offset % CHECKED_BYTES, offset + length, CHECKED_BYTES)


def sums_of(block: BlockId, data: Sequence[memoryview], offset: int = 0) -> array[int]:
    """The checksums of ``data``, one per piece: a whole block, or its bytes from ``offset`` on."""
    running = RunningSums(block, offset, sum(map(len, data)))
    return array("I", (piece_sum for view in data for _, piece_sum in running.ended(view)))


def pack_sums(sums: array[int]) -> bytes:
    """Encode checksums for disk and wire: 4 bytes each, little-endian."""
    return _little_endian(sums[:]).tobytes()


def unpack_sums(packed: bytes | memoryview | None, offset: int, length: int) -> array[int]:
    """Decode the checksums of a range; raises ``PeerError`` unless there is one per piece."""
    size = 0 if packed is None else len(packed)
    need = SUM_BYTES * len(piece_starts(offset, length))
    if packed is None or size != need:
        raise PeerError(f"{size} bytes of checksums: need {need} for {length} bytes of a block")
    return _little_endian(array("I", bytes(packed)))


class RunningSums:
    """Computes the checksums of a range of a block, of whose pieces it may have only a part."""

    def __init__(self, block: BlockId, offset: int, length: int) -> None:
        self._seed = self._sum = int(crc32c(block.to_bytes(8, "little")))
        self._at = offset
        self._end = offset + length

    def ended(self, data: memoryview) -> Iterator[tuple[int, int]]:
        """Add the next bytes; yield (end in ``data``, checksum) of each completed piece."""
        start = 0
        while start < len(data):
            assert self._at < self._end, "more bytes than the range has"
            piece_end = min(self._at - self._at % CHECKED_BYTES + CHECKED_BYTES, self._end)
            stop = min(start + piece_end - self._at, len(data))
            self._sum = crc32c(data[start:stop], self._sum)
            self._at += stop - start
            start = stop
            if self._at == piece_end:
                yield stop, self._sum
                self._sum = self._seed


class CheckedRange:
    """Passes on the bytes of a range once their piece's checksum has been verified."""

    def __init__(self, block: BlockId, offset: int, length: int, sums: array[int]) -> None:
        self._block = block
        self._running = RunningSums(block, offset, length)
        self._left = zip(piece_starts(offset, length), sums, strict=True)
        self._waiting: list[memoryview] = []  #: bytes of the incomplete piece

    def add(self, data: memoryview) -> list[memoryview]:
        """Add the next bytes; return those newly verified, as views; ``WrongChecksum`` ends it."""
        right = 0  #: bytes of ``data`` in complete pieces
        for end, got in self._running.ended(data):
            start, wanted = next(self._left)
            if got != wanted:
                raise WrongChecksum(f"block {self._block}: wrong checksum at {start}")
            right = end
        if not right:
            self._waiting.append(data)
            return []
        let_through = [*self._waiting, data[:right]]
        self._waiting = [data[right:]] if right < len(data) else []
        return let_through


def _little_endian(sums: array[int]) -> array[int]:
    """Swap bytes between this machine's byte order and little-endian."""
    if sys.byteorder == "big":
        sums.byteswap()
    return sums


# Files --------------------------------------------------------------------------------------------
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
    """A replica cannot be read, perhaps only for now: no descriptors, say, or a hanging disk."""


class ReplicaDamaged(ReplicaError):
    """A replica differs from what was written: wrong checksum, truncated, or missing."""


class BlockWriter:
    """Writes one block with a known length in bytes and known checksums; raises ``OSError``."""

    def __init__(self, folder: Path, block: BlockId, length: int, sums: array[int]) -> None:
        self.folder = folder
        self._final = block_name(block)
        self._part = f"{self._final}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._file = io.FileIO(os.open(f"{folder}/{self._part}", flags, 0o600), "w")
        self._sums = sums
        self._checked = CheckedRange(block, 0, length, sums)

    def write(self, data: memoryview) -> None:
        for right in self._checked.add(data):
            self._write(right)

    def seal(self) -> None:
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
                sync_file(self._file.fileno())
                sync_folder(self.folder)
        except OSError:
            self._file.close()  # first: to remove it takes a descriptor
            remove_file(self.folder, self._final)
            raise
        finally:
            self._file.close()

    def withdraw(self) -> None:
        """Remove the block although it is complete."""
        remove_file(self.folder, self._final)

    def abort(self) -> None:
        self._file.close()
        remove_file(self.folder, self._part)

    def _write(self, data: memoryview) -> None:
        while len(data):
            data = data[self._file.write(data) :]


def stored_length(file_bytes: int) -> int:
    """Length in bytes of the block in a file of ``file_bytes``; <= 0 if the file is too short."""
    rest = file_bytes - len(_MAGIC)
    return rest - SUM_BYTES * -(-rest // (CHECKED_BYTES + SUM_BYTES))


class OpenBlock:
    """A complete block that is open for reading; it stays readable if it is deleted meanwhile.

    All methods raise ``ReplicaDamaged`` if the block is missing, too short, or damaged in the
    requested range, and ``ReplicaError`` if that cannot be determined.
    """

    def __init__(self, folder: Path, block: BlockId) -> None:
        self.block = block
        self._path = f"{folder}/{block_name(block)}"
        with reading(self._path):
            # without blocking, should the file be a pipe without a writer
            self._file = io.FileIO(self._path, opener=lambda p, f: os.open(p, f | os.O_NONBLOCK))
        try:
            self.length = stored_length(os.fstat(self._file.fileno()).st_size)
            self._sums = self._read_sums()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> memoryview:
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
            with reading(self._path):
                data = read_range(self._file.fileno(), start, size)
            self._check(start, size, data)
            return data
        buffer = new_buffer(size)
        for at in range(0, size, READ_BYTES):  # checked while in the CPU cache
            part = buffer[at : at + READ_BYTES]
            with reading(self._path):
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
        with reading(self._path):
            tail = read_range(self._file.fileno(), self.length, size + len(_MAGIC))
        end = bytes(tail[size:])
        if end != _MAGIC:
            why = f"its end, {end!r}, is not that of a block, {_MAGIC!r}"
            raise ReplicaDamaged(f"{self._path}: {why}")
        return unpack_sums(tail[:size], 0, self.length)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn an ``OSError`` into ``ReplicaDamaged`` or ``ReplicaError``."""
    try:
        yield
    except FileNotFoundError as error:
        raise ReplicaDamaged(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None
