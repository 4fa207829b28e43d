"""The offline planner: {R_j, p_j, T_j} for all jobs that are known ahead, and a plan as a file.

Source: Corral, sections 3.1 and 4.  The problem and its heuristics are ``heuristics``; the response
functions with their penalty for imbalance are ``latency``.
Left open there, chosen here: the penalty counts in all that is planned, lengths too; a plan also
has the time without it.

The file is TOML, a line for each job, in the order of their priorities:

    { name = "w1-17", priority = 1, start_s = 0.0, ..., racks = ["r0", "r3"] },

A person may write or change one; a plan that makes no sense is refused when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from railyard.cluster.errors import UsageError, require
from railyard.cluster.ids import RackId, rack_id
from railyard.cluster.inputfile import load_toml
from railyard.resourcemanager.schedulers.corral.heuristics import (
    Problem,
    Scenario,
    plain_provisioning,
    prioritize,
    quick_provisioning,
)
from railyard.resourcemanager.schedulers.corral.latency import (
    JobProfile,
    PlanOptions,
    RackCluster,
    imbalance_s,
    job_s,
)


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
        """The planned end of the last job, in seconds."""
        return max((job.end_s for job in self.jobs), default=0.0)

    @property
    def completion_s(self) -> float:
        """The mean over all jobs of planned end - arrival, in seconds."""
        return sum(job.end_s - job.arrive_s for job in self.jobs) / max(1, len(self.jobs))


#: the fields of a job in the file
_IN_ORDER = ("name", "priority", "arrive_s", "start_s", "planned_s", "latency_s", "racks")


def load_plan(path: Path) -> Plan:
    """Read a plan; raises ``UsageError``, one line, if it is wrong."""
    return load_toml(path, Plan)


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
    """Plan these jobs.

    ``busy_until_s``: of each rack, until when an earlier plan keeps it busy, for planning again
    while jobs run.  ``plain`` tries every allocation, as the paper does; the answer is the same.

    Raises ``UsageError`` if there is no job, or two of one name.
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
    racks, in_waves = cluster.all_widths(), options.shuffle_in_waves
    lengths_s = [
        job_s(job, racks, cluster, in_waves=in_waves)
        + imbalance_s(job, racks, cluster, options.imbalance)
        for job in jobs
    ]
    arrive_s = [0.0 if scenario == "batch" else job.arrive_s for job in jobs]
    return Problem(
        scenario=scenario,
        lengths_s=np.array(lengths_s),
        arrive_s=np.array(arrive_s),
        busy_until_s=busy_s,
    )
