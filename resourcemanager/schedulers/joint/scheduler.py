"""Joint: each task goes where it can start first with the bandwidth that is free, its data at once.

Source: Yang et al., "Joint Scheduling of Tasks and Network Flows in Big Data Clusters", IEEE Access
2018, sections III to V.  Here are the job dispatcher (IV-B), the messages that trigger the SDN
controller (IV-A), and the flows' priorities (IV-C): first those of the job that began first, then
those with the longest path to the end of their job.

Left open there, chosen here:

* How fast jobs are delivered "depends on the number of jobs being executed, the loads of the
  servers, and the available bandwidth".  A job is delivered while there is room for it, by a limit
  to the number, and one to how long the least loaded server would let a further task wait;
  bandwidth counts for nothing, as a job's first tasks need little of it.  Jobs with equal ratios go
  as they came; one without work goes first.
* What the network has free is what it has published last, at most ``links.period_s`` ago, less
  what was promised since.  Block reads and writes have no priority, and so come after all flows of
  shuffles.  Speculative copies, if they are on, are placed as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.forecast import fits
from railyard.resourcemanager.interface.policies import FlowPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.joint.allocations import LocalSchedulers, WhenReady
from railyard.resourcemanager.schedulers.joint.controller import Controller, JointConfig


# The job dispatcher (IV-B) -----------------------------------------------------------------------
class Dispatcher:
    """The job queue: Highest Response Ratio Next.

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
        full = self._running_max is not None and len(self.running) >= self._running_max
        if not self._waiting or full:
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


def response_ratio(now_s: float, job: JobView, work_s: float) -> float:
    """p_i = w_i / sum over j of C_ij: equation (6)."""
    waited_s = now_s - job.submitted_s
    return waited_s / work_s if work_s > 0 else inf


# The scheduler -----------------------------------------------------------------------------------
class Joint(LocalSchedulers, FlowPolicy):
    """Answers "order" and "tasks" by the servers' queues (IV-D), and "flows"."""

    Config = JointConfig
    section = JointConfig.section
    uses_forecasts = True

    def __init__(self, config: JointConfig, cluster: ClusterView) -> None:
        estimates = Estimates(cluster)
        self.parts = (estimates,)
        self.controller = Controller(config, cluster, estimates)
        super().__init__(config, cluster, self.controller)
        self._dispatcher = Dispatcher(config.running_max, config.wait_max_s)
        self._completed: list[TaskView] = []  #: since the controller was triggered last
        self._released = False  #: whether bandwidth was, since then
        self._not_fitting = 0  #: forecasts with other stages than their jobs have

    # Messages (IV-A) -----------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        self._not_fitting += not _fits(job)
        self.controller.graphs.submitted(job)
        self._dispatcher.submitted(job, self.controller.graphs.work_s(job))

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        self._dispatcher.ended(job)

    def task_done(self, task: TaskView) -> None:
        self._completed.append(task)

    def fetch_started(self, fetch: FetchView) -> None:
        c, reader = self.controller, fetch.reader
        src, dst = c.servers.number[fetch.node.id], c.servers.number[reader.node.id]
        c.flows.insert_real(reader.task.id, src, dst)

    def fetch_ended(self, fetch: FetchView) -> None:
        super().fetch_ended(fetch)
        c, task = self.controller, fetch.reader.task
        c.flows.ended(task.id, c.servers.number[fetch.node.id])
        self._released |= fetch.node is not fetch.reader.node

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self.controller.switches.observed(changed)
        self._released = True

    def attempt_ready(self, attempt: AttemptView) -> None:
        super().attempt_ready(attempt)
        if not attempt.task.stage.reads:  # its block was read
            self.controller.flows.forget(attempt.task.id)
            self._released = True

    def attempt_launched(self, attempt: AttemptView) -> None:
        super().attempt_launched(attempt)
        self.controller.flows.forget(attempt.task.id)
        self.controller.started(attempt.task.stage.job)

    # The controller is triggered -----------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        self.review()
        while (job := self._dispatcher.next(self.cluster.now_s, self._least_wait_s)) is not None:
            self.controller.start(job)
        completed, self._completed = self._completed, []
        for task in completed:
            if task.stage.job.id in self._dispatcher.running:
                self.controller.completed(task)
        due_s = self.wake_s()
        if self._released or (due_s is not None and due_s <= self.cluster.now_s):
            self._released = False
            self.controller.released()
        return self.controller.offered()

    def _least_wait_s(self) -> float:
        return float(self.controller.servers.starts_s(0.0, self.cluster.now_s).min())

    def renew(self, stage: StageView) -> None:
        self.controller.renew(stage)

    def scheduled_jobs(self) -> Iterable[JobView]:
        return self._dispatcher.running.values()

    def wake_s(self) -> float | None:
        return self.controller.wake_s()

    def why(self, job: JobView) -> str:
        return self._dispatcher.why_waiting(job, self.cluster.now_s) or super().why(job)

    # Flow list (IV-C) ----------------------------------------------------------------------------
    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        return self.controller.priority(reader.task.stage, size_bytes)

    def figures(self) -> Mapping[str, float]:
        return {**self.controller.figures, "forecasts_not_fitting": self._not_fitting}


def _fits(job: JobView) -> bool:
    """Whether a job's forecast, if it has one, is of the stages that it has."""
    stages = {name: [source.name for source in stage.reads] for name, stage in job.stages.items()}
    return job.forecast is None or fits(job.forecast, stages)


RECIPE = Recipe(
    name="joint",
    source="Yang et al., IEEE Access 2018",
    order=Joint,
    tasks=Joint,
    flows=Joint,
    shuffle=WhenReady,
    flow_scheduler="afap",
)
RECIPES = (
    RECIPE,
    RECIPE.variant("no-virtual", "its virtual flows left out", {"joint.virtual": False}),
    RECIPE.variant("no-aeap", "its AEAP left out", {"joint.aeap": False}),
)
