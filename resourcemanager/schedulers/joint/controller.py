"""What the SDN controller knows, and how it puts tasks on servers (IV-C): used by both algorithms.

Allocations are the policy's own notes.  A task that has to wait for data from elsewhere also gets a
reservation, so that its data is sent to its server before it has a slot there.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.ids import JobId, StageId
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.earlieststart import EarliestStart, Start
from railyard.resourcemanager.schedulers.joint.flowlist import FlowList, VirtualFlow
from railyard.resourcemanager.schedulers.joint.parameters import JointConfig
from railyard.resourcemanager.schedulers.joint.switches import Switches
from railyard.resourcemanager.schedulers.shared.serverqueues.allocations import Allocations
from railyard.resourcemanager.schedulers.shared.serverqueues.servers import Allocated, QueuedTask


class Controller(Allocations):
    """Task graphs, servers, switches and flows."""

    def __init__(self, config: JointConfig, cluster: ClusterView, estimates: Estimates) -> None:
        super().__init__(cluster, estimates)
        self.config = config
        self.switches = Switches(cluster)
        self.flows = FlowList(self.switches, self.servers)
        self.earliest = EarliestStart(self.switches, self.servers)
        self.started_s: dict[JobId, float] = {}  #: when the first task of a job began
        self.unreachable_s: dict[StageId, tuple[StageView, float]] = {}  #: waiting since then
        #: figures
        self.pre_scheduled, self.moved, self.out_of_reach = 0, 0, 0

    def schedule(self, task: TaskView, start: Start, sends: Sequence[int], waits: bool) -> None:
        """Put a task on a server for good.

        ``sends``: servers that have data for it now; ``waits``: whether any data has to come, now
        or later.
        """
        entry = self._allocate(task, start, scheduled=True)
        for server in sends:
            self.flows.insert_real(task.id, server, start.server)
        if waits:
            self.reserve(entry)
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

    def take_out(self, entry: QueuedTask) -> None:
        """Take a task out of its queue, with its flows."""
        super().take_out(entry)
        self.flows.forget(entry.task.id)

    def forget(self, job: JobView) -> None:
        """Forget a job that has ended."""
        super().forget(job)
        self.started_s.pop(job.id, None)
        for stage in job.stages.values():
            self.unreachable_s.pop(stage.id, None)

    def _allocate(self, task: TaskView, start: Start, *, scheduled: bool) -> QueuedTask:
        starts_s = self.cluster.now_s + start.from_now_s
        execution_s = self.graphs.execution_s(task.stage)
        state: Allocated = "scheduled" if scheduled else "pre-scheduled"
        return self.servers.allocate(task, start.server, state, starts_s, execution_s)
