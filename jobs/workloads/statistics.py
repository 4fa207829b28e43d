"""Statistics of workloads, for comparison with the published ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.jobs.workloads.model import Statistic, WorkloadJob


def statistic(
    name: str,
    unit: str,
    measured: float,
    published: float | tuple[float, float] | None = None,
    tolerance: float = 0.0,
    note: str = "",
) -> Statistic:
    """A statistic; ``published`` is a number, or the least and the most."""
    if isinstance(published, int | float):
        published = (float(published), float(published))
    return Statistic(name, unit, float(measured), published, tolerance, note)


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile by linear interpolation; 0 if there are no values."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def share(values: Sequence[bool]) -> float:
    """The share of true values, 0 to 1; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 if there are no values."""
    return float(np.mean(values)) if len(values) else 0.0


def general(jobs: Sequence[WorkloadJob]) -> tuple[Statistic, ...]:
    """The statistics that are shown of every workload."""
    inputs = [job.input_bytes for job in jobs]
    times_s = [job.submit_s for job in jobs]
    tasks = [job.tasks for job in jobs]
    stages = [len(job.stages) for job in jobs]
    return (
        statistic("jobs", "", len(jobs)),
        statistic("users", "", len({job.user for job in jobs})),
        statistic("queues", "", len({job.queue for job in jobs})),
        statistic("recurring", "share", share([job.recurrence is not None for job in jobs])),
        statistic("first to last job", "s", max(times_s, default=0.0) - min(times_s, default=0.0)),
        statistic("stages, least", "", min(stages, default=0)),
        statistic("stages, most", "", max(stages, default=0)),
        statistic("tasks", "", sum(tasks)),
        statistic("tasks of a job, p50", "", percentile(tasks, 50)),
        statistic("tasks of a job, most", "", max(tasks, default=0)),
        statistic("input", "bytes", sum(inputs)),
        statistic("input of a job, p50", "bytes", percentile(inputs, 50)),
        statistic("input of a job, most", "bytes", max(inputs, default=0)),
        statistic("shuffle", "bytes", sum(job.shuffle_bytes for job in jobs)),
        statistic("output", "bytes", sum(job.output_bytes for job in jobs)),
    )
