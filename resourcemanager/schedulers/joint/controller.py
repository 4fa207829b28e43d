"""What the SDN controller knows, and how it allocates tasks (IV-C): shared by both algorithms.

Allocations are the policy's own notes.  A task that has to wait for data from elsewhere also gets a
reservation, so that its data is sent to its server before it has a slot there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from railyard.cluster.ids import JobId, NodeId, StageId
from railyard.netemu.model.arrays import Bools
from railyard.resourcemanager.interface.decisions import Proposal, Reserve, Withdraw
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.earlieststart import EarliestStart, Start
from railyard.resourcemanager.schedulers.joint.flowlist import FlowList, VirtualFlow
from railyard.resourcemanager.schedulers.joint.parameters import JointConfig
from railyard.resourcemanager.schedulers.joint.servers import Allocated, QueuedTask, Servers
from railyard.resourcemanager.schedulers.joint.switches import Switches
from railyard.resourcemanager.schedulers.joint.taskgraph import State, TaskGraphs, state_of


class Controller:
    """Task graphs, servers, switches and flows, and what is to be proposed and offered."""

    def __init__(self, config: JointConfig, cluster: ClusterView, estimates: Estimates) -> None:
        self.config = config
        self.cluster = cluster
        self.graphs = TaskGraphs(cluster, estimates)
        self.switches = Switches(cluster)
        self.servers = Servers(cluster)
        self.flows = FlowList(self.switches, self.servers)
        self.earliest = EarliestStart(self.switches, self.servers)
        self.started_s: dict[JobId, float] = {}  #: when the first task of a job began
        #: {stage: how many of its tasks are pending and in no queue, when it was looked at last}
        self.unscheduled: Counter[StageId] = Counter()
        self.unreachable_s: dict[StageId, tuple[StageView, float]] = {}  #: waiting since then
        self._proposals: list[Proposal] = []
        self._offered: dict[JobId, JobView] = {}
        #: figures
        self.pre_scheduled, self.moved, self.out_of_reach = 0, 0, 0

    # States --------------------------------------------------------------------------------------
    def state(self, task: TaskView) -> State:
        """One of the five states of a task (Fig. 5)."""
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

    def usable(self, job: JobView) -> Bools:
        """[servers]: those on which a job's tasks may be put."""
        return self.servers.usable(job.avoid)

    def alive(self, nodes: Sequence[NodeId]) -> list[int]:
        """The servers that are up, of some."""
        known = self.cluster.nodes
        return [self.servers.number[name] for name in nodes if name in known and known[name].alive]

    # Allocations ---------------------------------------------------------------------------------
    def schedule(self, task: TaskView, start: Start, sends: Sequence[int], waits: bool) -> None:
        """Put a task on a server for good.

        ``sends``: servers that have data for it now; ``waits``: whether any data has to come, now
        or later.
        """
        entry = self._allocate(task, start, scheduled=True)
        for server in sends:
            self.flows.insert_real(task.id, server, start.server)
        if waits:
            self._proposals.append(Reserve(task, self.servers.names[start.server]))
        else:
            self.make_ready(entry)

    def pre_schedule(
        self, task: TaskView, start: Start, heads: Sequence[int], size_bytes: float
    ) -> None:
        """Put a task beside the data that it reads, from where it may be moved."""
        entry = self._allocate(task, start, scheduled=not self.config.virtual)
        self.pre_scheduled += 1
        if self.config.virtual:
            self.flows.insert_virtual(VirtualFlow(entry, heads, size_bytes))
        self.make_ready(entry)

    def make_ready(self, entry: QueuedTask) -> None:
        """A task has all its data; it is offered a slot of its server, if one is free."""
        self.servers.make_ready(entry)
        if self.cluster.nodes[self.servers.names[entry.server]].free:
            job = entry.task.stage.job
            self._offered[job.id] = job

    def take_out(self, entry: QueuedTask) -> None:
        """Take a task out of its queue, with its flows."""
        self.servers.remove(entry)
        self.flows.forget(entry.task.id)

    def evict(self, entry: QueuedTask) -> None:
        """A task can't stay on its server: it is unscheduled, and what it has read is lost."""
        self.take_out(entry)
        reserved = entry.task.reserved
        if reserved is not None:
            self._proposals.append(Withdraw(reserved, "its server takes no task any more"))

    def _allocate(self, task: TaskView, start: Start, *, scheduled: bool) -> QueuedTask:
        starts_s = self.cluster.now_s + start.from_now_s
        execution_s = self.graphs.execution_s(task.stage)
        state: Allocated = "scheduled" if scheduled else "pre-scheduled"
        return self.servers.allocate(task, start.server, state, starts_s, execution_s)

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
