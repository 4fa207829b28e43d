"""WordCount without a combiner: each word is shipped."""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.shadow._applications import Application, measure

APPLICATION = Application("wordcount,param.combined=false", "80MB", "6.7MB", "5.36MB/s")


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes two schedulers."""
    return measure(APPLICATION, quick)
