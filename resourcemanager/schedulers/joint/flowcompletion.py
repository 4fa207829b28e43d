"""Algorithm 2: what is done with bandwidth that a flow has released (IV-C.5).

Real flows get it from the network, by priority (lines 5 to 8; flow scheduler ``afap``).  Here are
the virtual flows (lines 9 to 17), and tasks that waited for bandwidth.  It is gone through when a
flow has ended, and when the network publishes what is free.

Left open there, chosen here: what a task on its own server waits for are the tasks before it; it is
taken out of that server's queue as it is moved.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.joint.controller import Controller
from railyard.resourcemanager.schedulers.joint.earlieststart import Start
from railyard.resourcemanager.schedulers.joint.flowlist import VirtualFlow
from railyard.resourcemanager.schedulers.joint.taskcompletion import TaskCompletion

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
