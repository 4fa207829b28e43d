"""A block on a node's disk: its bytes, and a checksum for every 64 KiB of them.

    blocks/b17        the bytes
    blocks/b17.sums   "RYC1", then a crc32c (4 bytes, little-endian) for each 64 KiB
    blocks/b17.part   a block that is still being written; worthless after a crash

The bytes get their final name after the checksums are there.  No fsync: a block that a power cut
damages is found by its checksums, and other nodes have it.
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
    """A replica cannot be read: it is not there, cut short, or not what was written."""


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
        while len(data):
            data = data[os.write(self._file, data) :]

    def finish(self) -> None:
        """Make the block complete."""
        if self._summed:
            self._sums.append(self._sum)
        if sys.byteorder == "big":
            self._sums.byteswap()
        self._close()
        sums_file(self._final).write_bytes(_MAGIC + self._sums.tobytes())
        self._part.rename(self._final)

    def abort(self) -> None:
        """Forget the block; nothing happens if it is complete."""
        self._close()
        self._part.unlink(missing_ok=True)

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


def sums_file(block_file: Path) -> Path:
    """Where the checksums of a block are."""
    return block_file.with_name(f"{block_file.name}.sums")


def read_verified(folder: Path, block: BlockId, offset: int, length: int) -> memoryview:
    """A range of a block, whose checksums hold, without copying it.

    Raises ``ReplicaError`` if the block is not there, too short, or damaged in that range.
    """
    path = folder / f"b{block}"
    first = offset // CHECKED_BYTES
    try:
        sums = _read_sums(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if offset < 0 or length <= 0 or offset + length > size:
                raise ReplicaError(f"{path} has {size} bytes: no {offset} to {offset + length}")
            start = first * CHECKED_BYTES
            end = min(-(-(offset + length) // CHECKED_BYTES) * CHECKED_BYTES, size)
            # Checking touches every page at once, so let the kernel map them all at once.
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            mapped = mmap.mmap(
                file.fileno(), end - start, flags=flags, prot=mmap.PROT_READ, offset=start
            )
    except OSError as error:
        raise ReplicaError(f"{path}: {error.strerror}") from None
    view = memoryview(mapped)
    if len(sums) != -(-size // CHECKED_BYTES):
        raise ReplicaError(f"{path} has {size} bytes, but {len(sums)} checksums")
    for index, at in enumerate(range(0, len(view), CHECKED_BYTES), first):
        if crc32c(view[at : at + CHECKED_BYTES]) != sums[index]:
            raise ReplicaError(f"{path}: wrong checksum at {index * CHECKED_BYTES}")
    return view[offset - start : offset - start + length]


def _read_sums(path: Path) -> array[int]:
    content = sums_file(path).read_bytes()
    if content[:4] != _MAGIC or len(content) % 4:
        raise ReplicaError(f"{sums_file(path)} holds no checksums")
    sums = array("I", content[4:])
    if sys.byteorder == "big":
        sums.byteswap()
    return sums
