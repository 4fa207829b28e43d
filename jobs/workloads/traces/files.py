"""Reads the file of a trace; if it is missing, errors say how to get the public ones."""

from __future__ import annotations

from pathlib import Path

from railyard.cluster.errors import UsageError
from railyard.cluster.files.inputfile import read_text_file

#: How to get traces, for errors.
HOW_TO_GET = "railyard workloads fetch puts the public traces into $RAILYARD_TRACES, or ./traces"


def read_trace(path: Path, what: str) -> str:
    """The text of a trace in ASCII; ``what`` names its kind in errors: "SWIM trace".

    Raises ``UsageError`` for a file that is missing or can't be read.
    """
    try:
        return read_text_file(path, what, "ascii")
    except UsageError as error:
        if path.exists():
            raise
        raise UsageError(f"{error}: {HOW_TO_GET}") from None
