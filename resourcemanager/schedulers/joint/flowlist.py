"""The flow list (IV-C, Fig. 4b): real flows with what they were promised, and virtual flows.

A virtual flow is the edge of a task that was put beside its only predecessor: it has no bandwidth,
and the task may be moved until it starts.  Between two servers there is one flow for each task,
which carries all that the task reads there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from railyard.cluster.ids import TaskId
from railyard.resourcemanager.schedulers.joint.switches import Promise, Switches
from railyard.resourcemanager.schedulers.shared.serverqueues.servers import QueuedTask, Servers


class VirtualFlow(NamedTuple):
    """The edge into a task that is on the server of its head."""

    tail: QueuedTask
    heads: Sequence[int]  #: servers that have what it reads; the tail's is one of them
    size_bytes: float


class FlowList:
    """All flows."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._switches = switches
        self._servers = servers
        #: {task: {server from which it reads: what was promised}}
        self._real: dict[TaskId, dict[int, Promise]] = {}
        self._virtual: dict[TaskId, VirtualFlow] = {}
        self.virtual_execution_s: Counter[float] = Counter()  #: {C: virtual flows to such tasks}

    @property
    def real(self) -> int:
        """Number of real flows."""
        return sum([len(flows) for flows in self._real.values()])

    @property
    def virtual(self) -> int:
        """Number of virtual flows."""
        return len(self._virtual)

    def insert_real(self, task: TaskId, src: int, dst: int) -> None:
        """A flow to a task; it is promised all that is free on its path, unless it was before."""
        if src != dst and src not in self._real.get(task, {}):
            rack = self._servers.rack
            promise = self._switches.promise(int(rack[src]), int(rack[dst]))
            self._real.setdefault(task, {})[src] = promise

    def insert_virtual(self, flow: VirtualFlow) -> None:
        """A flow without bandwidth."""
        self._virtual[flow.tail.task.id] = flow
        self.virtual_execution_s[flow.tail.execution_s] += 1

    def ended(self, task: TaskId, src: int) -> None:
        """A real flow has ended: what it was promised is free."""
        flows = self._real.get(task, {})
        promise = flows.pop(src, None)
        if promise is not None:
            self._switches.give_back(promise)
            if not flows:
                del self._real[task]

    def forget(self, task: TaskId) -> None:
        """All flows to a task are gone, as it starts or is put elsewhere."""
        flow = self._virtual.pop(task, None)
        if flow is not None:
            execution_s = flow.tail.execution_s
            self.virtual_execution_s[execution_s] -= 1
            if not self.virtual_execution_s[execution_s]:
                del self.virtual_execution_s[execution_s]
        for promise in self._real.pop(task, {}).values():
            self._switches.give_back(promise)

    def virtual_to(self, server: int) -> Iterator[tuple[VirtualFlow, float]]:
        """Virtual flows to tasks of a server's queue, with the ready work before each.

        The last of the queue comes first.
        """
        before_s = self._servers.ready_s(server)
        for name, entry in reversed(self._servers.queues[server].items()):
            if not entry.ready:
                continue
            before_s -= entry.execution_s
            flow = self._virtual.get(name)
            if flow is not None:
                yield flow, before_s
