"""Checksums of blocks: a crc32c for each 64 KiB, from whoever writes a block to whoever reads it.

The writer makes them.  They travel with the block's bytes, are stored beside them, and travel with
them again, so that each hand on the way checks what it got, and the reader what it got in the end.
They start from the block's id: the bytes of one block in another's place do not pass.

Never here: files and sockets.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from railyard.cluster.errors import PeerError, RailyardError
from railyard.dfs.messages import BlockId

#: What one checksum is of; whoever wants a few bytes has to read and check at least this much.
CHECKED_BYTES = 2**16
SUM_BYTES = 4


class WrongChecksum(RailyardError):
    """Bytes of a block are not those that were written."""


def block_seed(block: BlockId) -> int:
    """What the checksums of a block start from."""
    return int(crc32c(block.to_bytes(8, "little")))


def piece_starts(offset: int, length: int) -> range:
    """Where those pieces of a block begin that a range of it touches."""
    return range(offset - offset % CHECKED_BYTES, offset + length, CHECKED_BYTES)


def sums_of(block: BlockId, data: Sequence[memoryview], offset: int = 0) -> array[int]:
    """The checksums of a whole block, or of a range of it."""
    running = RunningSums(block, offset, sum(map(len, data)))
    return array("I", (piece_sum for view in data for _, piece_sum in running.ended(view)))


def pack_sums(sums: array[int]) -> bytes:
    """As they lie on disks and travel: 4 bytes each, little-endian."""
    return _little_endian(sums[:]).tobytes()


def unpack_sums(packed: bytes | memoryview | None, offset: int, length: int) -> array[int]:
    """The checksums of the pieces of a range; ``PeerError`` if these are not as many."""
    size = 0 if packed is None else len(packed)
    need = SUM_BYTES * len(piece_starts(offset, length))
    if packed is None or size != need:
        raise PeerError(f"{size} bytes of checksums: need {need} for {length} bytes of a block")
    return _little_endian(array("I", bytes(packed)))


class RunningSums:
    """Sums up a range of a block as its bytes come, in views of any size.

    Of a piece that the range begins or ends within, only what is in the range counts.
    """

    def __init__(self, block: BlockId, offset: int, length: int) -> None:
        self._seed = self._sum = block_seed(block)
        self._at = offset
        self._end = offset + length

    def ended(self, data: memoryview) -> Iterator[tuple[int, int]]:
        """Add the next bytes.  Yields where in ``data`` pieces end, and the checksum of each."""
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
    """Lets those bytes of a range through whose checksums are right, and keeps the others back."""

    def __init__(self, block: BlockId, offset: int, length: int, sums: array[int]) -> None:
        self._block = block
        self._running = RunningSums(block, offset, length)
        self._left = zip(piece_starts(offset, length), sums, strict=True)
        self._waiting: list[memoryview] = []  #: the bytes of the piece that is not whole yet

    def add(self, data: memoryview) -> list[memoryview]:
        """Take the next bytes; those, and of those before, that are now known to be right.

        Without copies.  Raises ``WrongChecksum``; nothing must be added after that.
        """
        right = 0  #: how many bytes of ``data`` are in whole pieces
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
    """From this machine's byte order, or to it."""
    if sys.byteorder == "big":
        sums.byteswap()
    return sums
