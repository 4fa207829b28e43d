"""The prioritization phase: given how many racks each job gets, which ones, and from when.

Source: Corral, section 4.2 and Fig. 4.  Left open there, chosen here: of racks that are free from
the same time on, and of jobs alike, those with the lowest numbers first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from railyard.resourcemanager.schedulers.corral.latency import Array

#: batch: all jobs come at once, and the last should end early (makespan).
#: online: each has its time to come, and they should end soon after it (average completion time).
Scenario = Literal["batch", "online"]
#: r_j of each job: 1 to R
Widths = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The planning problem of section 4.1."""

    scenario: Scenario
    lengths_s: Array  #: [j, r-1] = L'_j(r), the penalty for imbalance included
    arrive_s: Array  #: A_j; all 0 in a batch
    busy_until_s: Array  #: F_i before the first job: what racks still do of an earlier plan

    @property
    def jobs(self) -> int:
        """J."""
        return int(self.lengths_s.shape[0])

    @property
    def racks(self) -> int:
        """R."""
        return int(self.lengths_s.shape[1])

    def lengths_at(self, widths: Widths) -> Array:
        """L'_j(r_j) of each job."""
        lengths: Array = self.lengths_s[np.arange(self.jobs), widths - 1]
        return lengths

    def order(self, widths: Widths) -> list[int]:
        """The jobs as they choose racks: as they come, then widest first, then longest first."""
        keys = (np.arange(self.jobs), -self.lengths_at(widths), -widths, self.arrive_s)
        order: list[int] = np.lexsort(keys).tolist()
        return order


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What the phase gives each job, by its number."""

    order: list[int]
    racks: dict[int, list[int]]  #: R_j, ascending
    start_s: dict[int, float]  #: T_j
    #: batch: the makespan; online: the sum of all completion times (their average, times J)
    cost_s: float


def prioritize(problem: Problem, widths: Widths) -> Schedule:
    """Fig. 4.  O(J R log R)."""
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
