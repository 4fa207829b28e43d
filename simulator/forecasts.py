"""What a workload foretells of its recurring jobs, as schedulers are told."""

from __future__ import annotations

from jobs.workloads.model import WorkloadJob
from resourcemanager.forecast import Forecast, StageForecast


def forecast_of(job: WorkloadJob) -> Forecast | None:
    """The forecast of a job; None if nothing is known of it before it comes."""
    expected = job.foretold()
    if expected is None or job.recurrence is None:
        return None
    inputs = expected.stage_input_bytes()
    return Forecast(
        name=job.recurrence.name,
        submit_s=expected.submit_s,
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
