"""What the first bytes of a file say: how it is packed, and which program runs it.

As in Hadoop the ending of a packed file's name decides, and a file whose first bytes are of another
format is wrong.  Imports nothing but Python's own library: the commands ``hadoop`` use it, too.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import shlex
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedIOBase
from typing import IO, Any, NamedTuple

_PIECE_BYTES = 2**18
PACKED_HEAD_BYTES = 6  #: of a file, by which ``fault_of`` knows its format
GZIP = b"\x1f\x8b"  #: how such files begin
PROGRAM_HEAD_BYTES = 4096  #: of a file, that ``first_line_fault`` looks at
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LETTERS_MAX = 200


class NotPacked(Exception):
    """A file is not of its format, or is damaged."""


class _Format(NamedTuple):
    name: str
    begins: Callable[[bytes], bool]
    pieces: Callable[[IO[bytes]], Iterator[bytes]]


def _read_by(opened: Callable[[Any], BufferedIOBase]) -> Callable[[IO[bytes]], Iterator[bytes]]:
    def pieces(file: IO[bytes]) -> Iterator[bytes]:
        with opened(file) as unpacked:
            while piece := unpacked.read(_PIECE_BYTES):
                yield piece

    return pieces


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    unpacking = zlib.decompressobj()
    packed = file.read(_PIECE_BYTES)
    while packed and not unpacking.eof:
        yield unpacking.decompress(packed, _PIECE_BYTES)
        packed = unpacking.unconsumed_tail or file.read(_PIECE_BYTES)
    if not unpacking.eof:
        raise EOFError("it ends too early")


def _is_zlib(head: bytes) -> bool:
    return head[0] & 15 == 8 and int.from_bytes(head[:2]) % 31 == 0


_FORMATS = {
    ".gz": _Format("gzip", lambda head: head.startswith(GZIP), _read_by(gzip.open)),
    ".bz2": _Format("bzip2", lambda head: head.startswith(b"BZh"), _read_by(bz2.BZ2File)),
    ".xz": _Format("xz", lambda head: head.startswith(b"\xfd7zXZ\0"), _read_by(lzma.LZMAFile)),
    ".deflate": _Format("zlib", _is_zlib, _inflated),
}
with suppress(ImportError):  # Python 3.14 or later
    _FORMATS[".zst"] = _Format(
        "Zstandard",
        lambda head: head.startswith(b"\x28\xb5\x2f\xfd"),
        _read_by(importlib.import_module("compression.zstd").open),
    )
#: Endings of files that a task unpacks as it reads them, so that none can begin in their middle.
UNPACKED = tuple(_FORMATS)
_REFUSED = tuple({".zst", ".lz4", ".snappy", ".lzo", ".lzo_deflate"} - _FORMATS.keys())


def fault_of(path: str, head: bytes) -> str:
    """What is wrong with a file that begins so, as its name says its format; "" if nothing is."""
    if path.endswith(_REFUSED):
        ending = "." + path.rpartition(".")[2]
        return f"{path}: {ending} can't be unpacked here: need one of {', '.join(UNPACKED)}"
    ending = ending_of(path)
    if not ending or not head or _FORMATS[ending].begins(head):
        return ""
    format_ = _FORMATS[ending].name
    begins = f"it begins with {head!r}"
    return f"{path}: is no {format_} file, {begins}: need another ending than {ending}"


def ending_of(path: str, head: bytes = b"") -> str:
    """The ending by which a file is unpacked, "" if it is not; first bytes of gzip count as .gz."""
    if head.startswith(GZIP):
        return ".gz"
    return next((ending for ending in UNPACKED if path.endswith(ending)), "")


def unpacked(ending: str, file: IO[bytes]) -> Iterator[bytes]:
    """What is in a packed file; ``NotPacked`` if it is damaged."""
    format_ = _FORMATS[ending]
    try:
        yield from format_.pieces(file)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise NotPacked(f"is no sound {format_.name} file: {error}") from None


# Programs of streaming jobs -----------------------------------------------------------------------
def command_words(command: str) -> tuple[str, ...]:
    """The words of a command, as Hadoop splits them; ``ValueError`` for a quote without its end.

    A space ends a word, quotes keep words together, and a backslash is a letter like any other.
    Left open there, chosen here: quotes within a word join, as in a shell.
    """
    words = shlex.shlex(command.strip(), posix=True)
    words.whitespace, words.whitespace_split = " ", True
    words.escape = words.commenters = ""
    return tuple(words)


def first_line_fault(name: str, head: bytes) -> str:
    """Why a file that begins so can't be run, and what to do; "" if that is not to be seen."""
    if head.startswith(_BYTE_ORDER_MARK + b"#!"):
        return f"{name} begins with a byte order mark, before #!: save it as UTF-8 without one"
    if head.startswith(b"#!"):
        line = head.partition(b"\n")[0]
        if not line.endswith(b"\r"):
            return ""
        right = f"need LF alone: sed -i 's/\\r$//' {name}"
        return f"the first line of {name}, #!{_interpreter(line)}, ends in CR LF: {right}"
    if b"\0" in head:
        return ""
    right = f"need #!/usr/bin/env python3, say, or a command such as 'python3 {name}'"
    return f"{name} has no first line with #! and its interpreter: {right}"


def interpreter_of(head: bytes) -> str:
    """The program that the first line of a file says; "" if it says none."""
    line = head.partition(b"\n")[0]
    return _interpreter(line).partition(" ")[0] if line.startswith(b"#!") else ""


def _interpreter(line: bytes) -> str:
    return line[2:].decode(errors="replace").strip()[:_LETTERS_MAX]
