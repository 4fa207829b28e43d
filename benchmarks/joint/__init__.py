"""Joint with real processes.

    scripts/bench joint                       both parts
    scripts/bench joint.methods               Joint against the paper's baselines, on both clocks
    scripts/bench joint.reservations          what a hundred reservations at once cost

Not here: what its algorithms cost, which ``decisions`` measures.  Open ``methods`` first.
"""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.joint import methods, reservations


def run(quick: bool = False) -> list[Row]:
    """Run both parts."""
    return [*methods.run(quick), *reservations.run(quick)]
