"""Ranked-Inverted-Index: documents by how often they have three words in a row."""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import Application, measure

APPLICATION = Application("ranked-inverted-index", "192MB", "17MB", "13.6MB/s")


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes two schedulers."""
    return measure(APPLICATION, quick)
