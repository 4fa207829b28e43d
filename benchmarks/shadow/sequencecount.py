"""Sequence-Count: three words in a row, by document."""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import Application, measure

APPLICATION = Application("sequence-count", "64MB", "5.4MB", "4.32MB/s")


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes two schedulers."""
    return measure(APPLICATION, quick)
