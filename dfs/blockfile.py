"""A block on a node's disk: its bytes, then a checksum for every 64 KiB of them.

    blocks/b17        the bytes; a crc32c (4 bytes, little-endian) for each 64 KiB; "RYC1"
    blocks/b17.part   a block that is still being written; worthless after a crash

One file rather than two, since making a file costs more than all else that a small block costs.
No fsync: a block that a power cut damages is found by its checksums, and other nodes have it.
"""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from pathlib import Path

from crc32c import crc32c

from cluster.errors import RailyardError
from cluster.ids import NodeId
from cluster.runfolder import RunFolder
from dfs.messages import BlockId

#: A reader of a few bytes has to read and check at least this much.
CHECKED_BYTES = 2**16
_MAGIC = b"RYC1"


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
    """Writes one block.  Raises ``OSError``, for instance if the disk is full."""

    def __init__(self, folder: Path, block: BlockId) -> None:
        self._final = folder / f"b{block}"
        self._part = folder / f"b{block}.part"
        self._file = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._sums = array("I")
        self._sum = 0  #: of the bytes since the last whole 64 KiB
        self._summed = 0  #: how many those are
        self._open = True

    def write(self, data: memoryview) -> None:
        """Write the next bytes."""
        self._add_sums(data)
        self._write(data)

    def finish(self) -> None:
        """Make the block complete."""
        if self._summed:
            self._sums.append(self._sum)
        self._write(memoryview(_little_endian(self._sums).tobytes() + _MAGIC))
        self._close()
        self._part.rename(self._final)

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

    def _add_sums(self, data: memoryview) -> None:
        start = 0
        while start < len(data):
            piece = data[start : start + CHECKED_BYTES - self._summed]
            self._sum = crc32c(piece, self._sum)
            self._summed += len(piece)
            start += len(piece)
            if self._summed == CHECKED_BYTES:
                self._sums.append(self._sum)
                self._sum = self._summed = 0


def stored_length(file_bytes: int) -> int:
    """How many bytes the block in a file of ``file_bytes`` has; at most 0 if it can't be one."""
    rest = file_bytes - len(_MAGIC)
    return rest - 4 * -(-rest // (CHECKED_BYTES + 4))


def replica_length(folder: Path, block: BlockId) -> int:
    """How many bytes a block has, as its file's size says; raises as ``read_verified`` does."""
    path = folder / f"b{block}"
    try:
        return stored_length(path.stat().st_size)
    except FileNotFoundError as error:
        raise ReplicaDamaged(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None


def read_verified(folder: Path, block: BlockId, offset: int, length: int) -> memoryview:
    """A range of a block, whose checksums hold, without copying it.

    Raises ``ReplicaDamaged`` if the block is not there, too short, or damaged in that range, and
    ``ReplicaError`` if that cannot be found out.
    """
    path = folder / f"b{block}"
    try:
        with path.open("rb", buffering=0) as file:
            size = stored_length(os.fstat(file.fileno()).st_size)
            wrong_range = f"{path} has {size} bytes: no {offset} to {offset + length}"
            if offset < 0 or length <= 0:
                raise ReplicaError(wrong_range)
            if offset + length > size:
                raise ReplicaDamaged(wrong_range)
            first = offset // CHECKED_BYTES
            start = first * CHECKED_BYTES
            end = min(-(-(offset + length) // CHECKED_BYTES) * CHECKED_BYTES, size)
            sums = _read_sums(path, file.fileno(), size)
            # Checking touches every page at once, so let the kernel map them all at once.
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            mapped = mmap.mmap(
                file.fileno(), end - start, flags=flags, prot=mmap.PROT_READ, offset=start
            )
    except FileNotFoundError as error:
        raise ReplicaDamaged(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None
    view = memoryview(mapped)
    for index, at in enumerate(range(0, len(view), CHECKED_BYTES), first):
        if crc32c(view[at : at + CHECKED_BYTES]) != sums[index]:
            raise ReplicaDamaged(f"{path}: wrong checksum at {index * CHECKED_BYTES}")
    return view[offset - start : offset - start + length]


def _read_sums(path: Path, file: int, size: int) -> array[int]:
    count = -(-size // CHECKED_BYTES)
    tail = os.pread(file, 4 * count + len(_MAGIC), size)
    if tail[4 * count :] != _MAGIC:
        raise ReplicaDamaged(f"{path}: its end is not that of a block")
    return _little_endian(array("I", tail[: 4 * count]))


def _little_endian(sums: array[int]) -> array[int]:
    """From this machine's byte order, or to it."""
    if sys.byteorder == "big":
        sums.byteswap()
    return sums
