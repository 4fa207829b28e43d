"""The offline planner: {R_j, p_j, T_j} for all jobs that are known ahead.

Source: Corral, sections 3.1 and 4.  The problem and its heuristics are ``heuristics``; the response
functions with their penalty for imbalance are ``latency``.
Left open there, chosen here: the penalty counts in all that is planned, lengths too; a plan also
has the time without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.cluster.errors import UsageError, require
from railyard.cluster.ids import rack_id
from railyard.resourcemanager.schedulers.corral.heuristics import (
    Problem,
    Scenario,
    Widths,
    plain_provisioning,
    prioritize,
)
from railyard.resourcemanager.schedulers.corral.latency import (
    PlanOptions,
    RackCluster,
    imbalance_s,
    job_s,
)
from railyard.resourcemanager.schedulers.corral.planfile import Plan, PlannedJob
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile
from railyard.resourcemanager.schedulers.corral.quicksearch import quick_provisioning

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
    lengths_s = problem.lengths_at(widths)
    ways = zip(jobs, lengths_s, widths, strict=True)
    latencies_s = [s - imbalance_s(j, r, cluster, options.imbalance) for j, s, r in ways]
    return _as_plan(jobs, problem, widths, latencies_s)


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


def _as_plan(
    jobs: Sequence[JobProfile], problem: Problem, widths: Widths, latencies_s: Sequence[float]
) -> Plan:
    schedule = prioritize(problem, widths)
    lengths_s = problem.lengths_at(widths)
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
            latency_s=float(latencies_s[j]),
        )
        for priority, j in enumerate(by_start, start=1)
    ]
    return Plan(scenario=problem.scenario, racks=problem.racks, jobs=tuple(planned))
