"""What does virtual time cost, and what do coarse simulations save?

    scripts/bench simulator                   all parts
    scripts/bench simulator.speed             CPU and memory of whole simulations, and how they grow
    scripts/bench simulator.coarse            how far off coarse simulations are

Not here: the network's loops alone, which ``fabric`` and ``coflows`` measure.
Open ``speed`` first.
"""

from __future__ import annotations

import importlib

from railyard.benchmarks._common.rows import Row

#: A module each.
PARTS = ("speed", "coarse")


def run(quick: bool = False) -> list[Row]:
    """Measure all parts; ``quick`` takes fewer and smaller simulations."""
    rows = []
    for part in PARTS:
        rows += importlib.import_module(f"railyard.benchmarks.simulator.{part}").run(quick=quick)
    return rows
