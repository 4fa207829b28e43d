"""The SDN controller (IV-C): on which server each task is put, and when, as tasks and flows end.

``EarliestStart`` is IV-C.4, equations (7) to (10); ``Controller`` has Algorithm 1, scheduling that
a completed task triggers (IV-C.1), and Algorithm 2, what is done with bandwidth that a flow has
released (IV-C.5).  Allocations are the policy's own notes; a task that has to wait for data from
elsewhere also gets a reservation, so that its data is sent to its server before it has a slot.

Edges from one stage to another are alike, so Algorithm 1 is gone through once for all tasks of a
stage that reads the completed task's.  Its lines 3 to 6 are the network's: the flow to a task that
has a server begins as its source ends.  So are lines 5 to 8 of Algorithm 2: real flows get what is
free by priority (flow scheduler ``afap``).

Left open there, chosen here:

* N in (7) and (10) is taken for M, the number of servers.  Of servers with equal times, one of a
  predecessor goes first, then the first in the topology.
* A map reads a block of a file.  It is a task after one that took no time, on a node with that
  block: it is put there or elsewhere by equation (7).
* Where all servers are out of reach of a predecessor, as no bandwidth is free, a task with a single
  one stays with it.  One with several waits for flows to end, ``unreachable_wait_s`` at most; then
  its server is the best one if no flow used the switches: its flows wait for bandwidth there.
* A task whose output is lost, or that failed, is scheduled again at once.
* What a pre-scheduled task waits for are the tasks before it in its server's queue; it leaves that
  queue when it is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, StageId
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.allocations import Allocations
from railyard.resourcemanager.schedulers.joint.servers import QueuedTask, Servers
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


# Earliest Start Time (IV-C.4) --------------------------------------------------------------------
class Start(NamedTuple):
    """A server, and when a task could start there."""

    server: int
    from_now_s: float


class Predecessors(NamedTuple):
    """The precedent tasks T of a task; all [tasks]."""

    servers: Numbers  #: m_u
    completed_s: Floats  #: c_u, from now


class EarliestStart:
    """Chooses the server that can start a task first; None if none can.  Times count from now."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._switches = switches
        self._servers = servers

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
        rack, free = self._servers.rack, self._switches.free()
        return max(at, key=lambda server: float(free[rack[server], rack[to]]))

    def of_several(
        self,
        tasks: Predecessors,
        sizes_bytes: Floats,
        usable: Bools,
        now_s: float,
        bandwidth: Floats,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equations (9) and (10): for a task whose predecessors' servers are known.

        ``sizes_bytes``: D of the edge from each of them; ``bandwidth`` [racks, racks] in bytes/s.
        """
        # O(tasks x racks + servers), and not tasks x servers: over the network, all servers of a
        # rack are reached alike.
        rack, order = self._servers.rack, np.argsort(tasks.servers, kind="stable")
        servers, begins = np.unique(tasks.servers[order], return_index=True)
        completed_s, sizes = tasks.completed_s[order], sizes_bytes[order]
        ways = bandwidth[rack[servers]]
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
        rack, free = self._servers.rack, self._switches.free()
        found = np.full(len(rack), np.inf)
        for server in at:
            tran_s = transmission_s(size_bytes, free[rack[server]])
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


# The controller ----------------------------------------------------------------------------------
class _Heads(NamedTuple):
    """The predecessors of all tasks of a stage."""

    tasks: Sequence[TaskView]
    of: Predecessors
    sending: Sequence[int]  #: servers of those that are completed
    settled: bool  #: whether all of them are


class Controller(Allocations):
    """Task graphs, servers, switches and flows; puts tasks on servers by the two algorithms."""

    def __init__(self, config: JointConfig, cluster: ClusterView, estimates: Estimates) -> None:
        super().__init__(cluster, estimates)
        self._config = config
        self.switches = Switches(cluster)
        self.flows = FlowList(self.switches, self.servers)
        self._earliest = EarliestStart(self.switches, self.servers)
        self._started_s: dict[JobId, float] = {}  #: when the first task of a job began
        self._unreachable: dict[StageId, tuple[StageView, float]] = {}  #: waiting since then
        self.figures = {"pre_scheduled": 0, "moved": 0, "out_of_reach": 0}

    def start(self, job: JobView) -> None:
        """The dispatcher has delivered a job: its start tasks are assigned."""
        for stage in job.stages.values():
            if stage.reads:  # until one of those is completed
                self.count_unscheduled(stage)
            else:
                self.renew(stage)

    def started(self, job: JobView) -> None:
        """A task of a job begins, maybe the first."""
        self._started_s.setdefault(job.id, self.cluster.now_s)

    def take_out(self, entry: QueuedTask) -> None:
        super().take_out(entry)
        self.flows.forget(entry.task.id)

    def forget(self, job: JobView) -> None:
        super().forget(job)
        self._started_s.pop(job.id, None)
        for stage in job.stages.values():
            self._unreachable.pop(stage.id, None)

    def wake_s(self) -> float | None:
        """When the first task has waited long enough for bandwidth; None = none waits."""
        waits_s = [since_s for _, since_s in self._unreachable.values()]
        return min(waits_s) + self._config.unreachable_wait_s if waits_s else None

    def priority(self, stage: StageView, size_bytes: float) -> tuple[float, ...]:
        """Of a flow into a stage (IV-C): the job's first start, minus the longest path."""
        started_s = self._started_s.get(stage.job.id, self.cluster.now_s)
        return started_s, -self.graphs.remaining_s(stage, size_bytes)

    # Algorithm 1 ---------------------------------------------------------------------------------
    def completed(self, task: TaskView) -> None:
        """Algorithm 1, for p = ``task``."""
        for stage in task.stage.readers:  # line 2
            self._schedule(stage)

    def renew(self, stage: StageView) -> None:
        """Schedule what can be of a stage with tasks that are pending and in no queue."""
        if stage.reads:
            self._schedule(stage)
            return
        usable = self.servers.usable(stage.job.avoid)
        for task in self.to_schedule(stage):
            self._start_task(task, usable)
        self.count_unscheduled(stage)

    def _start_task(self, task: TaskView, usable: Bools) -> None:
        block = task.input
        at = self.alive(block.nodes)
        if at:
            self._place_near(task, at, float(block.input_bytes), usable)
            return
        execution_s = self.graphs.execution_s(task.stage)
        start = self._earliest.anywhere(usable, self.cluster.now_s, execution_s)
        if start is not None:
            self._put(task, start, (), waits=False)

    def _schedule(self, stage: StageView) -> None:
        """Lines 7 to 29, for those tasks q of a stage that have no server yet."""
        waits = False
        if self.servers.count[stage.id] < stage.pending.count:
            first = [task for source in stage.reads for task in source.tasks[:2]][:2]
            if len(first) == 1:  # line 7
                self._after_one(stage, first[0])
            elif self._settled(stage):  # lines 17 to 23
                heads, usable = self._heads(stage), self.servers.usable(stage.job.avoid)
                tasks = self.to_schedule(stage)
                waits = any(self._place_after(task, heads, usable) for task in tasks)
        if not waits:
            self._unreachable.pop(stage.id, None)
        self.count_unscheduled(stage)

    def _after_one(self, stage: StageView, head: TaskView) -> None:
        """A single incoming edge: lines 7 to 15."""
        if head.winner is None:
            return
        at, usable = (
            [self.servers.number[head.winner.node.id]],
            self.servers.usable(stage.job.avoid),
        )
        for task in self.to_schedule(stage):
            self._place_near(task, at, self.graphs.edge_bytes(head, task), usable)

    def _place_near(
        self, task: TaskView, at: Sequence[int], size_bytes: float, usable: Bools
    ) -> None:
        """Put a task where it can start first, of which the data is on the servers ``at``."""
        now_s, execution_s = self.cluster.now_s, self.graphs.execution_s(task.stage)
        start = self._earliest.of_one(at, size_bytes, usable, now_s, execution_s)  # line 8
        if start is None:  # no bandwidth is free, and these servers take no task
            self.figures["out_of_reach"] += 1
            start = self._earliest.anywhere(usable, now_s, execution_s)
        if start is None:
            return
        if start.server in at:  # line 9
            self._pre_schedule(task, start, at, size_bytes)  # lines 10 and 11
        else:
            source = self._earliest.source(at, start.server)
            self._put(task, start, (source,), waits=True)  # lines 13 and 14

    def _settled(self, stage: StageView) -> bool:
        """Whether no predecessor is unscheduled or pre-scheduled: S of the algorithm is 0."""
        if not self._config.aeap:
            return all(source.complete for source in stage.reads)
        scheduled = self.servers.scheduled
        return all(source.pending.count == scheduled[source.id] for source in stage.reads)

    def _place_after(self, task: TaskView, heads: _Heads, usable: Bools) -> bool:
        """Put a task where it can start first after several others; returns whether it waits."""
        now_s, earliest = self.cluster.now_s, self._earliest
        sizes = np.array([self.graphs.edge_bytes(head, task) for head in heads.tasks])
        known = heads.of, sizes, usable, now_s
        execution_s = self.graphs.execution_s(task.stage)
        start = earliest.of_several(*known, self.switches.free(), execution_s)  # line 24
        if start is None:
            stage = task.stage
            _, since_s = self._unreachable.setdefault(stage.id, (stage, now_s))
            if now_s < since_s + self._config.unreachable_wait_s:
                return True
            self.figures["out_of_reach"] += 1
            start = earliest.of_several(*known, self.switches.capacities(), execution_s)
            start = start or earliest.anywhere(usable, now_s, execution_s)
        if start is not None:
            others = bool((heads.of.servers != start.server).any())
            self._put(task, start, heads.sending, waits=others or not heads.settled)  # 25 to 29
        return False

    def _heads(self, stage: StageView) -> _Heads:
        """What is known of those whom a stage's tasks read."""
        found: list[TaskView] = []
        servers, completed_s, sending, settled = [], [], dict[int, None](), True
        for source in stage.reads:
            execution_s = self.graphs.execution_s(source)
            for task in source.tasks:
                if task.state == "left":
                    continue
                if task.winner is not None:
                    server, after_s = self.servers.number[task.winner.node.id], 0.0
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
        servers, now_s = self.servers, self.cluster.now_s
        for attempt in (*task.live, *task.kept):
            return servers.number[attempt.node.id], servers.ends_s(attempt) - now_s
        entry = servers.tasks[task.id]
        return entry.server, max(0.0, entry.starts_s - now_s) + execution_s

    def _put(self, task: TaskView, start: Start, sends: Sequence[int], *, waits: bool) -> None:
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

    def _pre_schedule(
        self, task: TaskView, start: Start, heads: Sequence[int], size_bytes: float
    ) -> None:
        """Put a task beside the data that it reads, from where it may be moved."""
        virtual = self._config.virtual
        entry = self._allocate(task, start, scheduled=not virtual)
        self.figures["pre_scheduled"] += 1
        if virtual:
            self.flows.insert_virtual(VirtualFlow(entry, heads, size_bytes))
        self.make_ready(entry)

    def _allocate(self, task: TaskView, start: Start, *, scheduled: bool) -> QueuedTask:
        entry = QueuedTask(
            task=task,
            server=start.server,
            state="scheduled" if scheduled else "pre-scheduled",
            starts_s=self.cluster.now_s + start.from_now_s,
            execution_s=self.graphs.execution_s(task.stage),
        )
        self.servers.allocate(entry)
        return entry

    # Algorithm 2 ---------------------------------------------------------------------------------
    def released(self) -> None:
        """Algorithm 2: virtual flows, then tasks that waited for bandwidth."""
        if self.switches.any_is_free():  # line 4
            for flow in self._that_may_gain():  # lines 3 and 18
                self._visit(flow)
        for stage, _ in list(self._unreachable.values()):
            self._schedule(stage)

    def _visit(self, flow: VirtualFlow) -> None:
        """Lines 12 to 17; a flow whose tail has started is in the list no more (lines 9, 10)."""
        near = self.servers.rack[list(flow.heads)]
        if not self.switches.free()[near].any():
            return
        start = self._again(flow)
        if start is None or start.server in flow.heads:  # line 13
            return
        source = self._earliest.source(flow.heads, start.server)
        self.take_out(flow.tail)
        self.figures["moved"] += 1
        self._put(flow.tail.task, start, (source,), waits=True)  # lines 14 to 17

    def _again(self, flow: VirtualFlow) -> Start | None:
        """Equation (7) again: another server, if the task can start there earlier than here."""
        tail, now_s, heads = flow.tail, self.cluster.now_s, flow.heads
        ahead_s = self.servers.ahead_s(tail, now_s)
        usable = self.servers.usable(tail.task.stage.job.avoid)
        usable[list(heads)] = False
        start = self._earliest.of_one(heads, flow.size_bytes, usable, now_s, tail.execution_s)
        return start if start is not None and start.from_now_s < ahead_s else None

    def _that_may_gain(self) -> list[VirtualFlow]:
        """Virtual flows that could start elsewhere sooner if they had nothing to send, in order."""
        # Of very many virtual flows few are looked at one by one: those that wait for longer than
        # the best server takes that can be reached.
        now_s, servers = self.cluster.now_s, self.servers
        bounds = {each: self._best_elsewhere_s(each) for each in self.flows.virtual_execution_s}
        if not bounds:
            return []
        least_s = float(bounds[min(bounds)].min())  # the shorter a task, the sooner it can start
        found: list[tuple[tuple[float, ...], int, VirtualFlow]] = []
        for server in np.flatnonzero(least_s < servers.last_starts_s(now_s)).tolist():
            for flow, before_s in self.flows.virtual_to(server):
                starts_s = servers.starts_after_s(server, before_s, now_s)
                if starts_s <= least_s:
                    break  # so are those before it
                if starts_s > bounds[flow.tail.execution_s][list(flow.heads)].min():
                    stage = flow.tail.task.stage
                    started_s = self._started_s.get(stage.job.id, np.inf)
                    path_s = self.graphs.remaining_s(stage, flow.size_bytes)
                    found.append(((started_s, -path_s), flow.tail.number, flow))
        found.sort(key=lambda each: each[:2])
        return [flow for *_, flow in found]

    def _best_elsewhere_s(self, execution_s: float) -> Floats:
        """[servers]: when a task of that time starts on the best server reached from each."""
        rack = self.servers.rack
        available_s = self.servers.starts_s(0.0, self.cluster.now_s, execution_s)
        of_rack = np.full(int(rack.max()) + 1, np.inf)
        np.minimum.at(of_rack, rack, available_s)
        best_s: Floats = np.where(self.switches.free() > 0, of_rack, np.inf).min(axis=1)[rack]
        return best_s
