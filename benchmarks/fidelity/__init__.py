"""Does the emulated network give what the model grants?

    scripts/bench fidelity                    all parts
    scripts/bench fidelity.networks           transfers and nothing else, on six networks
    scripts/bench fidelity.attempts           the shuffle of 1,000 attempts on 60 racks

Not here: whole jobs' times, which ``parity`` compares.  Open ``networks`` first.
"""

from __future__ import annotations

import importlib

from railyard.benchmarks._common.rows import Row

#: A module each.
PARTS = ("networks", "attempts")


def run(quick: bool = False) -> list[Row]:
    """Measure all parts; ``quick`` takes a round or a few attempts of each."""
    rows = []
    for part in PARTS:
        rows += importlib.import_module(f"railyard.benchmarks.fidelity.{part}").run(quick=quick)
    return rows
