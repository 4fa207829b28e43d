"""The planning problem and the planning heuristics of the paper.

Source: Corral, section 4.1 (the problem) and 4.2: the provisioning phase (how many racks each job
gets) tries allocations, the prioritization phase (which ones, and from when; Fig. 4) costs each.
``quicksearch`` finds the same allocation as ``plain_provisioning`` in less time.
Left open there, chosen here: of jobs equally long or alike, the one with the lowest number; of
allocations equally good, the first; of racks that are free from the same time on, those with the
lowest numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from railyard.resourcemanager.schedulers.corral.latency import Array

#: batch: all jobs arrive at once; the aim is the least makespan.
#: online: each arrives at its own time; the aim is the least average completion time.
Scenario = Literal["batch", "online"]
#: r_j of each job: 1 to R
Widths = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Section 4.1: J jobs, each with its latency on 1 to R racks."""

    scenario: Scenario
    lengths_s: Array  #: [j, r-1] = L'_j(r), the penalty for imbalance included
    arrive_s: Array  #: A_j; all 0 in a batch
    busy_until_s: Array  #: F_i before the first job: until when rack i has work of an earlier plan

    @property
    def jobs(self) -> int:
        """J: number of jobs."""
        return int(self.lengths_s.shape[0])

    @property
    def racks(self) -> int:
        """R: number of racks."""
        return int(self.lengths_s.shape[1])

    def lengths_at(self, widths: Widths) -> Array:
        """L'_j(r_j) of each job, in seconds."""
        lengths: Array = self.lengths_s[np.arange(self.jobs), widths - 1]
        return lengths

    def order(self, widths: Widths) -> list[int]:
        """The jobs as they choose racks: by arrival, then widest first, then longest first."""
        keys = (np.arange(self.jobs), -self.lengths_at(widths), -widths, self.arrive_s)
        order: list[int] = np.lexsort(keys).tolist()
        return order


# The provisioning phase --------------------------------------------------------------------------
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


# The prioritization phase ------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The racks and the start of each job; jobs are numbers."""

    order: list[int]
    racks: dict[int, list[int]]  #: R_j, ascending
    start_s: dict[int, float]  #: T_j
    #: batch: the makespan; online: the sum of all completion times (their average, times J)
    cost_s: float


def prioritize(problem: Problem, widths: Widths) -> Schedule:
    """Fig. 4: jobs in order take the racks that are free first.  O(J R log R)."""
    free_s = problem.busy_until_s.copy()  # F_i
    lengths_s = problem.lengths_at(widths)
    order = problem.order(widths)
    racks: dict[int, list[int]] = {}
    start_s: dict[int, float] = {}
    cost_s = 0.0
    for j in order:
        chosen = np.argsort(free_s, kind="stable")[: widths[j]]
        start_s[j] = float(max(free_s[chosen[-1]], problem.arrive_s[j]))
        racks[j] = sorted(chosen.tolist())
        end_s = start_s[j] + float(lengths_s[j])
        free_s[chosen] = end_s
        if problem.scenario == "batch":
            cost_s = max(cost_s, end_s)
        else:
            cost_s += end_s - float(problem.arrive_s[j])
    return Schedule(order=order, racks=racks, start_s=start_s, cost_s=cost_s)
