"""The pending tasks of a stage, found by place without looking at all of them.

Never here: whether a task should run; see the policies.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.resourcemanager.interface.events import TaskInput
from railyard.resourcemanager.interface.views import Level, SlotView

_NO_INPUT = TaskInput()


class PendingTasks:
    """Which tasks of a stage are pending; the lowest task number goes first everywhere.

    Heaps hold task numbers and may hold stale ones, which are dropped when they come up; so each
    operation costs O(replicas x log n) at most, spread over the calls.
    """

    __slots__ = ("_all", "_anywhere", "_by_node", "_by_rack", "_inputs", "count", "is_pending")

    def __init__(self, tasks: int, inputs: Sequence[TaskInput]) -> None:
        self.count = 0  #: how many are pending
        self.is_pending = bytearray(tasks)  #: 1 for each that is, to be read only
        self._inputs = inputs
        self._all: list[int] = []
        self._anywhere: list[int] = []  #: those that have no place, although others have
        self._by_node: dict[NodeId, list[int]] = {}
        self._by_rack: dict[RackId, list[int]] = {}

    def __contains__(self, index: int) -> bool:
        return bool(self.is_pending[index])

    def __iter__(self) -> Iterator[int]:
        """Numbers of all pending tasks, ascending; O(tasks)."""
        return (index for index, pending in enumerate(self.is_pending) if pending)

    def add(self, index: int) -> None:
        """Make task ``index`` pending, which it was not."""
        self.is_pending[index] = 1
        self.count += 1
        heapq.heappush(self._all, index)
        if self._inputs:
            self._add_place(index)

    def add_all(self) -> None:
        """Make all tasks pending; none was before."""
        self.count = len(self.is_pending)
        self.is_pending[:] = b"\1" * self.count
        self._all.extend(range(self.count))  # ascending: a heap already
        for index in range(len(self._inputs)):
            self._add_place(index)

    def remove(self, index: int) -> None:
        """Make task ``index`` not pending, which it was."""
        self.is_pending[index] = 0
        self.count -= 1

    def input(self, index: int) -> TaskInput:
        return self._inputs[index] if self._inputs else _NO_INPUT

    def renew(self, index: int, place: TaskInput) -> None:
        """Replace the input of task ``index``, which is elsewhere now.  O(tasks there)."""
        if not isinstance(self._inputs, list):  # it was shared with the submission
            self._inputs = list(self._inputs)
        before = self._inputs[index].nodes
        heaps = [self._anywhere] if not before else []
        heaps += [self._by_node.get(node, []) for node in before]
        heaps += [self._by_rack.get(rack, []) for rack in dict.fromkeys(map(rack_of, before))]
        for heap in heaps:
            heap[:] = [other for other in heap if other != index]
            heapq.heapify(heap)
        self._inputs[index] = place
        if index in self:
            self._add_place(index)

    def first(self) -> int | None:
        """The lowest pending task."""
        return self._top(self._all)

    def in_rack(self, rack: RackId) -> int | None:
        """The lowest pending task with input in a rack."""
        return self._top(self._by_rack.get(rack))

    def racks(self) -> list[RackId]:
        """The racks with input of a pending task, in no order."""
        for rack in [rack for rack, heap in self._by_rack.items() if self._top(heap) is None]:
            del self._by_rack[rack]
        return list(self._by_rack)

    def closest(self, node: NodeId, rack: RackId) -> tuple[int | None, Level]:
        """The pending task with the input nearest to ``node``, and how near that is."""
        if not self._inputs:
            return self._top(self._all), "anywhere"
        is_pending = self.is_pending
        if heap := self._by_node.get(node):
            index = heap[0] if is_pending[heap[0]] else self._top(heap)
            if index is not None:
                return index, "node-local"
        if heap := self._by_rack.get(rack):
            index = heap[0] if is_pending[heap[0]] else self._top(heap)
            if index is not None:
                return index, "rack-local"
        if self._anywhere and (index := self._top(self._anywhere)) is not None:
            return index, "anywhere"
        return self._top(self._all), "remote"

    def nearness(self, slot: SlotView) -> Level:
        """How near the task is that ``closest`` finds for a slot; "anywhere" if there is none."""
        if not self.count or not self._inputs:
            return "anywhere"
        node, rack, by_node, by_rack = slot.id, slot.rack, self._by_node, self._by_rack
        if node in by_node and self._top(by_node[node]) is not None:
            return "node-local"
        if rack in by_rack:
            heap = by_rack[rack]
            if heap and (self.is_pending[heap[0]] or self._top(heap) is not None):
                return "rack-local"
        if self._anywhere and self._top(self._anywhere) is not None:
            return "anywhere"
        return "remote"

    def level(self, index: int, node: NodeId, rack: RackId) -> Level:
        """How near the input of task ``index`` is to ``node``."""
        nodes = self._inputs[index].nodes if self._inputs else ()
        if not nodes:
            return "anywhere"
        if node in nodes:
            return "node-local"
        return "rack-local" if any(rack_of(other) == rack for other in nodes) else "remote"

    def _add_place(self, index: int) -> None:
        nodes = self._inputs[index].nodes
        if not nodes:
            heapq.heappush(self._anywhere, index)
        for node in nodes:
            heapq.heappush(self._by_node.setdefault(node, []), index)
        for rack in dict.fromkeys(rack_of(node) for node in nodes):
            heapq.heappush(self._by_rack.setdefault(rack, []), index)

    def _top(self, heap: list[int] | None) -> int | None:
        is_pending = self.is_pending
        while heap:
            if is_pending[heap[0]]:
                return heap[0]
            heapq.heappop(heap)
        return None
