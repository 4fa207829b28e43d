"""The provisioning phase: how many racks each job gets.

Source: Corral, section 4.2: all jobs begin with one rack; the longest job that has less than R gets
one more, until all have R; each allocation on the way is tried, and the best is kept.  Left open
there, chosen here: of jobs equally long, that with the lowest number; of allocations equally good,
the first.

``plain_provisioning`` is that, step by step.  ``Path`` is the same way, computed at once: what the
quick search (``quicksearch``) looks for the best allocation on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railyard.resourcemanager.schedulers.corral.latency import Array
from railyard.resourcemanager.schedulers.corral.prioritization import Problem, Widths, prioritize


def plain_provisioning(problem: Problem) -> Widths:
    """The best allocation: r_j of each job.  O(J^2 R^2 log R)."""
    best_s, best = np.inf, np.ones(problem.jobs, dtype=np.int64)
    for widths in allocations(problem):
        cost_s = prioritize(problem, widths).cost_s
        if cost_s < best_s:
            best_s, best = cost_s, widths.copy()
    return best


def allocations(problem: Problem) -> Iterator[Widths]:
    """The J (R - 1) + 1 allocations that are tried; each is changed into the next."""
    widths = np.ones(problem.jobs, dtype=np.int64)
    yield widths
    while (widths < problem.racks).any():
        growing = np.where(widths < problem.racks, problem.lengths_at(widths), -np.inf)
        widths[np.argmax(growing)] += 1
        yield widths


class Path:
    """The allocations in their order, number 0 being one rack each.

    At each step the longest job that can grow does.  A job that got longer by it is the longest
    again, so what matters of a step from r racks to r + 1 is the shortest that the job has been
    with up to r racks: steps come in descending order of that.
    """

    def __init__(self, problem: Problem) -> None:
        self._jobs, racks = problem.jobs, problem.racks
        self.shortest_s: Array = np.minimum.accumulate(problem.lengths_s, axis=1)
        job = np.repeat(np.arange(self._jobs), racks - 1)
        width = np.tile(np.arange(1, racks), self._jobs)
        steps = np.lexsort((width, job, -self.shortest_s[:, :-1].ravel()))
        self.job = job[steps]  #: which job grows in each step
        self.width = width[steps]  #: from how many racks
        self._marks = [np.ones(self._jobs, dtype=np.int64)]  #: r_j each so many steps
        for begin in range(0, len(steps), _MARK_EVERY):
            grown = self.job[begin : begin + _MARK_EVERY]
            self._marks.append(self._marks[-1] + np.bincount(grown, minlength=self._jobs))

    def __len__(self) -> int:
        """How many allocations there are."""
        return len(self.job) + 1

    def widths(self, number: int) -> Widths:
        """r_j in the allocation of that number."""
        mark = number // _MARK_EVERY
        grown = self.job[mark * _MARK_EVERY : number]
        widths: Widths = self._marks[mark] + np.bincount(grown, minlength=self._jobs)
        return widths


_MARK_EVERY = 256
