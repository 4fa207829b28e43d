"""Joint: each task goes where it can start first with the bandwidth that is free, its data at once.

Source: Yang et al., "Joint Scheduling of Tasks and Network Flows in Big Data Clusters", IEEE Access
2018, sections III to V.  Here are the job dispatcher (IV-B), the messages that trigger the SDN
controller (IV-A), and the controller (IV-C): Algorithm 1, scheduling that a completed task triggers
(IV-C.1), Algorithm 2, what is done with bandwidth that a flow has released (IV-C.5), and the flows'
priorities: first those of the job that began first, then those with the longest path to the end of
their job.  A task that waits for data gets a reservation, so that this comes before it has a slot.

Edges from one stage to another are alike, so Algorithm 1 is gone through once for all tasks of a
stage that reads the completed task's.  Its lines 3 to 6 are the network's: the flow to a task that
has a server begins as its source ends.  So are lines 5 to 8 of Algorithm 2: real flows get what is
free by priority (flow scheduler ``afap``).

Left open there, chosen here:

* How fast jobs are delivered "depends on the number of jobs being executed, the loads of the
  servers, and the available bandwidth".  A job is delivered while there is room for it, by a limit
  to the number (``running_max``), and one to how long the least loaded server would let a further
  task wait; by default there is none, and HRRN orders nothing.  Bandwidth never counts, as a job's
  first tasks need little of it.  Jobs with equal ratios go
  as they came; one without work goes first.
* What the network has free is what it has published last, at most ``links.period_s`` ago, less
  what was promised since.  Block reads and writes have no priority, and so come after all flows of
  shuffles.  Speculative copies, if they are on, are placed as ever.
* A map reads a block of a file.  It is a task after one that took no time, on a node with that
  block: it is put there or elsewhere by equation (7).
* Where all servers are out of reach of a predecessor, as no bandwidth is free, a task with a single
  one stays with it.  One with several waits for flows to end, ``unreachable_wait_s`` at most; then
  its server is the best one if no flow used the switches: its flows wait for bandwidth there.
* A task whose output is lost, or that failed, is scheduled again at once.
* A pre-scheduled task waits for those before it in its server's queue, which it leaves when moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, StageId
from railyard.cluster.units import format_count
from railyard.netemu.model.arrays import Bools, Floats
from railyard.netemu.model.network import LinkState
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
from railyard.resourcemanager.schedulers.joint.servers import LocalSchedulers, QueuedTask, WhenReady
from railyard.resourcemanager.schedulers.joint.switches import (
    EarliestStart,
    FlowList,
    Predecessors,
    Start,
    Switches,
    VirtualFlow,
)


class JointConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "joint.*"; the paper has none."""

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
        most, longest_s, wait_s = self.running_max, self.wait_max_s, self.unreachable_wait_s
        require(most is None or most > 0, "joint.running_max", most, "a whole number above 0")
        right = "seconds >= 0 (0 = while a server is idle)"
        require(longest_s is None or longest_s >= 0, "joint.wait_max_s", longest_s, right)
        require(wait_s >= 0, "joint.unreachable_wait_s", wait_s, "seconds >= 0 (0 never waits)")


# The job dispatcher (IV-B) -----------------------------------------------------------------------
class Dispatcher:
    """The job queue, Highest Response Ratio Next; its limits are as in ``JointConfig``."""

    def __init__(self, running_max: int | None, wait_max_s: float | None = None) -> None:
        self._running_max = running_max
        self._wait_max_s = wait_max_s
        self._waiting: dict[JobId, tuple[JobView, float]] = {}  #: {job: itself, sum of its C}
        self.running: dict[JobId, JobView] = {}  #: the job execution list

    def submitted(self, job: JobView, work_s: float) -> None:
        """Put a job into the queue; ``work_s``: the execution times of all its tasks, added up."""
        self._waiting[job.id] = job, work_s

    def next(self, now_s: float, least_wait_s: Callable[[], float]) -> JobView | None:
        """Deliver the job with the highest priority; None if there is none or no room for it."""
        full = self._running_max is not None and len(self.running) >= self._running_max
        if not self._waiting or full:
            return None
        if self._wait_max_s is not None and least_wait_s() > self._wait_max_s:
            return None
        # of equal ones, the first
        job, _ = max(self._waiting.values(), key=lambda each: response_ratio(now_s, *each))
        del self._waiting[job.id]
        self.running[job.id] = job
        return job

    def ended(self, job: JobView) -> None:
        self._waiting.pop(job.id, None)
        self.running.pop(job.id, None)

    def why_waiting(self, job: JobView, now_s: float) -> str:
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
class _Heads(NamedTuple):
    """The predecessors of all tasks of a stage."""

    tasks: Sequence[TaskView]
    of: Predecessors
    sending: Sequence[int]  #: servers of those that are completed
    settled: bool  #: whether all of them are


class Joint(LocalSchedulers, FlowPolicy):
    """Answers "order" and "tasks" by the servers' queues (IV-D), and "flows"."""

    Config = JointConfig
    section = "joint"
    uses_forecasts = True

    def __init__(self, config: JointConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._dispatcher = Dispatcher(config.running_max, config.wait_max_s)
        self._switches = Switches(cluster)
        self.flows = FlowList(self._switches, self.servers)
        self._earliest = EarliestStart(self._switches, self.servers)
        self._started_s: dict[JobId, float] = {}  #: when the first task of a job began
        self._unreachable: dict[StageId, tuple[StageView, float]] = {}  #: waiting since then
        self._completed: list[TaskView] = []  #: since the controller was triggered last
        self._released = False  #: whether bandwidth was, since then
        #: ``forecasts_not_fitting``: those with other stages than their jobs have
        self._figures = dict.fromkeys(
            ("pre_scheduled", "moved", "out_of_reach", "forecasts_not_fitting"), 0
        )

    def figures(self) -> Mapping[str, float]:
        return dict(self._figures)

    # Messages (IV-A) -----------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        stages = {name: [each.name for each in stage.reads] for name, stage in job.stages.items()}
        if job.forecast is not None and not fits(job.forecast, stages):
            self._figures["forecasts_not_fitting"] += 1
        self.graphs.submitted(job)
        self._dispatcher.submitted(job, self.graphs.work_s(job))

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        self._dispatcher.ended(job)
        self._started_s.pop(job.id, None)
        for stage in job.stages.values():
            self._unreachable.pop(stage.id, None)

    def task_done(self, task: TaskView) -> None:
        self._completed.append(task)

    def fetch_started(self, fetch: FetchView) -> None:
        number, reader = self.servers.number, fetch.reader
        self.flows.insert_real(reader.task.id, number[fetch.node.id], number[reader.node.id])

    def fetch_ended(self, fetch: FetchView) -> None:
        super().fetch_ended(fetch)
        self.flows.ended(fetch.reader.task.id, self.servers.number[fetch.node.id])
        self._released |= fetch.node is not fetch.reader.node

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self._switches.observed(changed)
        self._released = True

    def attempt_ready(self, attempt: AttemptView) -> None:
        super().attempt_ready(attempt)
        if not attempt.task.stage.reads:  # its block was read
            self.flows.forget(attempt.task.id)
            self._released = True

    def attempt_launched(self, attempt: AttemptView) -> None:
        super().attempt_launched(attempt)
        self.flows.forget(attempt.task.id)
        self._started_s.setdefault(attempt.task.stage.job.id, self.cluster.now_s)

    # The controller is triggered -----------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        self.review()
        while (job := self._dispatcher.next(self.cluster.now_s, self._least_wait_s)) is not None:
            for stage in job.stages.values():  # its start tasks are assigned
                if stage.reads:  # until one of those is completed
                    self.count_unscheduled(stage)
                else:
                    self.renew(stage)
        completed, self._completed = self._completed, []
        for task in completed:  # Algorithm 1, for p = ``task``
            if task.stage.job.id in self._dispatcher.running:
                for stage in task.stage.readers:  # line 2
                    self._schedule(stage)
        due_s = self.wake_s()
        if self._released or (due_s is not None and due_s <= self.cluster.now_s):
            self._released = False
            self.released()
        return self.offered()

    def wake_s(self) -> float | None:
        """When the first task has waited long enough for bandwidth; None = none waits."""
        waits_s = [since_s for _, since_s in self._unreachable.values()]
        return min(waits_s) + self._config.unreachable_wait_s if waits_s else None

    def scheduled_jobs(self) -> Iterable[JobView]:
        return self._dispatcher.running.values()

    def why(self, job: JobView) -> str:
        return self._dispatcher.why_waiting(job, self.cluster.now_s) or super().why(job)

    def take_out(self, entry: QueuedTask) -> None:
        super().take_out(entry)
        self.flows.forget(entry.task.id)

    def _least_wait_s(self) -> float:
        return float(self.servers.starts_s(0.0, self.cluster.now_s).min())

    # Flow list (IV-C) ----------------------------------------------------------------------------
    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        return self._priority(reader.task.stage, size_bytes, self.cluster.now_s)

    def _priority(
        self, stage: StageView, size_bytes: float, not_yet_s: float
    ) -> tuple[float, float]:
        """Of a flow into a stage: the job's first start, minus the longest path."""
        started_s = self._started_s.get(stage.job.id, not_yet_s)
        return started_s, -self.graphs.remaining_s(stage, size_bytes)

    # Algorithm 1 ---------------------------------------------------------------------------------
    def renew(self, stage: StageView) -> None:
        """Schedule what can be of a stage with tasks that are pending and in no queue."""
        if stage.reads:
            self._schedule(stage)
            return
        usable, now_s = self.servers.usable(stage.job.avoid), self.cluster.now_s
        for task in self.to_schedule(stage):
            at = self.alive(task.input.nodes)
            if at:
                self._place_near(task, at, float(task.input.input_bytes), usable)
                continue
            start = self._earliest.anywhere(usable, now_s, self.graphs.execution_s(stage))
            if start is not None:
                self._put(task, start, (), waits=False)
        self.count_unscheduled(stage)

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
        at = [self.servers.number[head.winner.node.id]]
        usable = self.servers.usable(stage.job.avoid)
        for task in self.to_schedule(stage):
            self._place_near(task, at, self.graphs.edge_bytes(head, task), usable)

    def _place_near(
        self, task: TaskView, at: Sequence[int], size_bytes: float, usable: Bools
    ) -> None:
        """Put a task where it can start first, of which the data is on the servers ``at``."""
        now_s, execution_s = self.cluster.now_s, self.graphs.execution_s(task.stage)
        start = self._earliest.of_one(at, size_bytes, usable, now_s, execution_s)  # line 8
        if start is None:  # no bandwidth is free, and these servers take no task
            self._figures["out_of_reach"] += 1
            start = self._earliest.anywhere(usable, now_s, execution_s)
        if start is None:
            return
        if start.server in at:  # line 9
            self._figures["pre_scheduled"] += 1
            virtual = self._config.virtual
            entry = self._allocate(task, start, scheduled=not virtual)  # lines 10 and 11
            if virtual:
                self.flows.insert_virtual(VirtualFlow(entry, at, size_bytes))
            self.make_ready(entry)
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
        start = earliest.of_several(*known, self._switches.free(), execution_s)  # line 24
        if start is None:
            stage = task.stage
            _, since_s = self._unreachable.setdefault(stage.id, (stage, now_s))
            if now_s < since_s + self._config.unreachable_wait_s:
                return True
            self._figures["out_of_reach"] += 1
            start = earliest.of_several(*known, self._switches.capacities(), execution_s)
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

        ``sends``: servers that have data for it now; ``waits``: whether any has to come, ever.
        """
        entry = self._allocate(task, start, scheduled=True)
        for server in sends:
            self.flows.insert_real(task.id, server, start.server)
        if waits:
            self.reserve(entry)
        else:
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
        if self._switches.any_is_free():  # line 4
            for flow in self._that_may_gain():  # lines 3 and 18
                self._visit(flow)
        for stage, _ in list(self._unreachable.values()):
            self._schedule(stage)

    def _visit(self, flow: VirtualFlow) -> None:
        """Lines 12 to 17, by (7); a flow whose tail has started is listed no more (9, 10)."""
        near = self.servers.rack[list(flow.heads)]
        if not self._switches.free()[near].any():
            return
        tail, now_s, heads = flow.tail, self.cluster.now_s, flow.heads
        ahead_s = self.servers.ahead_s(tail, now_s)
        usable = self.servers.usable(tail.task.stage.job.avoid)
        usable[list(heads)] = False  # line 13
        start = self._earliest.of_one(heads, flow.size_bytes, usable, now_s, tail.execution_s)
        if start is None or start.from_now_s >= ahead_s:
            return
        source = self._earliest.source(heads, start.server)
        self.take_out(tail)
        self._figures["moved"] += 1
        self._put(tail.task, start, (source,), waits=True)  # lines 14 to 17

    def _that_may_gain(self) -> list[VirtualFlow]:
        """Virtual flows that could start elsewhere sooner if they had nothing to send, in order."""
        # Of very many few are considered one by one: those that wait longer than the best server.
        now_s, servers = self.cluster.now_s, self.servers
        bounds = {each: self._best_elsewhere_s(each) for each in self.flows.virtual_execution_s}
        if not bounds:
            return []
        least_s = float(bounds[min(bounds)].min())  # the shorter a task, the sooner it can start
        found: list[tuple[tuple[float, float], int, VirtualFlow]] = []
        for server in np.flatnonzero(least_s < servers.last_starts_s(now_s)).tolist():
            for flow, before_s in self.flows.virtual_to(server):
                starts_s = servers.starts_after_s(server, before_s, now_s)
                if starts_s <= least_s:
                    break  # so are those before it
                if starts_s > bounds[flow.tail.execution_s][list(flow.heads)].min():
                    first = self._priority(flow.tail.task.stage, flow.size_bytes, inf)
                    found.append((first, flow.tail.number, flow))
        found.sort(key=lambda each: each[:2])
        return [flow for *_, flow in found]

    def _best_elsewhere_s(self, execution_s: float) -> Floats:
        """[servers]: when a task of that time starts on the best server reached from each."""
        rack = self.servers.rack
        available_s = self.servers.starts_s(0.0, self.cluster.now_s, execution_s)
        of_rack = np.full(int(rack.max()) + 1, np.inf)
        np.minimum.at(of_rack, rack, available_s)
        best_s: Floats = np.where(self._switches.free() > 0, of_rack, np.inf).min(axis=1)[rack]
        return best_s


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
