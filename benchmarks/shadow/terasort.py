"""TeraSort: records of 100 bytes, sorted."""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import Application, measure

APPLICATION = Application("terasort", "192MB", "16MB", "12.8MB/s")


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes two schedulers."""
    return measure(APPLICATION, quick)
