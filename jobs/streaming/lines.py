"""Lines of bytes as Hadoop reads them: each ends with LF, CR LF or a lone CR, or with its file.

So do lines of a file, of what a program writes, and of its standard error.  What is handed on ends
with LF alone.

Source: Hadoop's LineReader and LineRecordReader, which also leaves out a byte order mark at the
beginning of a file.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator

from railyard.cluster.messages import Split
from railyard.jobs.taskio import BadInput, Buffer, FileReader

_END = re.compile(rb"\r\n?|\n")
_BLOCK_BYTES = 2**20
#: Bytes of a read that looks for the end of a line.
_TAIL_BYTES = 2**16


class Cutter:
    """Bytes that come in pieces of any size, cut where lines end."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self.waiting_bytes = 0  #: that belong to no whole line yet

    def cut(self, data: bytes) -> bytes:
        """All lines that are whole by now; a CR at the end of ``data`` waits for what follows."""
        at = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1
        if not at:
            self._rest.append(data)
            self.waiting_bytes += len(data)
            return b""
        whole = b"".join([*self._rest, data[:at]])
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


def split_lines(file: FileReader, split: Split) -> Iterator[bytes]:
    """The lines that begin in a split, as they are in the file, in blocks of about 1 MiB.

    CR LF across the end of a split is one end.
    """
    end = min(split.stored_offset + split.stored_length, file.stored_bytes)
    at = _first_line(file, split.stored_offset, end)
    cutter = Cutter()
    while at < end:
        data = bytes(file.read(at, min(_BLOCK_BYTES, end - at)))
        if not data:
            raise BadInput(f"{split.path}: ends at offset {at}, before its length {end}")
        at += len(data)
        if whole := cutter.cut(data):
            yield whole
    if rest := cutter.take_rest():
        yield rest + _rest_of_line(file, end, rest.endswith(b"\r"))


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


def _first_line(file: FileReader, offset: int, end: int) -> int:
    """Where the first line begins at ``offset`` or later; ``end`` or more if it is past that."""
    if offset == 0:
        return 0
    at = offset - 1  # where the end of the line before may be, or the last byte of its end
    while at < end:
        data = bytes(file.read(at, min(_TAIL_BYTES, end - at)))
        if not data:
            return end
        if match := _END.search(data):
            return at + match.end() + len(_lf_after(file, at, data, match.end()))
        at += len(data)
    return end


def _rest_of_line(file: FileReader, at: int, has_cr: bool) -> bytes:
    """The rest of a line from there to its end, of which a CR may be here already."""
    if has_cr:
        return bytes(file.read(at, 1)) if bytes(file.read(at, 1)) == b"\n" else b""
    parts = []
    while data := bytes(file.read(at, _TAIL_BYTES)):
        if match := _END.search(data):
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
