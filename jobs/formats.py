"""How the bytes of a file become records, wherever the file was cut into splits.

A record belongs to the split in which its first byte lies: each record is read exactly once, by
the task of that split, even if its other bytes lie in later blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from railyard.cluster.errors import require
from railyard.cluster.messages.execution import Split
from railyard.jobs.taskio import BadInput, Buffer, FileReader

#: How much is read beyond a split at a time while looking for the end of its last line.
_TAIL_BYTES = 64 * 2**10


class InputFormat(Protocol):
    """Cuts files into records."""

    def check(self, path: str, stored_bytes: int) -> None:
        """Raise ``BadInput`` if a file of that length can't be in this format."""
        ...

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        """The split's records, many whole ones at a time."""
        ...

    def records(self, block: Buffer) -> Iterable[Any]:
        """The records of one of ``blocks``, as a mapper gets them."""
        ...


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Text: each line is a record, a ``str`` without its line end (LF or CR LF).

    Bytes that are no UTF-8 come as lone surrogates and become the same bytes again on output.
    """

    block_bytes: int = 2**20  #: about how much is handled at a time

    def check(self, path: str, stored_bytes: int) -> None:
        """Raise ``BadInput`` if the file is empty."""
        if stored_bytes == 0:
            raise BadInput(f"{path}: is empty: need at least one line of text")

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        """The lines that begin in the split, in pieces of about ``block_bytes``."""
        end = min(split.stored_offset + split.stored_length, file.stored_bytes)
        start = _first_line(file, split.stored_offset, end)
        unfinished: list[Buffer] = []  # the beginning of a line whose end was not read yet
        while start < end:
            data = memoryview(file.read(start, min(self.block_bytes, end - start)))
            if not data:
                raise BadInput(f"{split.path}: ends at offset {start}, before its length {end}")
            start += len(data)
            cut = _after_last_newline(data)
            if cut:
                yield b"".join([*unfinished, data[:cut]]) if unfinished else data[:cut]
                unfinished.clear()
            if cut < len(data):
                unfinished.append(data[cut:])
        if unfinished:
            yield b"".join([*unfinished, *_rest_of_line(file, end)])

    def records(self, block: Buffer) -> Iterable[str]:
        """The lines of a block."""
        text = str(block, "utf-8", "surrogateescape")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


@dataclass(frozen=True)
class FixedRecords:
    """Binary records of ``length`` bytes each, one after the other; a record is a ``bytes``."""

    length: int
    block_bytes: int = 2**20  #: about how much is handled at a time

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
        """The records that begin in the split, in pieces of about ``block_bytes``.

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


def _first_line(file: FileReader, offset: int, end: int) -> int:
    """Where the first line that begins at ``offset`` or later begins; ``end`` if that is past."""
    if offset == 0:
        return 0
    at = offset - 1  # a newline right before the split ends the previous split's last line
    while at < end:
        data = bytes(file.read(at, min(_TAIL_BYTES, end - at)))
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not data:
            return end
        at += len(data)
    return end


def _rest_of_line(file: FileReader, offset: int) -> Iterator[bytes]:
    """What is left, from ``offset`` on, of the line that is not finished there."""
    while offset < file.stored_bytes:
        data = bytes(file.read(offset, _TAIL_BYTES))
        found = data.find(b"\n")
        if found >= 0:
            yield data[: found + 1]
            return
        if not data:
            return
        yield data
        offset += len(data)


def _after_last_newline(data: memoryview) -> int:
    """One past the last newline; 0 if there is none.  Looks backwards, a bit at a time."""
    stop = len(data)
    while stop:
        begin = max(0, stop - _TAIL_BYTES)
        found = bytes(data[begin:stop]).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        stop = begin
    return 0


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
