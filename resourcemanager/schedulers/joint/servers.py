"""The servers' task queues: ready and blocked tasks, first come first served (IV-D); t_AVL.

A task that was put beside its only predecessor (pre-scheduled) is ready; so is one whose data is
all there.  Another one is blocked until then.  A server is a node, known by its number in the
topology.

Left open there, chosen here: t_AVL is the work that is queued on a server, and what is left of that
in execution; a server of several slots works them off together.  Of blocked tasks it is known when
their data should be there: a task that can end before the first of them begins does, others start
after them (``starts_s``).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from railyard.cluster.ids import AttemptId, NodeId, StageId, TaskId
from railyard.netemu.model.arrays import Bools, Floats
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, SlotView, TaskView


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
        #: when the first blocked task should start, and the last one should end; inf, -inf: none,
        #: or fewer than slots
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
        """All data of a task is at its server."""
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
        """The ready task of a server whose turn it is."""
        ready = self._ready[server]
        while ready and not ready[0][2].queued:
            heapq.heappop(ready)
        return ready[0][2] if ready else None

    def ready_s(self, server: int) -> float:
        """C of all ready tasks in a server's queue, added up."""
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
        first_s = np.where(
            self._running < self._slots, 0.0, np.maximum(self._first_end_s - now_s, 0.0)
        )
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
        """When an attempt in a slot should end."""
        return self._in_slots[self.number[attempt.node.id]].get(attempt.id, self._cluster.now_s)

    # What happens --------------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView, ends_s: float) -> None:
        """An attempt took a slot, and should end then."""
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
