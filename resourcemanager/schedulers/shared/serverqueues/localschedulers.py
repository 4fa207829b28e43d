"""Local schedulers: a slot goes to the first ready task in the queue of its server.

Which task is put into which queue, a policy made of this says in ``renew``.  Here is what can
happen to queued tasks: their server is lost or takes no tasks any more, their job avoids it, they
fail, their output is lost and they run again, or they are not needed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from railyard.cluster.ids import JobId
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Proposal
from railyard.resourcemanager.interface.policies import OrderPolicy, ShufflePolicy, TaskPolicy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.shared.serverqueues.allocations import Allocations
from railyard.resourcemanager.schedulers.shared.serverqueues.servers import QueuedTask


class LocalSchedulers(OrderPolicy, TaskPolicy):
    """Answers "order" and "tasks" by the servers' queues."""

    def __init__(
        self, config: msgspec.Struct, cluster: ClusterView, allocations: Allocations
    ) -> None:
        super().__init__(config, cluster)
        self.allocations = allocations
        #: jobs of which tasks may have become pending, or were taken off their servers
        self._look_at: dict[JobId, JobView] = {}
        self._avoided: dict[JobId, tuple[str, ...]] = {}  #: {job: servers that it avoids, if any}

    # For those who decide ------------------------------------------------------------------------
    def renew(self, stage: StageView) -> None:
        """Put tasks of a stage on servers that are pending and in no queue, as far as can be."""
        raise NotImplementedError

    def scheduled_jobs(self) -> Iterable[JobView]:
        """The jobs whose tasks are put on servers."""
        return self.cluster.jobs.values()

    def review(self) -> None:
        """Schedule tasks that have become pending again, or were taken off their servers."""
        if self._avoided or self._look_at:
            self._look_at_avoided()
        jobs, self._look_at = self._look_at, {}
        if not jobs:
            return
        a, known = self.allocations, {job.id for job in self.scheduled_jobs()}
        for job in jobs.values():
            if job.id not in known:
                continue
            for stage in job.stages.values():
                if a.servers.count[stage.id] + a.unscheduled[stage.id] != stage.pending.count:
                    a.take_out_of(stage, pending=False)
                    self.renew(stage)

    def look_at(self, job: JobView) -> None:
        """Tasks of a job may have become pending."""
        self._look_at[job.id] = job

    # Slots ---------------------------------------------------------------------------------------
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

    def planned(self, task: TaskView) -> str:
        servers = self.allocations.servers
        entry = servers.tasks.get(task.id)
        if entry is None:
            return "it is in no server's queue"
        starts = f"should start at {entry.starts_s:.3f} s"
        return f"{entry.state} in the queue of {servers.names[entry.server]}, {starts}"

    def propose(self) -> Iterable[Proposal]:
        return self.allocations.proposals()

    def why(self, job: JobView) -> str:
        return "its tasks are in the queues of servers, or wait for what they read"

    def _first_ready(self, slot: SlotView) -> QueuedTask | None:
        a = self.allocations
        server = a.servers.number[slot.id]
        while (entry := a.servers.first_ready(server)) is not None:
            if entry.task.state == "pending":
                return entry
            a.take_out(entry)  # it is not needed any more
        return None

    # What happens --------------------------------------------------------------------------------
    def job_ended(self, job: JobView) -> None:
        self.allocations.forget(job)
        self._look_at.pop(job.id, None)
        self._avoided.pop(job.id, None)

    def attempt_ready(self, attempt: AttemptView) -> None:
        entry = self.allocations.servers.tasks.get(attempt.task.id)
        if entry is not None:
            self.allocations.servers.make_ready(entry)

    def attempt_launched(self, attempt: AttemptView) -> None:
        a, task = self.allocations, attempt.task
        entry = a.servers.tasks.get(task.id)
        if entry is not None:
            a.take_out(entry)
        ends_s = self.cluster.now_s + a.graphs.execution_s(task.stage)
        a.servers.attempt_launched(attempt, ends_s)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self.allocations.servers.attempt_ended(attempt)
        self.look_at(attempt.task.stage.job)

    def reservation_ended(self, attempt: AttemptView) -> None:
        a, task = self.allocations, attempt.task
        entry = a.servers.tasks.get(task.id)
        if entry is not None and a.servers.names[entry.server] == attempt.node.id:
            a.take_out(entry)
        self.look_at(task.stage.job)

    def fetch_ended(self, fetch: FetchView) -> None:
        self.look_at(fetch.reader.task.stage.job)  # what it did not bring may be lost

    def node_joined(self, node: SlotView) -> None:
        self._look_at_all(node)

    def node_lost(self, node: SlotView) -> None:
        self._look_at_all(node)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._look_at_all(node)

    def _look_at_all(self, node: SlotView) -> None:
        """A node came, went, or has other slots: tasks leave it, and others may have room."""
        for entry in self.allocations.servers.slots_changed(node):
            self.allocations.evict(entry)
        for job in self.scheduled_jobs():
            self._look_at_again(job)

    def _look_at_again(self, job: JobView) -> None:
        """Look at a job's tasks, even at those that could not be scheduled before."""
        self.look_at(job)
        for stage in job.stages.values():
            self.allocations.unscheduled[stage.id] = 0

    def _look_at_avoided(self) -> None:
        """Take a job's tasks off servers that it has come to avoid."""
        a, known = self.allocations, self.cluster.jobs
        for job in (*self._look_at.values(), *map(known.get, list(self._avoided))):
            avoid = () if job is None else tuple(job.avoid)
            if job is None or avoid == self._avoided.get(job.id, ()):
                continue
            self._avoided[job.id] = avoid
            if not avoid:
                del self._avoided[job.id]
            for entry in list(a.servers.tasks.values()):
                if entry.task.stage.job is job and a.servers.names[entry.server] in avoid:
                    a.evict(entry)
            self._look_at_again(job)


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
