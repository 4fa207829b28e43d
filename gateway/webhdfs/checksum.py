"""The checksum of a file as HDFS has it: MD5-of-MD5s-of-CRC32Cs.

A CRC32C for each 512 bytes, an MD5 over those of each block, and an MD5 over these, for which HDFS
takes a buffer of 32, 64, 128 ... bytes with zeros at its end.  Two clusters with blocks of the same
length have the same checksum of the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import crc32c

BYTES_PER_CRC = 512
_MD5_BYTES = 16


class FileChecksum:
    """Takes a file's bytes in order."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._left = block_bytes  #: bytes until the block ends
        self._chunk = bytearray()  #: bytes of the last 512 that have come
        self._block = hashlib.md5(usedforsecurity=False)
        self._blocks: list[bytes] = []

    def take(self, pieces: Iterable[memoryview]) -> None:
        """Take the next bytes."""
        for piece in pieces:
            while len(piece):
                now, piece = piece[: self._left], piece[self._left :]
                self._left -= len(now)
                self._take(now)
                if not self._left:
                    self._end_block()

    def told(self) -> dict[str, Any]:
        """The checksum as WebHDFS tells it: ``bytes`` in hex, with 4 zero bytes at the end."""
        if self._left < self._block_bytes:
            self._end_block()
        per_crc, kind = (BYTES_PER_CRC, "CRC32C") if self._blocks else (0, "CRC32")  # as HDFS does
        per_block = self._block_bytes // BYTES_PER_CRC if len(self._blocks) > 1 else 0
        together = b"".join(self._blocks)
        buffer = 2 * _MD5_BYTES
        while buffer < len(together):
            buffer *= 2
        digest = hashlib.md5(together.ljust(buffer, b"\0"), usedforsecurity=False).digest()
        told = per_crc.to_bytes(4, "big") + per_block.to_bytes(8, "big") + digest
        return {
            "FileChecksum": {
                "algorithm": f"MD5-of-{per_block}MD5-of-{per_crc}{kind}",
                "bytes": told.hex() + "00000000",
                "length": len(told),
            }
        }

    def _take(self, piece: memoryview) -> None:
        if self._chunk:
            need = BYTES_PER_CRC - len(self._chunk)
            self._chunk += piece[:need]
            piece = piece[need:]
            if len(self._chunk) < BYTES_PER_CRC:
                return
            self._sum(memoryview(bytes(self._chunk)))
            self._chunk.clear()
        whole = len(piece) - len(piece) % BYTES_PER_CRC
        self._sum(piece[:whole])
        self._chunk += piece[whole:]

    def _sum(self, data: memoryview) -> None:
        sums = [
            crc32c.crc32c(data[at : at + BYTES_PER_CRC]).to_bytes(4, "big")
            for at in range(0, len(data), BYTES_PER_CRC)
        ]
        self._block.update(b"".join(sums))

    def _end_block(self) -> None:
        self._sum(memoryview(bytes(self._chunk)))
        self._chunk.clear()
        self._blocks.append(self._block.digest())
        self._block = hashlib.md5(usedforsecurity=False)
        self._left = self._block_bytes
