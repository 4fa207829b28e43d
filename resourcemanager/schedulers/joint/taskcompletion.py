"""Algorithm 1: scheduling that a completed task triggers, and that of a job's start tasks (IV-C.1).

Edges from one stage to another are alike, so the lines of the algorithm are gone through once for
all tasks of a stage that reads the completed task's.  Lines 3 to 6 are the network's: the flow to a
task that has a server begins as its source ends, and is noted in the flow list then.

Left open there, chosen here:

* A map reads a block of a file.  It is a task after one that took no time, on a node with that
  block: it is put there or elsewhere by equation (7).
* Where all servers are out of reach of a predecessor, as no bandwidth is free, a task with a single
  one stays with it.  One with several waits for flows to end, ``unreachable_wait_s`` at most; then
  its server is the best one if no flow used the switches: its flows wait for bandwidth there.
* A task whose output is lost, or that failed, is scheduled again at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from railyard.netemu.model.arrays import Bools
from railyard.resourcemanager.interface.views import JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.controller import Controller
from railyard.resourcemanager.schedulers.joint.earlieststart import Predecessors


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
