"""Self-Join: associations of items, joined with themselves."""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import Application, measure

APPLICATION = Application("self-join", "192MB", "17MB", "13.6MB/s")


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes two schedulers."""
    return measure(APPLICATION, quick)
