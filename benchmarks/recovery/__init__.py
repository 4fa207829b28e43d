"""How long a cluster takes to recover from kills while jobs run, and whether it stays small.

    scripts/bench recovery [--quick]          kills of each kind, with times of recovery
    scripts/bench recovery.soak               half an hour of jobs with a fault every 5 s
    python -m railyard.benchmarks.recovery kills --each 20 --seed 2
    python -m railyard.benchmarks.recovery soak --minutes 10

Not here: how faults are done, which is ``railyard/chaos``.
Open ``kills`` first.
"""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.recovery import kills


def run(quick: bool = False) -> list[Row]:
    """Kill; the soak, which takes half an hour, is run by its own name."""
    return kills.run(quick=quick)
