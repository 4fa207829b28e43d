"""Checksums of blocks: a crc32c for each 64 KiB, end to end from writer to reader.

The writer computes them.  They are sent and stored with the block's bytes and sent again to the
reader, and every process on the way verifies them.  They are seeded with the block's id, so the
bytes of one block in another's place do not pass.

Never here: files and sockets.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from railyard.cluster.errors import PeerError, RailyardError
from railyard.dfs.messages.blocks import BlockId

#: Bytes of a piece, which has one checksum: a read of a few bytes reads and checks at least these.
CHECKED_BYTES = 2**16
SUM_BYTES = 4


class WrongChecksum(RailyardError):
    """Bytes of a block differ from those that were written."""


def block_seed(block: BlockId) -> int:
    """The initial crc32c value for all checksums of a block."""
    return int(crc32c(block.to_bytes(8, "little")))


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
    """Computes the checksums of a range of a block as its bytes come, in views of any size.

    Of a piece at the range's ends, only the bytes within the range count.
    """

    def __init__(self, block: BlockId, offset: int, length: int) -> None:
        self._seed = self._sum = block_seed(block)
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
        """Add the next bytes; return all bytes that are newly verified, as views without copies.

        Raises ``WrongChecksum``; nothing may be added after that.
        """
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
