"""Input formats: how a split of a file is read as records.

A record belongs to the split that contains its first byte.  So each record is read exactly once, by
the task of that split, even if the rest of it lies in later blocks.

Lines of bytes are cut in pieces of any size, and in splits.  A job's lines end with LF, and those
of programs with LF, CR LF or a lone CR, as Hadoop reads them; the last line of a file may lack its
end.

Source: Hadoop's LineReader and LineRecordReader, which also leaves out a byte order mark at the
beginning of a file.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from railyard.cluster.errors import require
from railyard.cluster.messages import Split
from railyard.jobs.taskio import BadInput, Buffer, FileReader

_LF, _ANY_END = re.compile(rb"\n"), re.compile(rb"\r\n?|\n")
_TAIL_BYTES = 2**16  #: of a read that searches for the end of a line


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
        if stored_bytes == 0:
            raise BadInput(f"{path}: is empty: need at least one line of text")

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
        at_beginning = split.stored_offset == 0
        for block in split_lines(file, split, self.block_bytes, any_end=False):
            yield without_mark(block) if at_beginning else block
            at_beginning = False

    def records(self, block: Buffer) -> Iterable[str]:
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
        if stored_bytes == 0:
            raise BadInput(f"{path}: is empty: need at least one record of {self.length} bytes")
        over = stored_bytes % self.length
        if over:
            cut = f"is cut short: {over} of {self.length} bytes"
            raise BadInput(f"{path}: the record at offset {stored_bytes - over} {cut}")

    def blocks(self, file: FileReader, split: Split) -> Iterator[Buffer]:
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
        data, length = bytes(block), self.length
        return [data[at : at + length] for at in range(0, len(data), length)]


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


# Lines of bytes ----------------------------------------------------------------------------------
class Cutter:
    """Bytes that come in pieces of any size, cut where lines end; ``any_end``: not by LF alone."""

    def __init__(self, *, any_end: bool = True) -> None:
        self._any_end = any_end
        self._rest: list[bytes] = []
        self.waiting_bytes = 0  #: that belong to no whole line yet

    def cut(self, data: bytes) -> bytes:
        """All lines that are whole by now; a CR at the end of ``data`` waits for what follows."""
        at = data.rfind(b"\n") + 1
        if self._any_end:
            at = max(at, data.rfind(b"\r", at, max(0, len(data) - 1)) + 1)
        if not at:
            self._rest.append(data)
            self.waiting_bytes += len(data)
            return b""
        whole = b"".join([*self._rest, data[:at]]) if self.waiting_bytes else data[:at]
        self._rest = [data[at:]]
        self.waiting_bytes = len(data) - at
        return whole

    def take_rest(self) -> bytes:
        """What follows the last whole line, which nothing more belongs to."""
        rest, self._rest = b"".join(self._rest), []
        self.waiting_bytes = 0
        return rest


def raw_lines(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    """The same bytes in pieces of whole lines; only the last one may lack its end."""
    cutter = Cutter()
    for piece in pieces:
        if whole := cutter.cut(bytes(piece)):
            yield whole
    if rest := cutter.take_rest():
        yield rest


def with_lf(lines: bytes) -> bytes:
    """Whole lines, each with LF alone as its end."""
    if b"\r" in lines:
        lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return lines if lines.endswith(b"\n") else lines + b"\n"


def whole_lines(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    """The lines of what comes in pieces, many at a time, each with LF alone as its end."""
    return map(with_lf, raw_lines(pieces))


def split_lines(
    file: FileReader, split: Split, block_bytes: int = 2**20, *, any_end: bool = True
) -> Iterator[bytes]:
    """The lines that begin in a split, as they are in the file, in blocks of about that size.

    CR LF across the end of a split is one end.
    """
    pattern = _ANY_END if any_end else _LF
    end = min(split.stored_offset + split.stored_length, file.stored_bytes)
    at = _first_line(file, split.stored_offset, end, pattern)
    cutter = Cutter(any_end=any_end)
    while at < end:
        data = bytes(file.read(at, min(block_bytes, end - at)))
        if not data:
            raise BadInput(f"{split.path}: ends at offset {at}, before its length {end}")
        at += len(data)
        if whole := cutter.cut(data):
            yield whole
    if rest := cutter.take_rest():
        yield rest + _rest_of_line(file, end, pattern, any_end and rest.endswith(b"\r"))


def records_of(block: bytes, at: int, delimiter: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """The offset and the text of each line of a block, or of its one record with its delimiter.

    ``at`` is the block's offset in its file; a byte order mark there is no text.
    """
    for raw in [block] if delimiter else block.splitlines(keepends=True):
        text = raw.removesuffix(delimiter) if delimiter else raw.rstrip(b"\r\n")
        yield at, text if at else without_mark(text)
        at += len(raw)


def without_mark(data: bytes) -> bytes:
    """The beginning of a file without its byte order mark."""
    return data.removeprefix(BOM_UTF8)


def _first_line(file: FileReader, offset: int, stop: int, pattern: re.Pattern[bytes]) -> int:
    """Where the first line begins at ``offset`` or later; ``stop`` or more if it is past that."""
    if offset == 0:
        return 0
    at = offset - 1  # where the end of the line before may be, or the last byte of its end
    while at < stop:
        data = bytes(file.read(at, min(_TAIL_BYTES, stop - at)))
        if not data:
            return stop
        if match := pattern.search(data):
            return at + match.end() + len(_lf_after(file, at, data, match.end()))
        at += len(data)
    return stop


def _rest_of_line(file: FileReader, at: int, pattern: re.Pattern[bytes], has_cr: bool) -> bytes:
    """The rest of a line from there to its end, of which a CR may be here already."""
    if has_cr:
        return bytes(file.read(at, 1)) if bytes(file.read(at, 1)) == b"\n" else b""
    parts = []
    while data := bytes(file.read(at, _TAIL_BYTES)):
        if match := pattern.search(data):
            parts += [data[: match.end()], _lf_after(file, at, data, match.end())]
            break
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def _lf_after(file: FileReader, at: int, data: bytes, end: int) -> bytes:
    """The LF behind ``data``, which was read there, if its last byte is the CR of an end."""
    if end < len(data) or data[-1:] != b"\r":
        return b""
    after = bytes(file.read(at + end, 1))
    return after if after == b"\n" else b""
