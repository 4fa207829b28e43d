"""Reads the rows of a ``network.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.errors import UsageError
from railyard.cluster.files.inputfile import read_text_file

T = TypeVar("T")


def read_rows(path: Path, take: Callable[[dict[str, Any]], T | None]) -> list[T]:
    """What ``take`` makes of each row, but for None; nothing if there is no such file.

    Raises ``UsageError`` for what is no such record.
    """
    if not path.is_file():
        return []
    try:
        rows = map(json.loads, read_text_file(path, "record of the network").splitlines())
        return [taken for row in rows if (taken := take(row)) is not None]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: is no record of the network: {what}") from None
