"""The offline planner: {R_j, p_j, T_j} for all jobs that are known ahead, and a plan as a file.

Source: Corral, section 3.1; section 4.1, the problem; 4.2, its heuristics: the provisioning phase
(how many racks each job gets) tries allocations, the prioritization phase (which ones, and from
when; Fig. 4) costs each; appendix A, bounds of any plan's cost.  Response functions: ``latency``.

``quick_provisioning`` gives the same answer as ``plain_provisioning`` without trying all
allocations: bounds say which can't be better than one that was tried.  Two things make it quick:

* A job starts no earlier than the one before it in the order: the racks that it leaves out are
  free later than those that it takes.  So a heap of running jobs stands for the racks' F_i, and an
  allocation is tried in O(J log J), whatever R.
* Bounds.  Batch: makespan >= the longest job, all work / R, the jobs wider than R/2 one after the
  other.  Online: see ``_Online.bound``.

Left open there, chosen here: of jobs equally long or alike, the one with the lowest number; of
allocations equally good, the first; of racks that are free at the same time, those with the lowest
numbers.  The penalty counts in all that is planned, lengths too; a plan has the time without, too.

The file is TOML, a line for each job, in the order of their priorities:

    { name = "w1-17", priority = 1, start_s = 0.0, ..., racks = ["r0", "r3"] },

A person may write or change one; a plan that makes no sense is refused when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from railyard.cluster.errors import UsageError, require
from railyard.cluster.ids import RackId, rack_id
from railyard.cluster.inputfile import build, read_toml
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.schedulers.corral.latency import (
    JobProfile,
    PlanOptions,
    RackCluster,
    imbalance_s,
    job_s,
)

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
    path = AllocationPath(problem)
    batch = problem.scenario == "batch"
    return path.widths(_best_of_batch(problem, path) if batch else _Online(problem, path).best())


class AllocationPath:
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


def _best_of_batch(problem: Problem, path: AllocationPath) -> int:
    """The number of the best allocation: they are tried by ascending bound until none can win."""
    racks, lengths_s = np.arange(1, problem.racks + 1), problem.lengths_s
    work = _along(path, lengths_s * racks)
    alone_s = _along(path, lengths_s * (2 * racks > problem.racks))
    # The longest: it grows next, unless it has all racks already.
    next_s = np.append(lengths_s[path.job, path.width - 1], 0.0)
    full_s = np.where(path.width == problem.racks - 1, lengths_s[path.job, -1], 0.0)
    longest_s = np.maximum(next_s, np.maximum.accumulate(np.append(0.0, full_s)))
    bounds_s = np.maximum(np.maximum(work / problem.racks, alone_s), longest_s) * _ROUNDING
    best_s, best = math.inf, 0
    for number in np.argsort(bounds_s, kind="stable").tolist():
        if bounds_s[number] > best_s:
            break
        widths = path.widths(number)
        order, at_s = problem.order(widths), problem.lengths_at(widths)
        cost_s = _cost_s(problem, order, widths, at_s, widths, best_s)
        best_s, best = min((best_s, best), (cost_s, number))
    return best


def _along(path: AllocationPath, values: Floats) -> Floats:
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
    # Rack-seconds up to the limit, less the work: more must not be left idle.
    spare = limit_s * problem.racks - float(lengths_s @ widths) * _ROUNDING
    columns = (problem.arrive_s, lengths_s, widths, held_racks)
    for come_s, length_s, racks, held in zip(*(c[order].tolist() for c in columns), strict=True):
        now_s = max(now_s, come_s)
        while busy and busy[0][0] <= now_s:
            free += heappop(busy)[1]
        while free < racks:
            then_s, count = heappop(busy)
            spare -= free * (then_s - now_s)
            now_s = then_s
            free += count
        end_s = now_s + length_s
        if spare < 0 or end_s > limit_s:
            return math.inf
        cost_s = max(cost_s, end_s) if batch else cost_s + (end_s - come_s)
        if held:
            free -= held
            heappush(busy, (end_s, held))
    return cost_s


class _Online:
    """Best first: the range of allocations with the least bound is halved, until it is one."""

    def __init__(self, problem: Problem, path: AllocationPath) -> None:
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


# Lower bounds (appendix A) ------------------------------------------------------------------------
# LP-Batch is the paper's; it is solved by HiGHS, which is imported when needed.  The paper omits
# LP-Online; here is a bound of our own, from the same problem: racks have a price that changes over
# time (Lagrangean relaxation of "no more than R at once").  Neither is used for planning.
def lp_batch(problem: Problem) -> float:
    """LP-Batch (1)-(5): a lower bound of the makespan, in seconds."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    lengths_s, (jobs, racks) = problem.lengths_s, problem.lengths_s.shape
    # Columns: x_jr, job by job, then T.
    x = np.arange(jobs * racks)
    job = np.repeat(np.arange(jobs), racks)
    work = (lengths_s * np.arange(1, racks + 1)).ravel()
    once = coo_array((np.ones(x.size), (job, x)), shape=(jobs, x.size + 1))  # (2)
    rows = np.concatenate((job, np.arange(jobs), np.full(x.size, jobs), [jobs]))
    columns = np.concatenate((x, np.full(jobs, x.size), x, [x.size]))
    values = np.concatenate((lengths_s.ravel(), np.full(jobs, -1.0), work, [-float(racks)]))
    below = coo_array((values, (rows, columns)), shape=(jobs + 1, x.size + 1))  # (3), (4)
    solved = linprog(
        c=np.append(np.zeros(x.size), 1.0),
        A_ub=below.tocsr(),
        b_ub=np.zeros(jobs + 1),
        A_eq=once.tocsr(),
        b_eq=np.ones(jobs),
        method="highs-ds",
    )
    if not solved.success:
        raise ArithmeticError(f"LP-Batch of {jobs} jobs on {racks} racks: {solved.message}")
    return float(solved.fun)


def online_bound(
    problem: Problem, known_s: float, until_s: float, intervals: int = 100, rounds: int = 400
) -> float:
    """A lower bound of the average completion time, in seconds.

    A rack costs a price y(t) >= 0 a second, the same throughout an interval; a job that runs on r
    racks from s pays for them.  Let each job choose s and r for itself, so that waiting, running
    and racks together cost it least.  Then the sum over all jobs, less what R racks earn all the
    time, is no more than the best plan's cost, since that plan rents no more than R racks at once.
    It holds for any prices; good ones are raised where too many racks are used (Polyak's steps).

    ``known_s`` is the average that some plan has and ``until_s`` its end: prices are 0 later.
    """
    edges_s, racks = np.linspace(0.0, until_s, intervals + 1), np.arange(1.0, problem.racks + 1)
    lengths_s, come_s = problem.lengths_s[:, :, None], problem.arrive_s[:, None, None]
    # A job's cost is linear in s between those s where it begins or ends on an edge.
    begin_s = np.broadcast_to(edges_s, (*problem.lengths_s.shape, intervals + 1))
    starts_s = np.concatenate((come_s + 0 * lengths_s, begin_s, begin_s - lengths_s), axis=2)
    starts_s = np.maximum(starts_s, come_s)
    ends_s = starts_s + lengths_s
    busy_s = np.minimum(problem.busy_until_s[:, None], edges_s).sum(axis=0)
    offered = problem.racks * np.diff(edges_s) - np.diff(busy_s)

    def answer(y: Floats) -> tuple[float, Floats]:
        """The bound of the summed completion times, and by interval the rack-seconds beyond R."""
        paid = np.append(0.0, np.cumsum(y * np.diff(edges_s)))  # by one rack, since 0
        rent = np.interp(ends_s, edges_s, paid) - np.interp(starts_s, edges_s, paid)
        cost_s = ends_s - come_s + racks[:, None] * rent
        choice = cost_s.reshape(problem.jobs, -1).argmin(axis=1)
        width, start = np.divmod(choice, cost_s.shape[2])
        chosen = (np.arange(problem.jobs), width, start)
        begun, ended = (
            np.clip(at_s[chosen][:, None], edges_s[:-1], edges_s[1:]) for at_s in (starts_s, ends_s)
        )
        demanded: Floats = racks[width] @ (ended - begun) - offered
        return float(cost_s[chosen].sum() - y @ offered), demanded

    best_s, pace, stuck = -np.inf, 1.0, 0
    y = np.zeros(intervals)
    for _ in range(rounds):
        bound_s, demanded = answer(y)
        if bound_s > best_s:
            best_s, best_y, stuck = bound_s, y, 0
        else:
            stuck += 1
        if stuck == 8:  # the steps are too long
            pace, stuck, y = pace / 2, 0, best_y
            continue
        # Where nothing is paid, nothing can be taken off.
        excess = np.where((y <= 0) & (demanded < 0), 0.0, demanded)
        length = float(excess @ excess)
        if length == 0 or pace < 1e-3:
            break
        missing_s = max(known_s * problem.jobs - bound_s, 0.0)
        y = np.maximum(0.0, y + pace * missing_s / length * excess)
    return best_s / problem.jobs


# A plan, and its file -----------------------------------------------------------------------------
class PlannedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job of a plan; times are seconds from the workload's beginning."""

    name: str
    racks: tuple[RackId, ...]  #: R_j
    priority: int  #: p_j: 1 goes first
    arrive_s: float = 0.0  #: A_j; 0 in a batch
    start_s: float = 0.0  #: T_j
    planned_s: float = 0.0  #: L'_j: planned duration, penalty for imbalance included
    latency_s: float = 0.0  #: L_j: planned duration without the penalty

    @property
    def end_s(self) -> float:
        return self.start_s + self.planned_s


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """{R_j, p_j, T_j} of all jobs that are known ahead."""

    scenario: Scenario
    racks: int  #: R: the cluster has r0 to r(R-1)
    workload: str = ""  #: where the jobs are from
    topology: str = ""
    jobs: tuple[PlannedJob, ...]

    def __post_init__(self) -> None:
        known = {rack_id(number) for number in range(self.racks)}
        names: set[str] = set()
        priorities: set[int] = set()
        for job in self.jobs:
            where = f"job {job.name}"
            require(job.name not in names, "job", job.name, "a name that no other job has")
            names.add(job.name)
            right = "a number that no other job has"
            require(job.priority not in priorities, f"{where}: priority", job.priority, right)
            priorities.add(job.priority)
            right = f"racks of r0 to r{self.racks - 1}, each once"
            sound = bool(job.racks) and known.issuperset(job.racks)
            once = len(set(job.racks)) == len(job.racks)
            require(sound and once, f"{where}: racks", list(job.racks), right)

    @property
    def makespan_s(self) -> float:
        return max((job.end_s for job in self.jobs), default=0.0)

    @property
    def completion_s(self) -> float:
        """The mean over all jobs of planned end - arrival, in seconds."""
        return sum(job.end_s - job.arrive_s for job in self.jobs) / max(1, len(self.jobs))


#: the fields of a job in the file
_IN_ORDER = ("name", "priority", "arrive_s", "start_s", "planned_s", "latency_s", "racks")


def load_plan(path: Path) -> Plan:
    """Read a plan; raises ``UsageError``, one line, if it is wrong."""
    return build(read_toml(path), Plan, str(path))


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan; raises ``UsageError`` if the file can't be written."""
    try:
        path.write_text(as_toml(plan), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def as_toml(plan: Plan) -> str:
    """The text of a plan's file."""
    makespan, average = f"{plan.makespan_s:.3f} s", f"{plan.completion_s:.3f} s"
    lines = [
        f"# Corral's plan: {len(plan.jobs)} jobs on {plan.racks} racks.",
        f"# Planned: makespan {makespan}; from arrival to completion {average} on average.",
        "# racks = R_j, priority = p_j (1 goes first), start_s = T_j, planned_s = L_j(r_j) with",
        "# the penalty for data out of balance, latency_s = without.",
        f"scenario = {_toml(plan.scenario)}",
        f"racks = {plan.racks}",
        f"workload = {_toml(plan.workload)}",
        f"topology = {_toml(plan.topology)}",
        "jobs = [",
        *(f"  {_line(job)}," for job in sorted(plan.jobs, key=lambda job: job.priority)),
        "]",
    ]
    return "\n".join(lines) + "\n"


def _line(job: PlannedJob) -> str:
    return f"{{ {', '.join(f'{key} = {_toml(getattr(job, key))}' for key in _IN_ORDER)} }}"


def _toml(value: object) -> str:
    """A value in TOML; strings are as in JSON, but for DEL, which TOML escapes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, tuple) else repr(value)


# The planner --------------------------------------------------------------------------------------
AS_PUBLISHED = PlanOptions(shuffle_in_waves=True)  #: as 4.3 prints it


def plan(
    jobs: Sequence[JobProfile],
    cluster: RackCluster,
    scenario: Scenario,
    options: PlanOptions = AS_PUBLISHED,
    *,
    busy_until_s: Sequence[float] = (),
    plain: bool = False,
) -> Plan:
    """Plan these jobs; ``UsageError`` if there is none, or two of one name.

    ``busy_until_s``: of each rack, until when jobs of an earlier plan keep it busy.
    ``plain`` tries every allocation, as the paper does; the answer is the same.
    """
    problem = problem_of(jobs, cluster, scenario, options, busy_until_s=busy_until_s)
    widths = plain_provisioning(problem) if plain else quick_provisioning(problem)
    schedule, lengths_s = prioritize(problem, widths), problem.lengths_at(widths)
    # Starts never descend along the order, so this keeps it where they are equal.
    by_start = sorted(schedule.order, key=schedule.start_s.__getitem__)
    planned = [
        PlannedJob(
            name=jobs[j].name,
            racks=tuple(rack_id(rack) for rack in schedule.racks[j]),
            priority=priority,
            arrive_s=float(problem.arrive_s[j]),
            start_s=schedule.start_s[j],
            planned_s=float(lengths_s[j]),
            latency_s=float(
                lengths_s[j] - imbalance_s(jobs[j], widths[j], cluster, options.imbalance)
            ),
        )
        for priority, j in enumerate(by_start, start=1)
    ]
    return Plan(scenario=problem.scenario, racks=problem.racks, jobs=tuple(planned))


def problem_of(
    jobs: Sequence[JobProfile],
    cluster: RackCluster,
    scenario: Scenario,
    options: PlanOptions = AS_PUBLISHED,
    *,
    busy_until_s: Sequence[float] = (),
) -> Problem:
    """The planning problem of section 4.1 for these jobs."""
    if not jobs:
        raise UsageError("a plan of no jobs: need jobs with forecasts")
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"job {twice}: there are two of that name")
    busy_s = np.array(busy_until_s or [0.0] * cluster.racks, dtype=float)
    count = f"a time for each of {cluster.racks} racks"
    require(len(busy_s) == cluster.racks, "busy_until_s", list(busy_until_s), count)
    racks, in_waves = np.arange(1.0, cluster.racks + 1), options.shuffle_in_waves
    lengths_s = [
        job_s(job, racks, cluster, in_waves=in_waves)
        + imbalance_s(job, racks, cluster, options.imbalance)
        for job in jobs
    ]
    come_s = np.array([0.0 if scenario == "batch" else job.arrive_s for job in jobs])
    return Problem(
        scenario=scenario, lengths_s=np.array(lengths_s), arrive_s=come_s, busy_until_s=busy_s
    )
