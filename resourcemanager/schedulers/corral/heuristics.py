"""The planning problem and the planning heuristics of the paper.

Source: Corral, section 4.1 (the problem) and 4.2: the provisioning phase (how many racks each job
gets) tries allocations, the prioritization phase (which ones, and from when; Fig. 4) costs each.

``quick_provisioning`` gives the same answer as ``plain_provisioning`` without trying all
allocations: bounds say which can't be better than one that was tried.  Two things make it quick:

* A job starts no earlier than the one before it in the order: the racks that it leaves out are
  free later than those that it takes.  So a heap of running jobs stands for the racks' F_i, and an
  allocation is tried in O(J log J), whatever R.
* Bounds.  Batch: makespan >= the longest job, all work / R, the jobs wider than R/2 one after the
  other.  Online: see ``_Online.bound``.

Left open there, chosen here: of jobs equally long or alike, the one with the lowest number; of
allocations equally good, the first; of racks that are free from the same time on, those with the
lowest numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers

#: batch: all jobs arrive at once; the aim is the least makespan.
#: online: each arrives at its own time; the aim is the least average completion time.
Scenario = Literal["batch", "online"]
#: r_j of each job: 1 to R
Widths = Numbers


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Section 4.1: J jobs, each with its latency on 1 to R racks."""

    scenario: Scenario
    lengths_s: Floats  #: [j, r-1] = L'_j(r), the penalty for imbalance included
    arrive_s: Floats  #: A_j; all 0 in a batch
    busy_until_s: Floats  #: F_i before the first job: until when rack i has work of an earlier plan

    @property
    def jobs(self) -> int:
        """J: number of jobs."""
        return int(self.lengths_s.shape[0])

    @property
    def racks(self) -> int:
        """R: number of racks."""
        return int(self.lengths_s.shape[1])

    def lengths_at(self, widths: Widths) -> Floats:
        """L'_j(r_j) of each job, in seconds."""
        lengths: Floats = self.lengths_s[np.arange(self.jobs), widths - 1]
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


# The quick search ---------------------------------------------------------------------------------
#: a bound is a sum in another order than the cost, so it may differ by rounding
_ROUNDING = 1 - 1e-9


def quick_provisioning(problem: Problem) -> Widths:
    """The best allocation: r_j of each job, as ``plain_provisioning`` finds it."""
    path = Path(problem)
    batch = problem.scenario == "batch"
    return path.widths(_best_of_batch(problem, path) if batch else _Online(problem, path).best())


class Path:
    """The allocations of ``allocations``, computed at once; number 0 is one rack each.

    At each step the longest job that can grow does.  A job that got longer by it is the longest
    again, so what matters of a step from r racks to r + 1 is the shortest that the job has been
    with up to r racks: steps come in descending order of that.
    """

    def __init__(self, problem: Problem) -> None:
        self._jobs, racks = problem.jobs, problem.racks
        self.shortest_s: Floats = np.minimum.accumulate(problem.lengths_s, axis=1)
        job = np.repeat(np.arange(self._jobs), racks - 1)
        width = np.tile(np.arange(1, racks), self._jobs)
        steps = np.lexsort((width, job, -self.shortest_s[:, :-1].ravel()))
        self.job = job[steps]  #: which job grows in each step
        self.width = width[steps]  #: from how many racks

    def __len__(self) -> int:
        return len(self.job) + 1

    def widths(self, number: int) -> Widths:
        """r_j in the allocation of that number."""
        widths: Widths = 1 + np.bincount(self.job[:number], minlength=self._jobs)
        return widths


def _best_of_batch(problem: Problem, path: Path) -> int:
    """The number of the best allocation: they are tried by ascending bound until none can win."""
    bounds_s = _batch_bounds(problem, path)
    best_s, best = math.inf, 0
    for number in np.argsort(bounds_s, kind="stable").tolist():
        if bounds_s[number] > best_s:
            break
        widths = path.widths(number)
        lengths_s = problem.lengths_at(widths)
        cost_s = _cost_s(problem, problem.order(widths), widths, lengths_s, widths, best_s)
        best_s, best = min((best_s, best), (cost_s, number))
    return best


def _batch_bounds(problem: Problem, path: Path) -> Floats:
    """Of each allocation, a lower bound of its makespan, in seconds."""
    racks = np.arange(1, problem.racks + 1)
    work = _along(path, problem.lengths_s * racks)
    alone_s = _along(path, problem.lengths_s * (2 * racks > problem.racks))
    # The longest: it grows next, unless it has all racks already.
    next_s = np.append(problem.lengths_s[path.job, path.width - 1], 0.0)
    full_s = np.where(path.width == problem.racks - 1, problem.lengths_s[path.job, -1], 0.0)
    longest_s = np.maximum(next_s, np.maximum.accumulate(np.append(0.0, full_s)))
    bounds: Floats = np.maximum(np.maximum(work / problem.racks, alone_s), longest_s) * _ROUNDING
    return bounds


def _along(path: Path, values: Floats) -> Floats:
    """The sum over all jobs of values[j, r_j - 1], for each allocation."""
    steps: Floats = values[path.job, path.width] - values[path.job, path.width - 1]
    sums: Floats = np.cumsum(np.append(values[:, 0].sum(), steps))
    return sums


def _cost_s(
    problem: Problem,
    order: list[int],
    widths: Widths,
    lengths_s: Floats,
    held_racks: Widths,
    limit_s: float = math.inf,
) -> float:
    """The cost as ``prioritize`` has it, in seconds; infinite if a job ends after ``limit_s``.

    ``held_racks``: how many racks each job takes from others.
    """
    busy = [(until_s, 1) for until_s in problem.busy_until_s.tolist() if until_s > 0]
    heapify(busy)  # (until when, how many racks)
    free, now_s, cost_s = problem.racks - len(busy), 0.0, 0.0
    batch = problem.scenario == "batch"
    columns = (problem.arrive_s, lengths_s, widths, held_racks)
    for come_s, length_s, racks, held in zip(*(c[order].tolist() for c in columns), strict=True):
        now_s = max(now_s, come_s)
        while busy and busy[0][0] <= now_s:
            free += heappop(busy)[1]
        while free < racks:
            now_s, count = heappop(busy)
            free += count
        end_s = now_s + length_s
        if end_s > limit_s:
            return math.inf
        cost_s = max(cost_s, end_s) if batch else cost_s + (end_s - come_s)
        if held:
            free -= held
            heappush(busy, (end_s, held))
    return cost_s


class _Online:
    """Best first: the range of allocations with the least bound is halved, until it is one."""

    def __init__(self, problem: Problem, path: Path) -> None:
        self._problem = problem
        self._path = path
        self._all = np.arange(problem.jobs)
        _, self._group = np.unique(problem.arrive_s, return_inverse=True)

    def best(self) -> int:
        last = len(self._path) - 1
        ranges = [(self.bound(0, last), 0, last)]
        while True:
            _, first, last = heappop(ranges)
            if first == last:
                return first
            middle = (first + last) // 2
            for part in ((first, middle), (middle + 1, last)):
                heappush(ranges, (self.bound(*part), *part))

    def bound(self, first: int, last: int) -> float:
        """A lower bound of the cost of a range of allocations; the cost itself, if it is only one.

        As long as the order stays, fewer racks for a job and a shorter time let no job start later
        (all F_i, sorted, get no later).  So it is the cost with the range's least numbers of racks,
        which are those of its first, and the least times up to its last.  The sums are the same
        sums with smaller terms, so this holds for floats too.
        """
        widths = self._path.widths(first)
        if first == last:
            lengths_s = self._problem.lengths_at(widths)
            return _cost_s(self._problem, self._problem.order(widths), widths, lengths_s, widths)
        most = self._path.widths(last)
        lengths_s = self._path.shortest_s[self._all, most - 1]
        order, held = self._relaxed_order(widths, most)
        return _cost_s(self._problem, order, widths, lengths_s, held)

    def _relaxed_order(self, widths: Widths, most: Widths) -> tuple[list[int], Widths]:
        """An order for a range of allocations, and how many racks each job takes from others.

        Jobs that come at the same time may change places where one of them grows.  None of them
        starts before it could if it were the first, and together they leave no more than any one
        of them does: so only the widest, as the last, takes its racks.
        """
        grows = np.bincount(self._group, weights=most > widths)[self._group] > 0
        sort_by = np.where(grows, widths, -widths)
        keys = (-self._problem.lengths_at(widths), sort_by, self._problem.arrive_s)
        order = np.lexsort((self._all, *keys))
        is_last = np.append(np.diff(self._group[order]) > 0, True)
        held = widths.copy()
        held[order[grows[order] & ~is_last]] = 0
        return order.tolist(), held
