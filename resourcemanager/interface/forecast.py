"""What is predicted of a job before it runs, from earlier runs of the same recurring job.

All ``_bytes`` are the model's.  A job of which nothing is known has no forecast.  What a workload
predicts of its jobs is told in the same words on either clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from railyard.cluster.bounded import FEW, BytesPerS, ModelBytes, Name, Seconds, Tasks
from railyard.jobs.workloads.model import WorkloadJob


class StageForecast(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as it is expected to be."""

    name: Name  #: as the job's stage is called
    reads: Annotated[
        tuple[Name, ...], FEW
    ] = ()  #: the stages whose output it fetches; none: it reads files
    tasks: Tasks
    input_bytes: ModelBytes  #: what all its tasks read or fetch
    output_bytes: (
        ModelBytes  #: what each of its readers fetches, or what is stored if nobody reads it
    )
    #: a task takes ``task_s`` and besides its input / ``rate``; None = the topology's compute rate
    task_s: Seconds = 0.0
    rate_bytes_per_s: BytesPerS | None = None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is expected to be."""

    name: Name  #: of the recurring job; its instances share it
    stages: Annotated[tuple[StageForecast, ...], FEW]  #: each after those that it reads
    submit_s: Seconds | None = None  #: when it is expected to come, by the core's clock

    def stage(self, name: str) -> StageForecast | None:
        """The stage of that name, if it is predicted."""
        return next((stage for stage in self.stages if stage.name == name), None)


class PredictedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is expected to be submitted under a name of its own."""

    job: Name  #: the name that it will be submitted under
    forecast: Forecast


def forecast_of(job: WorkloadJob, begin_s: float = 0.0) -> Forecast | None:
    """The forecast of a workload's job; None if nothing is known of it before it comes.

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
                rate_bytes_per_s=stage.rate_bytes_per_s,
            )
            for stage in expected.stages
        ),
    )


def predicted_jobs(jobs: Iterable[WorkloadJob], begin_s: float = 0.0) -> tuple[PredictedJob, ...]:
    """Those of a workload's jobs that are predicted."""
    forecasts = ((job.name, forecast_of(job, begin_s)) for job in jobs)
    return tuple(
        PredictedJob(job=name, forecast=forecast)
        for name, forecast in forecasts
        if forecast is not None
    )
