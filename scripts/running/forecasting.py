"""Forecasts of a mix's jobs, sent to a cluster before the jobs' inputs are made.

They are the forecasts that the simulator makes for the same mix: its jobs' own sizes, measured,
with the errors that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.messaging.wire import Done
from railyard.cluster.units import format_count
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.interface.forecast import Forecast, predicted_jobs
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    SubmitForecasts,
)
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.clusters.session import Session
from railyard.scripts.terminal.progress import View


def send_forecasts(
    session: Session, view: View, workload: Callable[[], Workload]
) -> dict[str, Forecast]:
    """Send the scheduler the forecasts of the jobs to come; returns {job's name: forecast}.

    A scheduler that does not use forecasts is sent none; then ``workload``, which may take seconds
    to measure, is not called either.
    """
    scheduler = session.config.scheduler
    if not recipe_named(scheduler).uses_forecasts:
        return {}
    jobs = workload().jobs
    link = session.link("resourcemanager")
    begin_s = link.ask(GetClusterStatus(), ClusterStatus).now_s
    expected = predicted_jobs(jobs, begin_s)
    if expected:
        link.ask(SubmitForecasts(jobs=expected), Done)
    count = format_count(len(jobs), "job")
    view.say(f"forecasts for {scheduler}: {len(expected)} of {count}, with sizes measured ahead")
    return {job.job: job.forecast for job in expected}
