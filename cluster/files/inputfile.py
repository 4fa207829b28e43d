"""Reading a file that a person named: an ordinary one, of a size that makes sense.

A pipe or a device may never end, or never begin; such a file is refused before a byte is read.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.cluster.shown import printable, words_of
from railyard.cluster.units import format_size

#: Far above any trace that was published.
_BYTES_MAX = 2**30


def read_file(path: Path, bytes_max: int = _BYTES_MAX) -> bytes:
    """All bytes of an ordinary file; raises ``UsageError`` for what is none, or cannot be read."""
    name = printable(str(path))
    try:
        # A pipe that nobody writes to would keep a plain open waiting.
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
            return file.read(bytes_max)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a null byte in its name
        raise UsageError(f"{name}: cannot be read: {words_of(error)}") from None


def read_text_file(path: Path, what: str, encoding: str = "utf-8") -> str:
    """The same as text; ``what`` it should be goes into the error: "SWIM trace"."""
    try:
        return read_file(path).decode(encoding)
    except UnicodeDecodeError:
        right = f"text in {encoding.upper()}"
        raise UsageError(f"{printable(str(path))}: is no {what}: need {right}") from None


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises ``UsageError``."""
    try:
        return json.loads(read_text_file(path, "JSON"))
    except ValueError as error:
        why = words_of(error)
    except RecursionError:
        why = "its lists and objects are nested too deeply"
    raise UsageError(f"{printable(str(path))}: is no JSON: {why}")
