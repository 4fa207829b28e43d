"""Changing at most k sites (Tetrium, 4.2): how far the heuristic is above the optimum.

The optimum is that of all sets of k sites.
"""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.placement._problems import TOLERANCE, nearest, random_change
from railyard.resourcemanager.schedulers.tetrium import placement

CASES, CASES_QUICK = 10_000, 1_000


def run(quick: bool = False) -> list[Row]:
    """Compare; ``quick`` takes a tenth of the cases."""
    cases = CASES_QUICK if quick else CASES
    above, worst = 0, 1.0
    for seed in range(cases):
        before, ideal, k_sites = random_change(seed)
        best = nearest(before, ideal, k_sites)
        found = placement.distance(placement.changed_at(before, ideal, k_sites), ideal)
        if found > best + TOLERANCE:
            above, worst = above + 1, max(worst, found / best)
    return [
        bench_row(
            f"changing k sites: assignments of {cases} further from the ideal than need be",
            100 * above / cases,
            "%",
            note=f"at most {worst:.2f} times as far as the best of all, 2 to 7 sites",
        )
    ]
