"""Where benchmarks find the public traces, which are no part of this project."""

from __future__ import annotations

import os
from pathlib import Path

from railyard.cluster.errors import UsageError

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def trace_file(name: str) -> Path:
    """A trace by its path below the folder of traces; raises ``UsageError`` if it is not there."""
    path = Path(os.environ.get("RAILYARD_TRACES", _BESIDE)) / name
    if not path.is_file():
        right = "railyard workloads fetch, and set RAILYARD_TRACES to its folder"
        raise UsageError(f"{path}: no such file: {right}")
    return path
