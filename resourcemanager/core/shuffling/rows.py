"""Fetches as rows: those of one reading stage, as arrays by source node and reading task.

A fetch for each pair of a node and a reader is millions of objects in a long simulation, and most
of them come and go in the same way.  So the virtual clock has them started and ended by the
hundred.  Whatever is not common has objects, as in ``shuffle.py``: a stage whose output is lost,
whose attempts are killed or copied has ``Fetch`` and ``Reader`` from then on, which this makes.

Never here: which fetches start when; see ``rowshuffle.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.ids import CoflowId, FlowId, NodeId, RackId
from railyard.cluster.messages.execution import StartFlow
from railyard.resourcemanager.core.shuffling.rowmessages import Numbers
from railyard.resourcemanager.core.state.jobs import Attempt, Node, Stage
from railyard.resourcemanager.core.state.readers import FetchKey, Reader

if TYPE_CHECKING:  # importing it loads numba
    from railyard.resourcemanager.core.shuffling.fast.tables import TableArrays

#: A fetch's number is that of its table, of its node there, and of its reader's task: the last two
#: have so many bits each.
BITS = 20
_MASK = (1 << BITS) - 1


def table_number(fetch: int) -> int:
    """The number of a fetch's table."""
    return fetch >> 2 * BITS


def table_of(fetches: Numbers) -> Numbers:
    """The numbers of fetches' tables."""
    return fetches >> 2 * BITS


def node_of(fetches: Numbers) -> Numbers:
    """The numbers of fetches' source nodes in their tables."""
    return fetches >> BITS & _MASK


def task_of(fetches: Numbers) -> Numbers:
    """The numbers of fetches' reading tasks."""
    return fetches & _MASK


class FetchTable:
    """All fetches of a reading stage, [node, task]: at most one at a time is under way of each."""

    def __init__(self, stage: Stage, coflow: CoflowId, number: int, racks: int) -> None:
        self.stage = stage
        self.number = number
        (self._source,) = stage.reads
        self.coflow = coflow
        tasks = stage.size
        self.nodes: list[Node] = []  #: that have outputs, in the order of their first
        self.attempts: list[Attempt | None] = [None] * tasks  #: readers, by task
        self.reader_ids = np.empty(tasks, object)  #: their names
        self.reader_node = np.zeros(tasks, np.int64)  #: its number, by reader
        self.node_number = np.zeros(0, np.int64)  #: in the topology, by node here
        self.ready = np.zeros(0, np.int64)  #: outputs that are ready, by node
        self.ready_bytes = np.zeros((0, tasks), np.int64)  #: what they have for each reader
        self.is_open = np.zeros((0, tasks), bool)  #: whether a fetch is under way
        self.arrived = np.zeros((0, tasks), np.int32)  #: outputs that have been fetched
        self.asked = np.zeros((0, tasks), np.int32)  #: those and what is under way
        self.arrived_bytes = np.zeros((0, tasks), np.int64)
        self.size_bytes = np.zeros((0, tasks), np.int64)  #: of the fetch, the last one if none is
        self.started_s = np.zeros((0, tasks))
        self._names = np.zeros((0, tasks), np.int32)  #: how many fetches the reader began before
        self._order = np.zeros((0, tasks), np.int64)  #: of all fetches, how many began before
        self._sequence = np.zeros(tasks, np.int32)  #: fetches that a reader has begun
        #: of fetches that have ended since they were last counted: bytes in all, within nodes, and
        #: within racks; and between racks, by rack
        self._moved_bytes = np.zeros(3, np.int64)
        self._sent_bytes = np.zeros(racks, np.int64)
        self._received_bytes = np.zeros(racks, np.int64)
        self._ended_s = np.full(1, np.nan)  #: when the last one between two nodes ended, if any
        self._logs: list[list[Attempt]] = []  #: outputs by node
        self._place: dict[NodeId, int] = {}
        self._made: set[int] = set()  #: tasks whose output is ready
        self._partitions: dict[int, tuple[tuple[int, ...], Numbers]] = {}  #: as arrays, by identity

    # What happens --------------------------------------------------------------------------------
    def add_output(self, attempt: Attempt, node_number: int) -> int | None:
        """Add an output that is ready; returns its node's place.

        None: readers may have fetched what the same task has made before.
        """
        if attempt.task.index in self._made:
            return None
        self._made.add(attempt.task.index)
        node = attempt.node
        place = self._place.get(node.id)
        if place is None:
            place = self._place[node.id] = len(self.nodes)
            self.nodes.append(node)
            self._logs.append(self._source.outputs[node.id])
            if place == len(self.ready):
                self._make_room()
            self.node_number[place] = node_number
        self.ready[place] += 1
        self.ready_bytes[place] += self._partition(attempt.partition_bytes)
        return place

    def enroll(self, attempt: Attempt, node_number: int) -> bool:
        """Let an attempt read; False if another has read for its task."""
        task = attempt.task.index
        if self.attempts[task] is None:
            self.attempts[task] = attempt
            self.reader_ids[task] = attempt.id
            self.reader_node[task] = node_number
        return self.attempts[task] is attempt

    def new_for(self, task: int) -> Numbers:
        """The places of the nodes that have something new for a reader, and send it nothing."""
        ready = self.ready[: len(self.nodes)]
        asked, is_open = self.asked[: len(self.nodes), task], self.is_open[: len(self.nodes), task]
        places: Numbers = ((ready != asked) & ~is_open).nonzero()[0]
        return places

    def begin(self, nodes: Numbers, tasks: Numbers, now_s: float, orders: Numbers) -> Numbers:
        """Begin fetches of all that is new, in this order; returns their sizes in bytes.

        ``orders``: of all fetches, how many began before each.
        """
        where = nodes, tasks
        self.is_open[where] = True
        self.asked[where] = self.ready[nodes]
        self.size_bytes[where] = sizes = self.ready_bytes[where] - self.arrived_bytes[where]
        self.started_s[where] = now_s
        self._order[where] = orders
        self._names[where] = self._sequence[tasks] + _before(tasks)
        self._sequence += np.bincount(tasks, minlength=len(self._sequence)).astype(np.int32)
        return sizes

    def count(self, racks: Sequence[RackId]) -> float | None:
        """Have the job's record say what has been fetched.

        Returns when the last fetch between two nodes ended; None if none has since it was counted.
        """
        record, sums = self.stage.job.record, self._moved_bytes.tolist()
        record.shuffled_bytes += sums[0]
        record.fetched_in_node_bytes += sums[1]
        record.fetched_in_rack_bytes += sums[2]
        for by_rack, counted in (
            (record.sent_bytes, self._sent_bytes),
            (record.received_bytes, self._received_bytes),
        ):
            for number in counted.nonzero()[0].tolist():
                by_rack[racks[number]] += int(counted[number])
            counted[:] = 0
        self._moved_bytes[:] = 0
        ended_s = float(self._ended_s[0])
        self._ended_s[0] = np.nan
        return None if np.isnan(ended_s) else ended_s

    # What can be seen ----------------------------------------------------------------------------
    def arrays(self, kind: type[TableArrays]) -> TableArrays:
        """Its arrays, for compiled loops; others once there are more nodes."""
        return kind(
            self.node_number,
            self.reader_node,
            self.ready,
            self.ready_bytes,
            self.is_open,
            self.arrived,
            self.asked,
            self.arrived_bytes,
            self.size_bytes,
            self.started_s,
            self._names,
            self._order,
            self._sequence,
            self._moved_bytes,
            self._sent_bytes,
            self._received_bytes,
            self._ended_s,
        )

    def fetches(self, nodes: Numbers, tasks: Numbers) -> Numbers:
        """The fetches' numbers."""
        of_table = self.number << 2 * BITS
        return nodes << BITS | tasks | of_table

    def name(self, node: int, task: int) -> FlowId:
        """The flow of the fetch that began last."""
        reader = self.attempts[task]
        assert reader is not None
        return FlowId(f"{reader.id}:{self.nodes[node].id}:{self._names[node, task]}")

    def is_fetching(self, task: int) -> bool:
        """Whether a reader has fetches under way."""
        return bool(self.is_open[:, task].any())

    def missing(self, task: int) -> int:
        """How many tasks' outputs a reader has yet to fetch."""
        return self._source.needed - int(self.arrived[:, task].sum())

    def fetched(self, task: int) -> dict[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}."""
        bits = 0
        for log, many in zip(self._logs, self.arrived[:, task].tolist(), strict=False):
            for output in log[:many]:
                bits |= 1 << output.task.index
        return {self._source.name: bits}

    def under_way(self) -> Iterator[tuple[int, int]]:
        """The fetches under way, in the order in which they began, as (node, task)."""
        nodes, tasks = self.is_open.nonzero()
        by_order = self._order[nodes, tasks].argsort()
        return zip(nodes[by_order].tolist(), tasks[by_order].tolist(), strict=True)

    def order(self, node: int, task: int) -> int:
        """How many fetches began before the one that began last there."""
        return int(self._order[node, task])

    def fetches_of(self, task: int) -> dict[FetchKey, FlowId]:
        """The flows under way for a reader, as ``Reader.fetches``."""
        places = self.is_open[:, task].nonzero()[0]
        places = places[self._order[places, task].argsort()]
        return {self.nodes[node].id: self.name(node, task) for node in places.tolist()}

    def command(self, node: int, task: int) -> StartFlow:
        """What starts the flow of a fetch under way."""
        reader = self.attempts[task]
        assert reader is not None
        return StartFlow(
            flow=self.name(node, task),
            coflow=self.coflow,
            src=self.nodes[node].id,
            dst=reader.node.id,
            size_bytes=int(self.size_bytes[node, task]),
            reader=reader.id,
            outputs=tuple([output.id for output in self.outputs(node, task)]),
            partition=task,
            weight=1.0,
            priority=(),
        )

    def outputs(self, node: int, task: int) -> list[Attempt]:
        """What a fetch under way will bring."""
        return self._logs[node][int(self.arrived[node, task]) : int(self.asked[node, task])]

    def as_reader(self, task: int) -> Reader:
        """The object for how far a reader is."""
        asked = self.asked[:, task].tolist()
        seen = {node.id: many for node, many in zip(self.nodes, asked, strict=False) if many}
        fetches, sequence = self.fetches_of(task), int(self._sequence[task])
        return Reader(
            self.missing(task), [seen], self.fetched(task), fetches=fetches, sequence=sequence
        )

    # Inside --------------------------------------------------------------------------------------
    def _make_room(self) -> None:
        more = max(4, len(self.ready))
        for name in ("node_number", "ready"):
            setattr(self, name, np.append(getattr(self, name), np.zeros(more, np.int64)))
        for name in (
            "ready_bytes",
            "is_open",
            "arrived",
            "asked",
            "arrived_bytes",
            "size_bytes",
            "started_s",
            "_names",
            "_order",
        ):
            before = getattr(self, name)
            added = np.zeros((more, before.shape[1]), before.dtype)
            setattr(self, name, np.concatenate([before, added]))

    def _partition(self, partition_bytes: tuple[int, ...]) -> Numbers:
        """An output's bytes by reader; equal outputs share a tuple."""
        known = self._partitions.get(id(partition_bytes))
        if known is None:
            known = partition_bytes, np.array(partition_bytes, np.int64)
            self._partitions[id(partition_bytes)] = known
        return known[1]


def _before(numbers: Numbers) -> Numbers:
    """How often each of these numbers stands before it."""
    order = numbers.argsort(kind="stable")
    ascending = numbers[order]
    places = np.arange(len(numbers))
    begins = np.ones(len(numbers), bool)
    begins[1:] = ascending[1:] != ascending[:-1]
    before = np.empty(len(numbers), np.int64)
    before[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return before
