"""Joint: each task goes where it can start first with the bandwidth that is free, its data at once.

Source: Yang et al., "Joint Scheduling of Tasks and Network Flows in Big Data Clusters", IEEE Access
2018, sections III to V.  Here are the messages that trigger the SDN controller (IV-A), and the
flows' priorities (IV-C): first those of the job that began first, then those with the longest path
to the end of their job.  The room's other files have the sections' names.

Left open there, chosen here: what the network has free is what it has published last, at most
``links.period_s`` ago, less what was promised since.  Block reads and writes have no priority, and
so come after all flows of shuffles.  Speculative copies, if they are on, are placed as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from railyard.cluster.ids import JobId
from railyard.netemu.model.observed import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Proposal
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import (
    FlowPolicy,
    OrderPolicy,
    ShufflePolicy,
    TaskPolicy,
)
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.joint.controller import Controller
from railyard.resourcemanager.schedulers.joint.dispatcher import Dispatcher
from railyard.resourcemanager.schedulers.joint.flowcompletion import FlowCompletion
from railyard.resourcemanager.schedulers.joint.parameters import JointConfig
from railyard.resourcemanager.schedulers.joint.servers import QueuedTask
from railyard.resourcemanager.schedulers.joint.taskcompletion import TaskCompletion


class Joint(OrderPolicy, TaskPolicy, FlowPolicy):
    """Answers "order" and "tasks" by the servers' queues, and "flows"."""

    Config = JointConfig
    section = JointConfig.section
    uses_forecasts = True
    uses_network = True

    def __init__(self, config: JointConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        estimates = Estimates(cluster)
        self.parts = (estimates,)
        self.controller = Controller(config, cluster, estimates)
        self._dispatcher = Dispatcher(config.running_max)
        self._task_completion = TaskCompletion(self.controller)
        self._flow_completion = FlowCompletion(self.controller, self._task_completion)
        self._completed: list[TaskView] = []  #: since the controller was triggered last
        self._released = False  #: whether bandwidth was, since then
        #: jobs of which tasks may have become pending since then, or were taken off their servers
        self._look_at: dict[JobId, JobView] = {}
        self._avoided: dict[JobId, tuple[str, ...]] = {}  #: {job: servers that it avoids, if any}
        self._not_fitting = 0  #: forecasts with other stages than their jobs have

    # Messages (IV-A) -----------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        self._not_fitting += not _fits(job)
        self.controller.graphs.submitted(job)
        self._dispatcher.submitted(job, self.controller.graphs.work_s(job))

    def job_ended(self, job: JobView) -> None:
        c = self.controller
        for stage in job.stages.values():
            if c.servers.count[stage.id]:
                self._take_out_of(stage)
            c.servers.forget(stage.id)
            c.unscheduled.pop(stage.id, None)
            c.unreachable_s.pop(stage.id, None)
        c.graphs.ended(job)
        c.started_s.pop(job.id, None)
        self._look_at.pop(job.id, None)
        self._avoided.pop(job.id, None)
        self._dispatcher.ended(job)

    def task_done(self, task: TaskView) -> None:
        self._completed.append(task)

    def fetch_started(self, fetch: FetchView) -> None:
        c, reader = self.controller, fetch.reader
        src, dst = c.servers.number[fetch.node.id], c.servers.number[reader.node.id]
        c.flows.insert_real(reader.task.id, src, dst)

    def fetch_ended(self, fetch: FetchView) -> None:
        c, task = self.controller, fetch.reader.task
        c.flows.ended(task.id, c.servers.number[fetch.node.id])
        self._released = True
        self._look_at[task.stage.job.id] = task.stage.job

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self.controller.switches.observed(changed)
        self._released = True

    def attempt_ready(self, attempt: AttemptView) -> None:
        c, task = self.controller, attempt.task
        entry = c.servers.tasks.get(task.id)
        if entry is not None:
            c.servers.make_ready(entry)
        if not task.stage.reads:  # its block was read
            c.flows.forget(task.id)
            self._released = True

    def attempt_launched(self, attempt: AttemptView) -> None:
        c, task, now_s = self.controller, attempt.task, self.cluster.now_s
        entry = c.servers.tasks.get(task.id)
        if entry is not None:
            c.servers.remove(entry)
        c.flows.forget(task.id)
        c.started_s.setdefault(task.stage.job.id, now_s)
        c.servers.attempt_launched(attempt, now_s + c.graphs.execution_s(task.stage))

    def attempt_ended(self, attempt: AttemptView) -> None:
        job = attempt.task.stage.job
        self.controller.servers.attempt_ended(attempt)
        self._look_at[job.id] = job

    def reservation_ended(self, attempt: AttemptView) -> None:
        c, task = self.controller, attempt.task
        entry = c.servers.tasks.get(task.id)
        if entry is not None and c.servers.names[entry.server] == attempt.node.id:
            c.take_out(entry)
        self._look_at[task.stage.job.id] = task.stage.job

    def node_joined(self, node: SlotView) -> None:
        self._look_at_all(node)

    def node_lost(self, node: SlotView) -> None:
        self._look_at_all(node)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._look_at_all(node)

    # The controller is triggered -----------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        self._look_at_avoided()
        self._renew()
        while (job := self._dispatcher.next(self.cluster.now_s)) is not None:
            self._task_completion.start(job)
        completed, self._completed = self._completed, []
        for task in completed:
            if task.stage.job.id in self._dispatcher.running:
                self._task_completion.completed(task)
        if self._released or self._is_due():
            self._released = False
            self._flow_completion.released()
        return self.controller.offered()

    def propose(self) -> Iterable[Proposal]:
        return self.controller.proposals()

    def wake_s(self) -> float | None:
        waiting = self.controller.unreachable_s.values()
        if not waiting:
            return None
        return min([since_s for _, since_s in waiting]) + self._wait_s

    # Local schedulers on servers (IV-D) ----------------------------------------------------------
    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        entry = self._first_ready(slot)
        if entry is None:
            return ()
        job = entry.task.stage.job
        return (job,) if among is None or any(each is job for each in among) else ()

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        entry = self._first_ready(slot)
        if entry is None or entry.task.stage.job is not job:
            return Pass("none of its tasks is ready on this server")
        return Place(entry.task, f"{entry.state}, first in the queue of {slot.id}")

    def why(self, job: JobView) -> str:
        waits = self._dispatcher.why_waiting(job, self.cluster.now_s)
        return waits or "its tasks are in the queues of servers, or wait for what they read"

    # Flow list (IV-C) ----------------------------------------------------------------------------
    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        c, stage = self.controller, reader.task.stage
        started_s = c.started_s.get(stage.job.id, self.cluster.now_s)
        return started_s, -c.graphs.remaining_s(stage, size_bytes)

    def figures(self) -> Mapping[str, float]:
        c = self.controller
        return {
            "pre_scheduled": c.pre_scheduled,
            "moved": c.moved,
            "out_of_reach": c.out_of_reach,
            "forecasts_not_fitting": self._not_fitting,
        }

    # ---------------------------------------------------------------------------------------------
    @property
    def _wait_s(self) -> float:
        return self.controller.config.unreachable_wait_s

    def _is_due(self) -> bool:
        waiting, now_s = self.controller.unreachable_s.values(), self.cluster.now_s
        return any(now_s >= since_s + self._wait_s for _, since_s in waiting)

    def _first_ready(self, slot: SlotView) -> QueuedTask | None:
        c = self.controller
        server = c.servers.number[slot.id]
        while (entry := c.servers.first_ready(server)) is not None:
            if entry.task.state == "pending":
                return entry
            c.take_out(entry)  # it is not needed any more
        return None

    def _renew(self) -> None:
        """Schedule tasks that have become pending again, or were taken off their servers."""
        c, jobs = self.controller, self._look_at
        if not jobs:
            return
        self._look_at = {}
        for job in jobs.values():
            if job.id not in self._dispatcher.running:
                continue
            for stage in job.stages.values():
                queued = c.servers.count[stage.id] + c.unscheduled[stage.id]
                if queued != stage.pending.count:
                    self._take_out_of(stage, begun=True)
                    self._task_completion.renew(stage)

    def _take_out_of(self, stage: StageView, *, begun: bool = False) -> None:
        """Take all tasks of a stage out of queues, or those that are pending no more."""
        c = self.controller
        for task in stage.tasks:
            entry = c.servers.tasks.get(task.id)
            if entry is not None and not (begun and task.state == "pending"):
                c.take_out(entry)

    def _look_at_all(self, node: SlotView) -> None:
        """A node came, went, or has other slots: tasks leave it, and others may have room."""
        c = self.controller
        for entry in c.servers.slots_changed(node):
            c.evict(entry)
        for job in self._dispatcher.running.values():
            self._look_at[job.id] = job
            for stage in job.stages.values():
                c.unscheduled[stage.id] = 0

    def _look_at_avoided(self) -> None:
        """Take a job's tasks off servers that it has come to avoid."""
        c = self.controller
        for job in (*self._look_at.values(), *map(self.cluster.jobs.get, list(self._avoided))):
            avoid = () if job is None else tuple(job.avoid)
            if job is None or avoid == self._avoided.get(job.id, ()):
                continue
            self._avoided[job.id] = avoid
            if not avoid:
                del self._avoided[job.id]
            for entry in list(c.servers.tasks.values()):
                if entry.task.stage.job is job and c.servers.names[entry.server] in job.avoid:
                    c.evict(entry)
            self._look_at[job.id] = job
            for stage in job.stages.values():
                c.unscheduled[stage.id] = 0


class WhenReady(ShufflePolicy):
    """Answers "shuffle": a task gets a slot once all that it reads is there, and fetches before."""

    def limit(self, stage: StageView) -> int:
        return stage.size

    def why(self, stage: StageView) -> str:
        return "all its tasks have slots"

    def may_fetch(self, stage: StageView) -> bool:
        return True

    def patience_s(self, job: JobView) -> float:
        return 0.0


def _fits(job: JobView) -> bool:
    """Whether a job's forecast, if it has one, is of the stages that it has."""
    if job.forecast is None:
        return True
    foretold = {stage.name: set(stage.reads) for stage in job.forecast.stages}
    return foretold == {
        name: {source.name for source in stage.reads} for name, stage in job.stages.items()
    }


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
