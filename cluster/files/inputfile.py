"""Reads input files named by a user: only regular files of a sensible size.

A read of a pipe or a device may block for ever or never end; both are refused before reading.
The mark that editors put before UTF-8 is no part of what a file says, and is left out; the one
before UTF-16 is refused, whatever the file is.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.cluster.shown import printable, words_of
from railyard.cluster.units import format_size

#: Maximum size of an input file, far above that of any published trace.
_BYTES_MAX = 2**30


def read_file(path: Path, bytes_max: int = _BYTES_MAX) -> bytes:
    """Read a regular file without its byte order mark.

    Raises ``UsageError`` for any other file, for UTF-16, and if reading fails.
    """
    name = printable(str(path))
    try:
        # Opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise UsageError(f"{name}: cannot be read: Is a directory")
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{name}: is a pipe or a device: need an ordinary file")
            if status.st_size > bytes_max:
                most = f"at most {format_size(bytes_max)}"
                raise UsageError(f"{name}: has {format_size(status.st_size)}: need {most}")
            data = file.read(bytes_max)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a null byte in its name
        raise UsageError(f"{name}: cannot be read: {words_of(error)}") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{name}: begins with the byte order mark of UTF-16: need UTF-8")
    return data.removeprefix(codecs.BOM_UTF8)


def read_text_file(path: Path, what: str, encoding: str = "utf-8") -> str:
    """As ``read_file``, decoded; ``what`` names the kind of file in the error: "SWIM trace"."""
    try:
        return read_file(path).decode(encoding)
    except UnicodeDecodeError:
        right = f"text in {encoding.upper()}"
        raise UsageError(f"{printable(str(path))}: is no {what}: need {right}") from None


def read_json(path: Path) -> Any:
    """Read and parse a JSON file; raises ``UsageError``."""
    try:
        return json.loads(read_text_file(path, "JSON"))
    except ValueError as error:
        why = words_of(error)
    except RecursionError:
        why = "its lists and objects are nested too deeply"
    raise UsageError(f"{printable(str(path))}: is no JSON: {why}")
