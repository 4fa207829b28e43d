"""Settings "joint.*"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, StageId
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.allocations import Allocations
from railyard.resourcemanager.schedulers.joint.servers import Allocated, QueuedTask, Servers
from railyard.resourcemanager.schedulers.joint.switches import (
    FlowList,
    Switches,
    VirtualFlow,
    transmission_s,
)


class JointConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "joint.*"; the paper has none."""

    section: ClassVar[str] = "joint"

    #: jobs in execution at one time (IV-B, where the rate of deliveries is left open); None = any
    running_max: int | None = None
    #: a job is delivered while some server would let its first task wait for no longer than this,
    #: by what is queued there (IV-B, "the loads of the servers"); None = however long
    wait_max_s: float | None = None
    #: how long a task waits, where all servers are out of reach of some predecessor, for a flow to
    #: end; then its server is chosen as if no flow used the switches
    unreachable_wait_s: float = 0.0
    #: whether a task that is put beside its only predecessor may be moved until it starts (IV-C.1)
    virtual: bool = True
    #: whether a task is put on a server as soon as those of its predecessors are known (IV-C.2)
    aeap: bool = True

    def __post_init__(self) -> None:
        most = self.running_max
        right = "a whole number above 0"
        require(most is None or most > 0, f"{self.section}.running_max", most, right)
        longest_s = self.wait_max_s
        right = "seconds >= 0 (0 = while a server is idle)"
        ok = longest_s is None or longest_s >= 0
        require(ok, f"{self.section}.wait_max_s", longest_s, right)
        wait_s = self.unreachable_wait_s
        right = "seconds >= 0 (0 never waits)"
        require(wait_s >= 0, f"{self.section}.unreachable_wait_s", wait_s, right)


# Earliest Start Time: the server that can start a task first (IV-C.4, equations (7) to (10)).
#
# Times count from now.  Left open there, chosen here (and N in (7) and (10) is taken for M, the
# number of servers): of servers with equal times, one of a predecessor goes first, then the first
# in the topology.  Where all servers are out of reach of some predecessor, nothing is found.


#: The bandwidth from a rack to each one [racks], in bytes/s.
Bandwidth = Callable[[int], Floats]


class Start(NamedTuple):
    """A server, and when a task could start there."""

    server: int
    from_now_s: float


class Predecessors(NamedTuple):
    """The precedent tasks T of a task; all [tasks]."""

    servers: Numbers  #: m_u
    completed_s: Floats  #: c_u, from now


class EarliestStart:
    """Chooses servers."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._servers = servers
        self.free: Bandwidth = switches.free_from
        self.capacities: Bandwidth = switches.capacity_from

    def anywhere(self, usable: Bools, now_s: float, execution_s: float = 0.0) -> Start | None:
        """For a task without predecessors: an idle server, or the one with the least workload."""
        return _first(self._servers.starts_s(0.0, now_s, execution_s), usable, ())

    def of_one(
        self,
        at: Sequence[int],
        size_bytes: float,
        usable: Bools,
        now_s: float,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equation (7): for a task whose only predecessor has ended.

        ``at``: the servers where that has left its data, any of which can send it;
        ``execution_s``: C of the task.
        """
        tran_s = self.transmission_s(at, size_bytes)
        start_s = self._servers.starts_s(tran_s, now_s, execution_s)
        return _first(start_s, usable, at)

    def source(self, at: Sequence[int], to: int) -> int:
        """Which of some servers sends data to another: the nearest one, by which (7) counts.

        Of equally near ones, the first.
        """
        rack = self._servers.rack
        return max(at, key=lambda server: float(self.free(int(rack[server]))[rack[to]]))

    def of_several(
        self,
        tasks: Predecessors,
        sizes_bytes: Floats,
        usable: Bools,
        now_s: float,
        bandwidth: Bandwidth,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equations (9) and (10): for a task whose predecessors' servers are known.

        ``sizes_bytes``: D of the edge from each of them.
        """
        # O(tasks x racks + servers), and not tasks x servers: over the network, all servers of a
        # rack are reached alike.
        rack, order = self._servers.rack, np.argsort(tasks.servers, kind="stable")
        servers, begins = np.unique(tasks.servers[order], return_index=True)
        completed_s, sizes = tasks.completed_s[order], sizes_bytes[order]
        ways = np.array([bandwidth(each) for each in rack[servers].tolist()])
        of_task = np.repeat(np.arange(len(servers)), np.diff(np.append(begins, len(order))))
        arrive_s = completed_s[:, None] + transmission_s(sizes[:, None], ways[of_task])
        by_server = np.maximum.reduceat(arrive_s, begins, axis=0)  # [server of some, rack]
        there_s = np.maximum.reduceat(completed_s, begins)  # [server of some]: nothing is sent
        latest, second_s = by_server.argmax(axis=0), _second(by_server)
        latest_s = by_server.max(axis=0)
        start_s = latest_s[rack]
        near, own = rack[servers], np.arange(len(servers))
        others_s = np.where(latest[near] == own, second_s[near], latest_s[near])
        start_s[servers] = np.maximum(others_s, there_s)
        start_s = self._servers.starts_s(start_s, now_s, execution_s)
        return _first(start_s, usable, servers.tolist())

    def transmission_s(self, at: Sequence[int], size_bytes: float) -> Floats:
        """t_TRAN from the nearest of some servers to each one [servers]."""
        rack = self._servers.rack
        found = np.full(len(rack), np.inf)
        for server in at:
            tran_s = transmission_s(size_bytes, self.free(int(rack[server])))
            found = np.minimum(found, tran_s[rack])
        found[list(at)] = 0.0
        return found


def _second(by_server: Floats) -> Floats:
    """The second largest of each column; -inf where there is only one."""
    if len(by_server) == 1:
        return np.full(by_server.shape[1], -np.inf)
    found: Floats = np.partition(by_server, -2, axis=0)[-2]
    return found


def _first(start_s: Floats, usable: Bools, own: Sequence[int]) -> Start | None:
    """The server with the earliest start; of equal ones, one of ``own``, then the first."""
    start_s = np.where(usable, start_s, np.inf)
    server = int(start_s.argmin())
    earliest_s = float(start_s[server])
    if earliest_s == np.inf:
        return None
    return Start(min((s for s in own if start_s[s] == earliest_s), default=server), earliest_s)


# What the SDN controller knows, and how it puts tasks on servers (IV-C): used by both algorithms.
#
# Allocations are the policy's own notes.  A task that has to wait for data from elsewhere also gets
# a reservation, so that its data is sent to its server before it has a slot there.


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


# Algorithm 1: scheduling that a completed task triggers, and that of a job's start tasks (IV-C.1).
#
# Edges from one stage to another are alike, so the lines of the algorithm are gone through once for
# all tasks of a stage that reads the completed task's.  Lines 3 to 6 are the network's: the flow to
# a task that has a server begins as its source ends, and is noted in the flow list then.
#
# Left open there, chosen here:
#
# * A map reads a block of a file.  It is a task after one that took no time, on a node with that
#   block: it is put there or elsewhere by equation (7).
# * Where all servers are out of reach of a predecessor, as no bandwidth is free, a task with a
# single   one stays with it.  One with several waits for flows to end, ``unreachable_wait_s`` at
# most; then
#   its server is the best one if no flow used the switches: its flows wait for bandwidth there.
# * A task whose output is lost, or that failed, is scheduled again at once.


class _Heads(NamedTuple):
    """The predecessors of all tasks of a stage."""

    tasks: Sequence[TaskView]
    of: Predecessors
    sending: Sequence[int]  #: servers of those that are completed
    settled: bool  #: whether all of them are


class TaskCompletion:
    """Schedules start tasks, and the successors of completed ones."""

    def __init__(self, controller: Controller) -> None:
        self._c = controller

    def start(self, job: JobView) -> None:
        """The dispatcher has delivered a job: its start tasks are assigned."""
        for stage in job.stages.values():
            if stage.reads:  # until one of those is completed
                self._c.looked_at(stage)
            else:
                self.renew(stage)

    def completed(self, task: TaskView) -> None:
        """Algorithm 1, for p = ``task``."""
        for stage in task.stage.readers:  # line 2
            self.schedule(stage)

    def renew(self, stage: StageView) -> None:
        """Schedule what can be of a stage with tasks that are pending and in no queue."""
        if stage.reads:
            self.schedule(stage)
            return
        c, usable = self._c, self._c.usable(stage.job)
        for task in c.to_schedule(stage):
            self._start_task(task, usable)
        c.looked_at(stage)

    def schedule(self, stage: StageView) -> None:
        """Lines 7 to 29, for those tasks q of a stage that have no server yet."""
        c, waits = self._c, False
        if c.servers.count[stage.id] < stage.pending.count:
            heads = [source for source in stage.reads for _ in range(min(2, source.size))]
            if len(heads) == 1:  # line 7
                self._after_one(stage, heads[0].tasks[0])
            elif self._settled(stage):  # lines 17 to 23
                waits = self._after_several(stage)
        if not waits:
            c.unreachable_s.pop(stage.id, None)
        c.looked_at(stage)

    # Start tasks ---------------------------------------------------------------------------------
    def _start_task(self, task: TaskView, usable: Bools) -> None:
        c, now_s = self._c, self._c.cluster.now_s
        block = task.input
        at = c.alive(block.nodes)
        if at:
            self._place_near(task, at, float(block.input_bytes), usable)
            return
        start = c.earliest.anywhere(usable, now_s, c.graphs.execution_s(task.stage))
        if start is not None:
            c.schedule(task, start, (), waits=False)

    # A single incoming edge (lines 7 to 15) ------------------------------------------------------
    def _after_one(self, stage: StageView, head: TaskView) -> None:
        c = self._c
        if head.winner is None:
            return
        at, usable = [c.servers.number[head.winner.node.id]], c.usable(stage.job)
        for task in c.to_schedule(stage):
            self._place_near(task, at, c.graphs.edge_bytes(head, task), usable)

    def _place_near(
        self, task: TaskView, at: Sequence[int], size_bytes: float, usable: Bools
    ) -> None:
        """Put a task where it can start first, of which the data is on the servers ``at``."""
        c, now_s = self._c, self._c.cluster.now_s
        execution_s = c.graphs.execution_s(task.stage)
        start = c.earliest.of_one(at, size_bytes, usable, now_s, execution_s)  # line 8
        if start is None:  # no bandwidth is free, and these servers take no task
            c.out_of_reach += 1
            start = c.earliest.anywhere(usable, now_s, execution_s)
        if start is None:
            return
        if start.server in at:  # line 9
            c.pre_schedule(task, start, at, size_bytes)  # lines 10 and 11
        else:
            source = c.earliest.source(at, start.server)
            c.schedule(task, start, (source,), waits=True)  # lines 13 and 14

    # Several incoming edges (lines 17 to 29) -----------------------------------------------------
    def _settled(self, stage: StageView) -> bool:
        """Whether no predecessor is unscheduled or pre-scheduled: S of the algorithm is 0."""
        if not self._c.config.aeap:
            return all(source.complete for source in stage.reads)
        scheduled = self._c.servers.scheduled
        return all(source.pending.count == scheduled[source.id] for source in stage.reads)

    def _after_several(self, stage: StageView) -> bool:
        """Put tasks of a stage on servers; returns whether some wait for bandwidth."""
        c, heads, usable = self._c, self._heads(stage), self._c.usable(stage.job)
        return any(self._place_after(task, heads, usable) for task in c.to_schedule(stage))

    def _place_after(self, task: TaskView, heads: _Heads, usable: Bools) -> bool:
        """Put a task where it can start first after several others, unless it waits: returns."""
        c, now_s = self._c, self._c.cluster.now_s
        sizes = np.array([c.graphs.edge_bytes(head, task) for head in heads.tasks])
        asked = heads.of, sizes, usable, now_s
        execution_s = c.graphs.execution_s(task.stage)
        start = c.earliest.of_several(*asked, c.earliest.free, execution_s)  # line 24
        if start is None:
            stage = task.stage
            _, since_s = c.unreachable_s.setdefault(stage.id, (stage, now_s))
            if now_s < since_s + c.config.unreachable_wait_s:
                return True
            c.out_of_reach += 1
            start = c.earliest.of_several(*asked, c.earliest.capacities, execution_s)
            start = start or c.earliest.anywhere(usable, now_s, execution_s)
        if start is not None:
            others = bool((heads.of.servers != start.server).any())
            waits = others or not heads.settled
            c.schedule(task, start, heads.sending, waits=waits)  # lines 25 to 29
        return False

    def _heads(self, stage: StageView) -> _Heads:
        """What is known of those whom a stage's tasks read."""
        c = self._c
        found: list[TaskView] = []
        servers, completed_s, sending, settled = [], [], dict[int, None](), True
        for source in stage.reads:
            execution_s = c.graphs.execution_s(source)
            for task in source.tasks:
                if task.state == "left":
                    continue
                if task.winner is not None:
                    server, after_s = c.servers.number[task.winner.node.id], 0.0
                    sending[server] = None
                else:
                    server, after_s = self._expected(task, execution_s)
                    settled = False
                found.append(task)
                servers.append(server)
                completed_s.append(max(0.0, after_s))
        of = Predecessors(np.array(servers, dtype=np.int64), np.array(completed_s))
        return _Heads(found, of, list(sending), settled)

    def _expected(self, task: TaskView, execution_s: float) -> tuple[int, float]:
        """The server of a task that is not done, and from now when it should be: c_u."""
        servers, now_s = self._c.servers, self._c.cluster.now_s
        for attempt in (*task.live, *task.kept):
            return servers.number[attempt.node.id], servers.ends_s(attempt) - now_s
        entry = servers.tasks[task.id]
        return entry.server, max(0.0, entry.starts_s - now_s) + execution_s


# Algorithm 2: what is done with bandwidth that a flow has released (IV-C.5).
#
# Real flows get it from the network, by priority (lines 5 to 8; flow scheduler ``afap``).  Here are
# the virtual flows (lines 9 to 17), and tasks that waited for bandwidth.  It is gone through when a
# flow has ended, and when the network publishes what is free.
#
# Left open there, chosen here: what a task on its own server waits for are the tasks before it; it
# is taken out of that server's queue as it is moved.


#: (job's first start, minus the longest path): the smallest first
Priority = tuple[float, ...]


class FlowCompletion:
    """Lets virtual flows become real."""

    def __init__(self, controller: Controller, tasks: TaskCompletion) -> None:
        self._c = controller
        self._tasks = tasks

    def released(self) -> None:
        """Algorithm 2."""
        c = self._c
        if c.switches.any_is_free():  # line 4
            for flow in self._that_may_gain():  # lines 3 and 18
                self._visit(flow)
        for stage, _ in list(c.unreachable_s.values()):
            self._tasks.schedule(stage)

    def _visit(self, flow: VirtualFlow) -> None:
        """Lines 12 to 17; a flow whose tail has started is in the list no more (lines 9, 10)."""
        c, tail = self._c, flow.tail
        near = {int(c.servers.rack[head]) for head in flow.heads}
        if not any(c.switches.free_from(rack).any() for rack in near):
            return
        start = self._again(flow)
        if start is None or start.server in flow.heads:  # line 13
            return
        source = c.earliest.source(flow.heads, start.server)
        c.take_out(tail)
        c.moved += 1
        c.schedule(tail.task, start, (source,), waits=True)  # lines 14 to 17

    def _again(self, flow: VirtualFlow) -> Start | None:
        """Equation (7) again: another server, if the task can start there earlier than here."""
        c, tail, now_s = self._c, flow.tail, self._c.cluster.now_s
        ahead_s = c.servers.ahead_s(tail, now_s)
        usable = c.usable(tail.task.stage.job)
        usable[list(flow.heads)] = False
        start = c.earliest.of_one(flow.heads, flow.size_bytes, usable, now_s, tail.execution_s)
        return start if start is not None and start.from_now_s < ahead_s else None

    def _that_may_gain(self) -> list[VirtualFlow]:
        """Virtual flows that could start elsewhere sooner if they had nothing to send, in order."""
        # Of very many virtual flows few are looked at one by one: those that wait for longer than
        # the best server takes that can be reached.
        c, now_s = self._c, self._c.cluster.now_s
        if not c.flows.virtual:
            return []
        bounds = {each: self._best_elsewhere_s(each) for each in c.flows.virtual_execution_s}
        least_s = float(bounds[min(bounds)].min())  # the shorter a task, the sooner it can start
        found: list[tuple[Priority, VirtualFlow]] = []
        for server in np.flatnonzero(least_s < c.servers.last_starts_s(now_s)).tolist():
            for flow, before_s in c.flows.virtual_to(server):
                starts_s = c.servers.starts_after_s(server, before_s, now_s)
                if starts_s <= least_s:
                    break  # so are those before it
                if starts_s > bounds[flow.tail.execution_s][list(flow.heads)].min():
                    found.append((self._priority(flow), flow))
        found.sort(key=lambda each: (each[0], each[1].tail.number))
        return [flow for _, flow in found]

    def _best_elsewhere_s(self, execution_s: float) -> Floats:
        """[servers]: when a task of that time starts on the best server reached from each."""
        c, rack = self._c, self._c.servers.rack
        available_s = c.servers.starts_s(0.0, c.cluster.now_s, execution_s)
        of_rack = np.full(int(rack.max()) + 1, np.inf)
        np.minimum.at(of_rack, rack, available_s)
        best_s: Floats = np.where(c.switches.free() > 0, of_rack, np.inf).min(axis=1)[rack]
        return best_s

    def _priority(self, flow: VirtualFlow) -> Priority:
        c, stage = self._c, flow.tail.task.stage
        started_s = c.started_s.get(stage.job.id, np.inf)
        return started_s, -c.graphs.remaining_s(stage, flow.size_bytes)
