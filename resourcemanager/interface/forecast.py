"""Forecasts: the predicted sizes and times of a job, from earlier runs of the same recurring job.

All ``_bytes`` are the model's.  An ad hoc job has no forecast.  ``predicted_jobs`` makes the
forecasts of a workload, for the simulator and for real clusters alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from railyard.cluster.messaging.wire import (
    BYTES_PER_S_MAX,
    BytesPerS,
    Few,
    ModelBytes,
    Name,
    Seconds,
    Tasks,
)
from railyard.jobs.workloads.model import WorkloadJob


class StageForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted sizes of one stage."""

    name: Name  #: as the job's stage is called
    #: the stages that it fetches the output of; none = it reads files
    reads: Few[Name] = ()
    tasks: Tasks
    input_bytes: ModelBytes  #: what all its tasks together read or fetch
    #: what each stage that reads it fetches; if none does, what it stores
    output_bytes: ModelBytes
    #: a task takes ``task_s`` plus its input / ``rate_bytes_per_s``; None = the topology's rate
    task_s: Seconds = 0.0
    rate_bytes_per_s: BytesPerS | None = None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted stages of one job, and when it comes."""

    name: Name  #: of the recurring job; all its runs share it
    stages: Few[StageForecast]  #: each after those that it reads
    submit_s: Seconds | None = None  #: when it should be submitted, by the core's clock


def fits(forecast: Forecast, stages: Mapping[str, Collection[str]]) -> bool:
    """Whether a forecast is of a job with these stages: {name: stages that it reads}."""
    predicted = {stage.name: set(stage.reads) for stage in forecast.stages}
    return predicted == {name: set(reads) for name, reads in stages.items()}


class PredictedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast with the name of the job to come."""

    job: Name  #: the name that it will be submitted under
    forecast: Forecast


def forecast_of(job: WorkloadJob, begin_s: float = 0.0) -> Forecast | None:
    """The forecast of a workload's job; None for an ad hoc job.

    ``begin_s``: when the workload begins, by the core's clock.
    """
    expected = job.predicted()
    if expected is None or job.recurrence is None:
        return None
    inputs = expected.stage_input_bytes()
    return Forecast(
        name=job.recurrence.name,
        submit_s=begin_s + expected.submit_s,
        stages=tuple(
            StageForecast(
                name=stage.name,
                reads=stage.reads,
                tasks=stage.tasks,
                input_bytes=inputs[stage.name],
                output_bytes=stage.output_bytes,
                task_s=stage.task_s,
                # An unlimited rate can't be sent or logged.
                rate_bytes_per_s=stage.rate_bytes_per_s
                and min(stage.rate_bytes_per_s, BYTES_PER_S_MAX),
            )
            for stage in expected.stages
        ),
    )


def predicted_jobs(jobs: Iterable[WorkloadJob], begin_s: float = 0.0) -> tuple[PredictedJob, ...]:
    """The forecasts of a workload's jobs, but for ad hoc ones."""
    return tuple(
        PredictedJob(job=job.name, forecast=forecast)
        for job in jobs
        if (forecast := forecast_of(job, begin_s)) is not None
    )
