"""Corral's provisioning phase as published (section 4.2): every allocation is tried."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railyard.resourcemanager.schedulers.corral.planner import Problem, Widths, prioritize


def plain_provisioning(problem: Problem) -> Widths:
    """The allocation of the least cost: r_j of each job.  O(J^2 R^2 log R)."""
    best_s, best = np.inf, np.ones(problem.jobs, dtype=np.int64)
    for widths in allocations(problem):
        cost_s = prioritize(problem, widths).cost_s
        if cost_s < best_s:
            best_s, best = cost_s, widths.copy()
    return best


def allocations(problem: Problem) -> Iterator[Widths]:
    """The J (R - 1) + 1 allocations to try: from one rack each, the longest job gets one more.

    The array that is yielded changes into the next.
    """
    widths = np.ones(problem.jobs, dtype=np.int64)
    yield widths
    while (widths < problem.racks).any():
        growing = np.where(widths < problem.racks, problem.lengths_at(widths), -np.inf)
        widths[np.argmax(growing)] += 1
        yield widths
