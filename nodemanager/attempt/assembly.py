"""Takes the one stream of a fetch apart into map outputs."""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from railyard.cluster.files.bulk import new_buffer
from railyard.nodemanager.messages import OutputPart


class Assembly:
    """Puts together the parts of a stream, which comes in pieces of any size, and checks them.

    ``seeds`` are what the parts' checksums start from.
    """

    def __init__(self, expected: Sequence[OutputPart], seeds: Sequence[int]) -> None:
        self._expected = expected
        self._seeds = seeds
        self._checksums: list[int] = []  #: of the complete parts
        self.parts: list[memoryview] = []
        self._buffer = memoryview(b"")  #: the part that is not complete
        self._filled = 0  #: its bytes that are here
        self._checksum = 0  #: of those
        self._begin_part()

    def add(self, data: memoryview) -> None:
        """Take the next bytes; a part that is whole within them is not copied."""
        while len(data):
            size = self._expected[len(self.parts)].stored_bytes
            piece = data[: size - self._filled]
            data = data[len(piece) :]
            self._checksum = crc32c(piece, self._checksum)
            if len(piece) == size:
                self._complete(piece)
                continue
            if self._filled == 0:
                self._buffer = new_buffer(size)
            self._buffer[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            if self._filled == size:
                self._complete(self._buffer)

    def damaged(self) -> list[int]:
        """Numbers of the parts whose checksum is wrong; to be called when all have come."""
        pairs = zip(self._checksums, self._expected, strict=True)
        return [number for number, (got, part) in enumerate(pairs) if got != part.checksum]

    def _complete(self, part: memoryview) -> None:
        self.parts.append(part)
        self._checksums.append(self._checksum)
        self._buffer, self._filled = memoryview(b""), 0
        self._begin_part()

    def _begin_part(self) -> None:
        """Get ready for the next part; those without bytes are complete, as nothing will come."""
        number = len(self.parts)
        while number < len(self._expected) and self._expected[number].stored_bytes == 0:
            self.parts.append(memoryview(b""))
            self._checksums.append(self._seeds[number])
            number += 1
        self._checksum = self._seeds[number] if number < len(self._seeds) else 0
