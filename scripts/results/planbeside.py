"""A plan beside a run of its jobs: how well the response functions predicted it.

A job's end is compared as its time from arrival to completion, which in a plan has the time of jobs
before it on its racks, and the penalty for data out of balance, in it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.cluster.errors import UsageError
from railyard.cluster.files.inputfile import read_json

if TYPE_CHECKING:
    from railyard.resourcemanager.schedulers.corral.planfile import Plan


def load_summary(path: Path) -> dict[str, Any]:
    """A run's summary; raises ``UsageError`` if the file is none."""
    summary = read_json(path)
    if not isinstance(summary, dict) or "jobs" not in summary:
        raise UsageError(f"{path}: no jobs: need a run's summary.json")
    return summary


def beside_run(plan: Plan, summary: dict[str, Any]) -> dict[str, Any]:
    """Planned and actual times of jobs, and how much they differ.

    Raises ``UsageError`` if the run has none of the plan's jobs.
    """
    ran = {job["name"]: job for job in summary["jobs"] if job["ok"]}
    jobs = [
        {
            "name": job.name,
            "racks": len(job.racks),
            "latency_s": job.latency_s,
            "planned_s": job.end_s - job.arrive_s,
            "actual_s": ran[job.name]["jct_s"],
        }
        for job in plan.jobs
        if job.name in ran
    ]
    if not jobs:
        raise UsageError("the run has none of the plan's jobs: need a run of the same workload")
    count = len(jobs)
    off = [abs(job["planned_s"] / job["actual_s"] - 1) for job in jobs]
    return {
        "makespan_s": summary["makespan_s"],
        "completion_s": math.fsum(job["actual_s"] for job in jobs) / count,
        "mean_error": math.fsum(off) / count,
        "later": sum(job["planned_s"] > job["actual_s"] for job in jobs) / count,
        "jobs": jobs,
    }
