"""What is foretold of a mix's jobs, told to a cluster before their inputs are made.

The forecasts are those that the simulator tells of the same mix: its jobs' own sizes, measured,
with the errors that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.messaging.wire import Done
from railyard.cluster.units import format_count
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.interface.forecast import Forecast, foretold_jobs
from railyard.resourcemanager.process.messages import ClusterStatus, ForetellJobs, GetClusterStatus
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.clusters.session import Session
from railyard.scripts.terminal.progress import View


def foretell(session: Session, view: View, workload: Callable[[], Workload]) -> dict[str, Forecast]:
    """Tell the scheduler which jobs are expected; their forecasts, by their names.

    Nothing is told to a scheduler that makes nothing of it; then ``workload``, which may take
    seconds, is not asked for either.
    """
    scheduler = session.config.scheduler
    if not recipe_named(scheduler).uses_forecasts:
        return {}
    jobs = workload().jobs
    link = session.link("resourcemanager")
    begin_s = link.call(GetClusterStatus(), ClusterStatus).now_s
    expected = foretold_jobs(jobs, begin_s)
    if expected:
        link.call(ForetellJobs(jobs=expected), Done)
    count = format_count(len(jobs), "job")
    view.say(f"foretold to {scheduler}: {len(expected)} of {count}, with sizes measured ahead")
    return {job.job: job.forecast for job in expected}
