"""Allocations of tasks to servers: notes of a policy, and what is to be proposed and offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from railyard.cluster.ids import JobId, NodeId, StageId
from railyard.netemu.model.arrays import Bools
from railyard.resourcemanager.interface.decisions import Proposal, Reserve, Withdraw
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.shared.serverqueues.servers import QueuedTask, Servers
from railyard.resourcemanager.schedulers.shared.serverqueues.taskgraph import (
    State,
    TaskGraphs,
    state_of,
)

#: Why a task has a reservation.
_RESERVED = "it is in the queue of this server, and its data can be sent"


class Allocations:
    """The servers' queues, and the graphs of jobs with tasks in them."""

    def __init__(self, cluster: ClusterView, estimates: Estimates) -> None:
        self.cluster = cluster
        self.graphs = TaskGraphs(cluster, estimates)
        self.servers = Servers(cluster)
        #: {stage: how many of its tasks are pending and in no queue, when it was looked at last}
        self.unscheduled: Counter[StageId] = Counter()
        self._proposals: list[Proposal] = []
        self._offered: dict[JobId, JobView] = {}

    # What is known -------------------------------------------------------------------------------
    def state(self, task: TaskView) -> State:
        """One of the five states of a task."""
        entry = self.servers.tasks.get(task.id)
        return state_of(task, None if entry is None else entry.state)

    def to_schedule(self, stage: StageView) -> Iterator[TaskView]:
        """The unscheduled tasks of a stage."""
        queued = self.servers.tasks
        if self.servers.count[stage.id] < stage.pending.count:
            for index in list(stage.pending):
                task = stage.tasks[index]
                if task.id not in queued:
                    yield task

    def looked_at(self, stage: StageView) -> None:
        """What can be scheduled of a stage has been."""
        self.unscheduled[stage.id] = stage.pending.count - self.servers.count[stage.id]

    def usable(self, job: JobView) -> Bools:
        """[servers]: those on which a job's tasks may be put."""
        return self.servers.usable(job.avoid)

    def alive(self, nodes: Sequence[NodeId]) -> list[int]:
        """The servers that are up, of some."""
        known = self.cluster.nodes
        return [self.servers.number[name] for name in nodes if name in known and known[name].alive]

    # What is done --------------------------------------------------------------------------------
    def reserve(self, entry: QueuedTask) -> None:
        """Have a task's data sent to its server before it has a slot there."""
        self._proposals.append(Reserve(entry.task, self.servers.names[entry.server], _RESERVED))

    def make_ready(self, entry: QueuedTask) -> None:
        """A task can start; it is offered a slot of its server, if one is free."""
        self.servers.make_ready(entry)
        if self.cluster.nodes[self.servers.names[entry.server]].free:
            job = entry.task.stage.job
            self._offered[job.id] = job

    def take_out(self, entry: QueuedTask) -> None:
        """Take a task out of its queue."""
        self.servers.remove(entry)

    def evict(self, entry: QueuedTask) -> None:
        """A task can't stay on its server: it is unscheduled, and what it has read is lost."""
        self.take_out(entry)
        reserved = entry.task.reserved
        if reserved is not None:
            self._proposals.append(Withdraw(reserved, "its server takes no task any more"))

    def forget(self, job: JobView) -> None:
        """Forget a job that has ended."""
        for stage in job.stages.values():
            self.take_out_of(stage)
            self.servers.forget(stage.id)
            self.unscheduled.pop(stage.id, None)
        self.graphs.ended(job)

    def take_out_of(self, stage: StageView, *, pending: bool = True) -> None:
        """Take all tasks of a stage out of queues, or those that are pending no more."""
        if not self.servers.count[stage.id]:
            return
        for task in stage.tasks:
            entry = self.servers.tasks.get(task.id)
            if entry is not None and (pending or task.state != "pending"):
                self.take_out(entry)

    # What follows --------------------------------------------------------------------------------
    def offered(self) -> list[JobView]:
        """Jobs with tasks that have become ready where a slot is free, since the last time."""
        found, self._offered = list(self._offered.values()), {}
        return found

    def proposals(self) -> Iterator[Proposal]:
        """What is to be proposed, and is still right; each once."""
        asked, self._proposals = self._proposals, []
        for proposal in asked:
            if isinstance(proposal, Withdraw):
                if proposal.attempt.task.reserved is proposal.attempt:
                    yield proposal
            elif isinstance(proposal, Reserve) and self._may_reserve(proposal):
                yield proposal

    def _may_reserve(self, proposal: Reserve) -> bool:
        task = proposal.task
        entry = self.servers.tasks.get(task.id)
        if entry is None or self.servers.names[entry.server] != proposal.node:
            return False
        return task.state == "pending" and task.reserved is None
