"""The servers' task queues and t_AVL (IV-D), task graphs, and policies made of these: Joint, HEFT.

``TaskGraphs`` (III, IV-C): C_ij, D_iuv and the longest paths.  Stages are all-to-all: a task has an
edge from each task of the stages that its own reads.  A map with a block of input has an edge from
a task without duration on each node that holds the block.

``Servers``: ready and blocked tasks, first come first served.  A task that was put beside its only
predecessor (pre-scheduled) is ready; so is one whose data is all there.  Another one is blocked
until then.  A server is a node, known by its number in the topology.

By ``LocalSchedulers`` a slot goes to the first ready task in the queue of its server.  Here is what
can happen to queued tasks: their server is lost or takes no tasks any more, their job avoids it,
they fail, their output is lost and they run again, or they are not needed any more.

Left open there, chosen here: of a job without forecast, the topology's rates and equal edges, as
``Estimates`` has them.  t_AVL is the work that is queued on a server, and what is left of that in
execution; a server of several slots works them off together.  Of blocked tasks it is known when
their data should come: a task that can end before the first begins does, others start after them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from railyard.cluster.ids import AttemptId, JobId, NodeId, StageId, TaskId
from railyard.netemu.model.arrays import Bools, Floats
from railyard.netemu.model.network import LinkState, Network, links_as_stated
from railyard.resourcemanager.interface.decisions import (
    Decision,
    Pass,
    Place,
    Proposal,
    Reserve,
    Withdraw,
)
from railyard.resourcemanager.interface.estimates import Estimates
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
from railyard.resourcemanager.schedulers.shared.sites import nodes_alive


# Task graphs --------------------------------------------------------------------------------------
class TaskGraphs:
    """What is known of the graphs of all jobs."""

    def __init__(self, cluster: ClusterView, estimates: Estimates) -> None:
        self._estimates = estimates
        stated = links_as_stated(cluster.topology.derived(Network))
        self._mean_bytes_per_s = mean_capacity(stated.values())
        #: {stage: the longest path from one of its tasks to the end of its job, itself included}
        self.longest_s: dict[StageId, float] = {}

    def submitted(self, job: JobView) -> None:
        """Find the longest paths of a job, with what is known of it as it comes."""
        for stage in reversed(list(job.stages.values())):
            after_s = [self.remaining_s(one, self.equal_edge(stage, one)) for one in stage.readers]
            self.longest_s[stage.id] = self.execution_s(stage) + max(after_s, default=0.0)

    def ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self.longest_s.pop(stage.id, None)

    def execution_s(self, stage: StageView) -> float:
        """C_ij of a stage's tasks."""
        return self._estimates.computed_s(stage).value

    def work_s(self, job: JobView) -> float:
        """C_ij of all tasks of a job, added up."""
        return sum([stage.needed * self.execution_s(stage) for stage in job.stages.values()])

    def edge_bytes(self, head: TaskView, tail: TaskView) -> float:
        """D_iuv from a task, ``head``, to one that reads it, ``tail``."""
        winner = head.winner
        if winner is not None and winner.partition_bytes:
            return float(winner.partition_bytes[tail.index])
        return self.equal_edge(head.stage, tail.stage)

    def remaining_s(self, stage: StageView, size_bytes: float) -> float:
        """The longest path from an edge of so many bytes into a stage, to the end of its job.

        Edges count with the mean capacity of all switches.
        """
        return self.transfer_s(size_bytes) + self.longest_s[stage.id]

    def transfer_s(self, size_bytes: float) -> float:
        return size_bytes / self._mean_bytes_per_s

    def equal_edge(self, source: StageView, reader: StageView) -> float:
        """D_iuv, if all of a stage's edges are equal."""
        whole = self._estimates.output_bytes(source).value
        return whole / (source.needed * reader.size)


def mean_capacity(links: Iterable[LinkState]) -> float:
    """The mean capacity of all switches, in bytes/s; of unlimited ones alone, inf."""
    limits = [link.capacity_bytes_per_s for link in links]
    limited = [limit for limit in limits if limit < math.inf]
    return sum(limited) / len(limited) if limited else math.inf


# Queues -------------------------------------------------------------------------------------------
@dataclass(eq=False, slots=True, kw_only=True)
class QueuedTask:
    """A task in the queue of a server."""

    task: TaskView
    server: int
    state: Literal["pre-scheduled", "scheduled"]
    starts_s: float  #: when it should start, as of its allocation
    execution_s: float  #: C
    turn_s: float = 0.0  #: those of lower ones go first, then of lower numbers
    number: int = 0  #: in the order of allocation
    ready: bool = False
    queued: bool = True  #: False: it has started, or is elsewhere


class Servers:
    """All servers with their queues.  Arrays are [servers]."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        racks = [rack.id for rack in cluster.topology.rack_list()]
        nodes = cluster.topology.nodes()
        self.names: list[NodeId] = [node.id for node in nodes]
        self.number: dict[NodeId, int] = {name: at for at, name in enumerate(self.names)}
        of_rack = {rack: at for at, rack in enumerate(racks)}
        self.rack = np.array([of_rack[node.rack] for node in nodes], dtype=np.int64)
        count = len(nodes)
        self._slots = np.zeros(count)  #: 0 = no task can be put there
        self._running = np.zeros(count)  #: attempts in slots
        self._ends_s = np.zeros(count)  #: when these should end, added up
        self._first_end_s = np.zeros(count)  #: when the first of them should
        self._queued_s = np.zeros(count)  #: C of queued tasks, added up
        self._ready_s = np.zeros(count)  #: of those that are ready
        self._last_ready_s = np.zeros(count)  #: C of the last of these
        #: when the first blocked task should start, the last end; inf, -inf: fewer than slots
        self._blocked_from_s = np.full(count, np.inf)
        self._blocked_to_s = np.full(count, -np.inf)
        self._blocked: list[dict[TaskId, QueuedTask]] = [{} for _ in nodes]
        self._in_slots: list[dict[AttemptId, float]] = [{} for _ in nodes]  #: {attempt: end}
        self._ready: list[list[tuple[float, int, QueuedTask]]] = [[] for _ in nodes]  #: heaps
        self.queues: list[dict[TaskId, QueuedTask]] = [{} for _ in nodes]  #: as allocated
        self.tasks: dict[TaskId, QueuedTask] = {}  #: all that are queued
        self.count: Counter[StageId] = Counter()  #: queued tasks of each stage
        self.scheduled: Counter[StageId] = Counter()  #: those of them that can't be moved any more
        self._allocated = 0

    # Queues (IV-D) -------------------------------------------------------------------------------
    def allocate(self, entry: QueuedTask) -> None:
        """Put a task, which is in no queue, into that of its server, blocked.

        Of ready tasks that with the lowest ``turn_s`` goes first, then that allocated first.
        """
        self._allocated += 1
        entry.number = self._allocated
        server, execution_s = entry.server, entry.execution_s
        name, stage = entry.task.id, entry.task.stage.id
        self.tasks[name] = self.queues[server][name] = entry
        self.count[stage] += 1
        self.scheduled[stage] += entry.state == "scheduled"
        self._queued_s[server] += execution_s
        self._blocked[server][name] = entry
        self._count_blocked(server)

    def remove(self, entry: QueuedTask) -> None:
        name, stage, server = entry.task.id, entry.task.stage.id, entry.server
        entry.queued = False
        del self.tasks[name], self.queues[server][name]
        self.count[stage] -= 1
        self.scheduled[stage] -= entry.state == "scheduled"
        left_s = self._queued_s[server] - entry.execution_s
        self._queued_s[server] = left_s if self.queues[server] else 0.0
        if entry.ready:
            self._ready_s[server] -= entry.execution_s
            self._find_last_ready(server)
        else:
            del self._blocked[server][name]
            self._count_blocked(server)

    def make_ready(self, entry: QueuedTask) -> None:
        if not entry.ready:
            server = entry.server
            entry.ready = True
            del self._blocked[server][entry.task.id]
            self._count_blocked(server)
            self._ready_s[server] += entry.execution_s
            self._find_last_ready(server)
            turn = entry.turn_s, entry.number, entry
            heapq.heappush(self._ready[server], turn)

    def first_ready(self, server: int) -> QueuedTask | None:
        ready = self._ready[server]
        while ready and not ready[0][2].queued:
            heapq.heappop(ready)
        return ready[0][2] if ready else None

    def ready_s(self, server: int) -> float:
        return float(self._ready_s[server])

    def ahead_s(self, entry: QueuedTask, now_s: float) -> float:
        """When a ready task would start, from now: t_AVL for it alone.  O(tasks behind it)."""
        server = entry.server
        before_s = self.ready_s(server)
        for other in reversed(self.queues[server].values()):
            if other.ready:
                before_s -= other.execution_s
            if other is entry:
                break
        return self.starts_after_s(server, before_s, now_s)

    def forget(self, stage: StageId) -> None:
        """A stage, of which no task is queued, has ended."""
        self.count.pop(stage, None)
        self.scheduled.pop(stage, None)

    # t_AVL ---------------------------------------------------------------------------------------
    def available_s(self, now_s: float) -> Floats:
        """t_AVL: seconds from now until each server would start one task more; inf = never."""
        return self._after_s(self._queued_s, now_s)

    def starts_s(self, arrives_s: Floats | float, now_s: float, execution_s: float = 0.0) -> Floats:
        """When one task more would start on each server, from now.

        ``arrives_s``: when its data would be there [servers]; ``execution_s``: its C.
        """
        begin_s = np.maximum(arrives_s, self._after_s(self._ready_s, now_s))
        found: Floats = np.where(
            begin_s + execution_s < self._blocked_from_s - now_s,
            begin_s,
            np.maximum(begin_s, self._blocked_to_s - now_s),
        )
        return found

    def last_starts_s(self, now_s: float) -> Floats:
        """When the last ready task of each queue would start, from now; without one, one more."""
        return self._after_s(self._ready_s - self._last_ready_s, now_s)

    def _after_s(self, queued_s: Floats, now_s: float) -> Floats:
        """When a task would start on each server with so much work queued before it, from now."""
        left_s = np.maximum(self._ends_s - self._running * now_s, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            behind_s = (left_s + queued_s) / self._slots
        first_s = np.maximum(self._first_end_s - now_s, 0.0)
        first_s[self._running < self._slots] = 0.0
        found: Floats = np.where(queued_s > 0, behind_s, first_s)
        found[self._slots == 0] = np.inf
        return found

    def starts_after_s(self, server: int, queued_s: float, now_s: float) -> float:
        """When a task would start with only so much work queued before it, from now."""
        slots, running = self._slots[server], self._running[server]
        if queued_s > 0:
            left_s = max(0.0, self._ends_s[server] - running * now_s)
            return float((left_s + queued_s) / max(1.0, slots))
        return 0.0 if running < slots else max(0.0, float(self._first_end_s[server]) - now_s)

    def usable(self, avoid: Container[NodeId] = ()) -> Bools:
        """Which servers can get tasks, but for those to avoid."""
        found: Bools = self._slots > 0
        if avoid:
            for name in self._cluster.nodes:
                if name in avoid:
                    found[self.number[name]] = False
        return found

    def ends_s(self, attempt: AttemptView) -> float:
        return self._in_slots[self.number[attempt.node.id]].get(attempt.id, self._cluster.now_s)

    # What happens --------------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView, ends_s: float) -> None:
        server = self.number[attempt.node.id]
        self._in_slots[server][attempt.id] = ends_s
        self._count_slots(server)

    def attempt_ended(self, attempt: AttemptView) -> None:
        server = self.number[attempt.node.id]
        self._in_slots[server].pop(attempt.id, None)
        self._count_slots(server)

    def slots_changed(self, node: SlotView) -> Iterator[QueuedTask]:
        """A node came, went, or has other slots; yields the tasks in its queue if it has none."""
        server = self.number[node.id]
        self._slots[server] = node.slots if node.alive else 0
        if not self._slots[server]:
            yield from list(self.queues[server].values())

    def _find_last_ready(self, server: int) -> None:
        queue = reversed(self.queues[server].values())
        last = next((entry for entry in queue if entry.ready), None)
        self._last_ready_s[server] = 0.0 if last is None else last.execution_s
        if last is None:
            self._ready_s[server] = 0.0

    def _count_blocked(self, server: int) -> None:
        blocked, slots = self._blocked[server].values(), max(1.0, float(self._slots[server]))
        if len(blocked) < slots:
            self._blocked_from_s[server], self._blocked_to_s[server] = np.inf, -np.inf
            return
        first_s = min([entry.starts_s for entry in blocked])
        together_s = first_s + sum([entry.execution_s for entry in blocked]) / slots
        last_s = max([entry.starts_s + entry.execution_s for entry in blocked])
        self._blocked_from_s[server] = first_s
        self._blocked_to_s[server] = max(together_s, last_s)

    def _count_slots(self, server: int) -> None:
        ends_s = self._in_slots[server].values()
        self._running[server] = len(ends_s)
        self._ends_s[server] = sum(ends_s)
        self._first_end_s[server] = min(ends_s, default=0.0)


# Policies -----------------------------------------------------------------------------------------
class LocalSchedulers(OrderPolicy, TaskPolicy):
    """Answers "order" and "tasks" by the servers' queues, which ``renew`` fills."""

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        estimates = Estimates(cluster)
        self.parts = (estimates,)
        self.graphs = TaskGraphs(cluster, estimates)
        self.servers = Servers(cluster)
        #: {stage: its tasks that were pending and in no queue when it was scheduled last}
        self._unscheduled: Counter[StageId] = Counter()
        self._proposals: list[Reserve | Withdraw] = []
        self._offered: dict[JobId, JobView] = {}
        #: jobs of which tasks may have become pending, or were taken off their servers
        self._to_recheck: dict[JobId, JobView] = {}
        self._avoided: dict[JobId, tuple[str, ...]] = {}  #: {job: servers that it avoids, if any}

    # For those who decide ------------------------------------------------------------------------
    def renew(self, stage: StageView) -> None:
        """Put tasks of a stage on servers that are pending and in no queue, as far as can be."""
        raise NotImplementedError

    def scheduled_jobs(self) -> Iterable[JobView]:
        return self.cluster.jobs.values()

    def to_schedule(self, stage: StageView) -> Iterator[TaskView]:
        if self.servers.count[stage.id] < stage.pending.count:
            for index in list(stage.pending):
                task = stage.tasks[index]
                if task.id not in self.servers.tasks:
                    yield task

    def count_unscheduled(self, stage: StageView) -> None:
        self._unscheduled[stage.id] = stage.pending.count - self.servers.count[stage.id]

    def alive(self, nodes: Sequence[NodeId]) -> list[int]:
        return [self.servers.number[node.id] for node in nodes_alive(self.cluster, nodes)]

    def reserve(self, entry: QueuedTask) -> None:
        why = "it is in the queue of this server, and its data can be sent"
        self._proposals.append(Reserve(entry.task, self.servers.names[entry.server], why))

    def make_ready(self, entry: QueuedTask) -> None:
        """A task can start; it is offered a slot of its server, if one is free."""
        self.servers.make_ready(entry)
        if self.cluster.nodes[self.servers.names[entry.server]].free:
            job = entry.task.stage.job
            self._offered[job.id] = job

    def take_out(self, entry: QueuedTask) -> None:
        self.servers.remove(entry)

    def offered(self) -> list[JobView]:
        """Jobs with tasks that have become ready where a slot is free, since the last time."""
        found, self._offered = list(self._offered.values()), {}
        return found

    def review(self) -> None:
        """Schedule tasks that have become pending again, or were taken off their servers."""
        if self._avoided or self._to_recheck:
            self._evict_from_avoided()
        jobs, self._to_recheck = self._to_recheck, {}
        if not jobs:
            return
        servers, known = self.servers, {job.id for job in self.scheduled_jobs()}
        for job in jobs.values():
            if job.id not in known:
                continue
            for stage in job.stages.values():
                noted = servers.count[stage.id] + self._unscheduled[stage.id]
                if noted != stage.pending.count:
                    self._take_out_of(stage, pending=False)
                    self.renew(stage)

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
        entry = self.servers.tasks.get(task.id)
        if entry is None:
            return "it is in no server's queue"
        starts = f"should start at {entry.starts_s:.3f} s"
        return f"{entry.state} in the queue of {self.servers.names[entry.server]}, {starts}"

    def propose(self) -> Iterable[Proposal]:
        made, self._proposals = self._proposals, []
        for proposal in made:
            if isinstance(proposal, Reserve):
                task = proposal.task
                pending = task.state == "pending" and task.reserved is None
                right = pending and self._is_queued_at(task, proposal.node)
            else:
                right = proposal.attempt.task.reserved is proposal.attempt
            if right:
                yield proposal

    def why(self, job: JobView) -> str:
        return "its tasks are in the queues of servers, or wait for what they read"

    def _first_ready(self, slot: SlotView) -> QueuedTask | None:
        server = self.servers.number[slot.id]
        while (entry := self.servers.first_ready(server)) is not None:
            if entry.task.state == "pending":
                return entry
            self.take_out(entry)  # it is not needed any more
        return None

    def _is_queued_at(self, task: TaskView, node: NodeId) -> bool:
        entry = self.servers.tasks.get(task.id)
        return entry is not None and self.servers.names[entry.server] == node

    # What happens --------------------------------------------------------------------------------
    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._take_out_of(stage)
            self.servers.forget(stage.id)
            self._unscheduled.pop(stage.id, None)
        self.graphs.ended(job)
        self._to_recheck.pop(job.id, None)
        self._avoided.pop(job.id, None)

    def attempt_ready(self, attempt: AttemptView) -> None:
        entry = self.servers.tasks.get(attempt.task.id)
        if entry is not None:
            self.servers.make_ready(entry)

    def attempt_launched(self, attempt: AttemptView) -> None:
        entry = self.servers.tasks.get(attempt.task.id)
        if entry is not None:
            self.take_out(entry)
        ends_s = self.cluster.now_s + self.graphs.execution_s(attempt.task.stage)
        self.servers.attempt_launched(attempt, ends_s)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self.servers.attempt_ended(attempt)
        self._recheck(attempt.task.stage.job)

    def reservation_ended(self, attempt: AttemptView) -> None:
        task = attempt.task
        if self._is_queued_at(task, attempt.node.id):
            self.take_out(self.servers.tasks[task.id])
        self._recheck(task.stage.job)

    def fetch_ended(self, fetch: FetchView) -> None:
        self._recheck(fetch.reader.task.stage.job)  # what it did not bring may be lost

    def node_joined(self, node: SlotView) -> None:
        """A node came, went, or has other slots: tasks leave it, and others may have room."""
        for entry in self.servers.slots_changed(node):
            self._evict(entry)
        for job in self.scheduled_jobs():
            self._recheck_whole(job)

    def node_lost(self, node: SlotView) -> None:
        self.node_joined(node)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self.node_joined(node)

    def _recheck(self, job: JobView) -> None:
        self._to_recheck[job.id] = job

    def _recheck_whole(self, job: JobView) -> None:
        """Recheck a job's tasks, even those that could not be scheduled before."""
        self._recheck(job)
        for stage in job.stages.values():
            self._unscheduled[stage.id] = 0

    def _evict(self, entry: QueuedTask) -> None:
        """A task can't stay on its server: it is unscheduled, and what it has read is lost."""
        self.take_out(entry)
        reserved = entry.task.reserved
        if reserved is not None:
            self._proposals.append(Withdraw(reserved, "its server takes no task any more"))

    def _evict_from_avoided(self) -> None:
        """Take a job's tasks off servers that it has come to avoid."""
        known = self.cluster.jobs
        for job in (*self._to_recheck.values(), *map(known.get, list(self._avoided))):
            avoid = () if job is None else tuple(job.avoid)
            if job is None or avoid == self._avoided.get(job.id, ()):
                continue
            self._avoided[job.id] = avoid
            if not avoid:
                del self._avoided[job.id]
            for entry in list(self.servers.tasks.values()):
                if entry.task.stage.job is job and self.servers.names[entry.server] in avoid:
                    self._evict(entry)
            self._recheck_whole(job)

    def _take_out_of(self, stage: StageView, *, pending: bool = True) -> None:
        """Take all tasks of a stage out of queues, or those that are pending no more."""
        if not self.servers.count[stage.id]:
            return
        for task in stage.tasks:
            entry = self.servers.tasks.get(task.id)
            if entry is not None and (pending or task.state != "pending"):
                self.take_out(entry)


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
