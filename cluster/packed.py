"""Packed files: which ending of a name says which format, and what is in such a file.

As in Hadoop the ending decides, and a file whose first bytes are of another format is wrong.
Imports nothing but Python's own library: ``hadoop fs -text`` reads files by it, too.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedIOBase
from typing import IO, Any, NamedTuple

_PIECE_BYTES = 2**18
#: Bytes of a file's beginning by which ``fault_of`` knows its format.
HEAD_BYTES = 6


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


def _gzip_file(file: IO[bytes]) -> BufferedIOBase:
    return gzip.GzipFile(fileobj=file)


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


#: How files of gzip begin.
GZIP = b"\x1f\x8b"
_FORMATS = {
    ".gz": _Format("gzip", lambda head: head.startswith(GZIP), _read_by(_gzip_file)),
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
_REFUSED = tuple(
    ending
    for ending in (".zst", ".lz4", ".snappy", ".lzo", ".lzo_deflate")
    if ending not in _FORMATS
)


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
