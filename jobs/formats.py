"""Input formats: how a split of a file is read as records.

A record belongs to the split that contains its first byte.  So each record is read exactly once, by
the task of that split, even if the rest of it lies in later blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from railyard.cluster.errors import require
from railyard.cluster.messages import Split
from railyard.jobs.lines import split_lines, without_mark
from railyard.jobs.taskio import BadInput, Buffer, FileReader


class InputFormat(Protocol):
    """Reads records from splits of files."""

    def check(self, path: str, stored_bytes: int) -> None:
        """Raise ``BadInput`` if a file of ``stored_bytes`` cannot have this format."""

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        """Blocks of whole records that together hold all records of the split."""

    def records(self, block: Buffer) -> Iterable[Any]:
        """The records of one block, as they are passed to ``map``."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Text: each line is a record, a ``str`` without its line end (LF or CR LF).

    A byte order mark at the beginning of a file is left out, as Hadoop's LineRecordReader does.
    Bytes that are not valid UTF-8 become lone surrogates, and the same bytes again in the output.
    """

    block_bytes: int = 2**20  #: approximate size of a block

    def check(self, path: str, stored_bytes: int) -> None:
        """Raise ``BadInput`` if the file is empty."""
        if stored_bytes == 0:
            raise BadInput(f"{path}: is empty: need at least one line of text")

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        """The lines that begin in the split, in blocks of about ``block_bytes``."""
        at_beginning = split.stored_offset == 0
        for block in split_lines(file, split, self.block_bytes, any_end=False):
            yield without_mark(block) if at_beginning else block
            at_beginning = False

    def records(self, block: Buffer) -> Iterable[str]:
        """The lines of a block."""
        text = str(block, "utf-8", "surrogateescape")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


@dataclass(frozen=True)
class FixedRecords:
    """Binary records of ``length`` bytes each, without separators; a record is a ``bytes``."""

    length: int
    block_bytes: int = 2**20  #: approximate size of a block

    def __post_init__(self) -> None:
        require(self.length >= 1, "FixedRecords.length", self.length, "at least 1 byte")

    def check(self, path: str, stored_bytes: int) -> None:
        """Raise ``BadInput`` if the file is empty or its last record is cut short."""
        if stored_bytes == 0:
            raise BadInput(f"{path}: is empty: need at least one record of {self.length} bytes")
        over = stored_bytes % self.length
        if over:
            raise BadInput(
                f"{path}: the record at offset {stored_bytes - over} is cut short:"
                f" {over} of {self.length} bytes"
            )

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        """The records that begin in the split, in blocks of about ``block_bytes``.

        Raises ``BadInput`` if the file ends within one of them.
        """
        start = _round_up(split.stored_offset, self.length)
        end = _round_up(split.stored_offset + split.stored_length, self.length)
        if end > file.stored_bytes:
            self.check(split.path, file.stored_bytes)
            end = file.stored_bytes
        step = max(1, self.block_bytes // self.length) * self.length
        for offset in range(start, end, step):
            want = min(step, end - offset)
            data = file.read(offset, want)
            if len(data) < want:
                raise BadInput(f"{split.path}: ends at offset {offset + len(data)}, need {end}")
            yield data

    def records(self, block: Buffer) -> Iterable[bytes]:
        """The records of a block."""
        data, length = bytes(block), self.length
        return [data[at : at + length] for at in range(0, len(data), length)]


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
