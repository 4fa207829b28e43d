"""The job dispatcher (IV-B): which of the submitted jobs is executed next.

Highest Response Ratio Next, equation (6): p_i = w_i / sum over j of C_ij.  How fast jobs are
delivered "depends on the number of jobs being executed, the loads of the servers, and the available
bandwidth".  Left open there, chosen here: a job is delivered while there is room for it, by a limit
to the number, and one to how long the least loaded server would let a further task wait; bandwidth
counts for nothing, as a job's first tasks need little of it.  Jobs with equal ratios go as they
came; one without work goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.resourcemanager.interface.views import JobView


class Dispatcher:
    """The job queue.

    ``running_max``: jobs in execution at one time; ``wait_max_s``: for how long the least loaded
    server may let a task wait.  None: any number, however long.
    """

    def __init__(self, running_max: int | None, wait_max_s: float | None = None) -> None:
        self._running_max = running_max
        self._wait_max_s = wait_max_s
        self._waiting: dict[JobId, tuple[JobView, float]] = {}  #: {job: itself, sum of its C}
        self.running: dict[JobId, JobView] = {}  #: the job execution list

    def submitted(self, job: JobView, work_s: float) -> None:
        """Put a job into the queue; ``work_s``: the execution times of all its tasks, added up."""
        self._waiting[job.id] = job, work_s

    def next(self, now_s: float, least_wait_s: Callable[[], float]) -> JobView | None:
        """Deliver the job with the highest priority; None if there is none or no room for it.

        ``least_wait_s``: tells how long the least loaded server would let a task wait.
        """
        if not self._waiting or not self._has_room():
            return None
        if self._wait_max_s is not None and least_wait_s() > self._wait_max_s:
            return None
        job, _ = max(
            self._waiting.values(), key=lambda each: response_ratio(now_s, *each)
        )  # of equal ones, the first
        del self._waiting[job.id]
        self.running[job.id] = job
        return job

    def ended(self, job: JobView) -> None:
        """Forget a job."""
        self._waiting.pop(job.id, None)
        self.running.pop(job.id, None)

    def why_waiting(self, job: JobView, now_s: float) -> str:
        """Why a job is not in execution; "" if it is."""
        if job.id not in self._waiting:
            return ""
        ratio = response_ratio(now_s, *self._waiting[job.id])
        others = [response_ratio(now_s, *each) > ratio for each in self._waiting.values()]
        most = "" if self._running_max is None else f" of {self._running_max}"
        running = f"{len(self.running)}{most} jobs run"
        ahead = format_count(sum(others), "job")
        return f"{ahead} ahead (waited {ratio:.2f} of its work; {running})"

    def _has_room(self) -> bool:
        return self._running_max is None or len(self.running) < self._running_max


def response_ratio(now_s: float, job: JobView, work_s: float) -> float:
    """p_i, equation (6)."""
    waited_s = now_s - job.submitted_s
    return waited_s / work_s if work_s > 0 else inf
