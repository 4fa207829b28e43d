"""Shadow against delay, KMN and Even with real bytes, and the same in virtual time.

    scripts/bench shadow                      the paper's six applications
    scripts/bench shadow.kmeans               one of them

Not here: what all of them have in common, and what is bounded.  Open ``_applications`` first.
"""

from __future__ import annotations

import importlib

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import copies_row

#: A module each.
APPLICATIONS = (
    *("terasort", "wordcount", "sequencecount"),
    *("invertedindex", "selfjoin", "kmeans"),
)


def run(quick: bool = False) -> list[Row]:
    """Measure all applications; ``quick`` takes two schedulers."""
    rows = []
    for name in APPLICATIONS:
        rows += importlib.import_module(f"railyard.benchmarks.shadow.{name}").run(quick=quick)
    return rows if quick else [*rows, copies_row(rows)]
