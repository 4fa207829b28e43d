"""Statistics of workloads, to be put next to the published ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.jobs.workloads.model import Figure, WorkloadJob


def figure(
    name: str,
    unit: str,
    measured: float,
    published: float | tuple[float, float] | None = None,
    tolerance: float = 0.0,
    note: str = "",
) -> Figure:
    """A figure; ``published`` is a number, or the least and the most."""
    if isinstance(published, (int, float)):
        published = (float(published), float(published))
    return Figure(
        name=name,
        unit=unit,
        measured=float(measured),
        published=published,
        tolerance=tolerance,
        note=note,
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation; 0 of nothing."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def share(values: Sequence[bool]) -> float:
    """How many are true; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return float(np.mean(values)) if len(values) else 0.0


def general(jobs: Sequence[WorkloadJob]) -> tuple[Figure, ...]:
    """What is told of every workload."""
    inputs = [job.input_bytes for job in jobs]
    shuffles = [job.shuffle_bytes for job in jobs]
    times_s = [job.submit_s for job in jobs]
    tasks = [job.tasks for job in jobs]
    stages = [len(job.stages) for job in jobs]
    return (
        figure("jobs", "", len(jobs)),
        figure("users", "", len({job.user for job in jobs})),
        figure("queues", "", len({job.queue for job in jobs})),
        figure("recurring", "share", share([job.recurrence is not None for job in jobs])),
        figure("first to last job", "s", max(times_s, default=0.0) - min(times_s, default=0.0)),
        figure("stages, least", "", min(stages, default=0)),
        figure("stages, most", "", max(stages, default=0)),
        figure("tasks", "", sum(tasks)),
        figure("tasks of a job, p50", "", percentile(tasks, 50)),
        figure("tasks of a job, most", "", max(tasks, default=0)),
        figure("input", "bytes", sum(inputs)),
        figure("input of a job, p50", "bytes", percentile(inputs, 50)),
        figure("input of a job, most", "bytes", max(inputs, default=0)),
        figure("shuffle", "bytes", sum(shuffles)),
        figure("output", "bytes", sum(job.output_bytes for job in jobs)),
    )
