"""The fetches of a reading stage: what is ready where, who has what, what is under way.

Most of it is in arrays (``loops.py``), in which readers have got all that they have asked for, in
the order in which it was ready.  Once something of a shuffle is lost or breaks off, that need not
be so any more: from then on (``be_careful``) each fetch has its own list of outputs.

Never here: who may fetch; see ``shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, CoflowId, FlowId, NodeId, RackId
from railyard.cluster.messages.execution import StartFlow
from railyard.resourcemanager.core.shuffling.loops import (
    AFTER,
    PLACES,
    READER_BITS,
    READERS,
    SIZE,
    STAGE_SHIFT,
    Arrays,
)
from railyard.resourcemanager.core.shuffling.messages import Numbers
from railyard.resourcemanager.core.state.jobs import Attempt, Node, Stage, Task

#: Ends and begins fetches, as ``loops.go_on`` does: (arrays, fetches, ended) -> those that begin.
GoOn = Callable[[Arrays, Numbers, bool], Numbers]


#: Of a fetch: its reader, how many outputs it brings, their bytes, and since when.
Arriving = tuple[AttemptId, int, int, float]
NOTHING: Arriving = (AttemptId(""), 0, 0, 0.0)


class Fetch(msgspec.Struct, eq=False):
    """A fetch under way, as policies and messages see it."""

    id: FlowId
    reader: Attempt
    node: Node  #: that sends
    shuffle: StageShuffle
    outputs: Sequence[Attempt]
    size_bytes: int
    order: int  #: how many fetches began before it
    weight: float = 1.0
    priority: tuple[float, ...] = ()

    @property
    def start_order(self) -> StartFlow:
        """The order that started it."""
        return StartFlow(
            flow=self.id,
            coflow=self.shuffle.coflow,
            src=self.node.id,
            dst=self.reader.node.id,
            size_bytes=self.size_bytes,
            reader=self.reader.id,
            outputs=tuple([output.id for output in self.outputs]),
            partition=self.reader.task.index,
            weight=self.weight,
            priority=self.priority,
        )


class StageShuffle:
    """The shuffle of a reading stage: one coflow.

    A *place* is a node with outputs, a *reader* an attempt; both are numbered as they come.
    """

    def __init__(self, stage: Stage, number: int, racks: int) -> None:
        self.stage = stage
        self.number = number
        self.coflow = CoflowId(stage.id)
        self.fetching = False  #: whether its attempts may fetch
        self.started_s: float | None = None  #: when its first flow between two nodes started
        self.ended_s: float | None = None  #: when its latest flow between two nodes ended
        self.nodes: list[Node] = []  #: by place
        self.place_of: dict[NodeId, int] = {}  #: of nodes that are alive
        self.logs: list[list[Attempt]] = []  #: outputs as they became ready, by place
        self.readers: list[Attempt | None] = []  #: None: it is about to be launched
        #: once it is careful: {(place, reader): outputs that a fetch under way is to bring}
        self.brings: dict[tuple[int, int], tuple[Attempt, ...]] = {}
        #: {(place, reader): fetches in a row that failed}
        self.tries: dict[tuple[int, int], int] = {}
        self._has: list[dict[str, int]] | None = None  #: likewise: ``fetched``, by reader
        #: {identity of an output's bytes, which equal outputs share: these, and as an array}
        self._sizes: dict[int, tuple[tuple[int, ...], Numbers]] = {}
        tasks = stage.size
        ints, counts = np.int64, np.int32
        self.arrays = Arrays(
            node=np.zeros(0, ints),
            ready=np.zeros(0, counts),
            ready_bytes=np.zeros((0, tasks), ints),
            reader_node=np.zeros(tasks, ints),
            task=np.zeros(tasks, ints),
            sequence=np.zeros(tasks, counts),
            missing=np.zeros(tasks, ints),
            asked=np.zeros((0, tasks), counts),
            arrived=np.zeros((0, tasks), counts),
            arrived_bytes=np.zeros((0, tasks), ints),
            size_bytes=np.zeros((0, tasks), ints),
            started_s=np.zeros((0, tasks)),
            name=np.zeros((0, tasks), counts),
            order=np.zeros((0, tasks), ints),
            moved_bytes=np.zeros(3, ints),
            sent_bytes=np.zeros(racks, ints),
            received_bytes=np.zeros(racks, ints),
            ended_s=np.full(1, np.nan),
        )

    # What comes ----------------------------------------------------------------------------------
    def add_output(self, output: Attempt, node_number: int) -> int:
        """Add an output that is ready; returns its node's place."""
        node = output.node
        place = self.place_of.get(node.id)
        if place is None:
            place = self.place_of[node.id] = len(self.nodes)
            self.nodes.append(node)
            self.logs.append([])
            if place == len(self.arrays.ready):
                self._make_room(max(4, place), 0)
            self.arrays.node[place] = node_number
        self.logs[place].append(output)
        self.arrays.ready[place] += 1
        known = self._sizes.get(id(output.partition_bytes))
        if known is None:
            known = output.partition_bytes, np.array(output.partition_bytes, np.int64)
            self._sizes[id(output.partition_bytes)] = known
        self.arrays.ready_bytes[place] += known[1]
        return place

    def add_reader(self, task: Task, node_number: int) -> int:
        """The number of an attempt that is about to be launched."""
        reader = len(self.readers)
        if reader == len(self.arrays.task):
            self._make_room(0, max(4, reader // 4))
        self.readers.append(None)
        self.arrays.reader_node[reader] = node_number
        self.arrays.task[reader] = task.index
        self.arrays.missing[reader] = self.stage.inputs
        if self._has is not None:
            self._has.append(dict.fromkeys([source.name for source in self.stage.reads], 0))
        return reader

    def forget_place(self, node: NodeId) -> None:
        """What is on a node is lost, and nothing is under way from there."""
        self.be_careful()
        place = self.place_of.pop(node, None)
        if place is not None:
            self.logs[place] = []
            for counts in (self.arrays.ready, self.arrays.asked, self.arrays.arrived):
                counts[place] = 0

    def be_careful(self) -> None:
        """Something was lost, or broke off."""
        if self._has is None:
            self._has = [self.fetched(reader) for reader in range(len(self.readers))]

    def break_off(self, place: int, reader: int) -> None:
        """A fetch under way has ended, and brought nothing."""
        self.brings.pop((place, reader), None)
        self.arrays.asked[place, reader] = self.arrays.arrived[place, reader]

    def go_on(self, fetches: Numbers, ended: bool, loop: GoOn) -> Numbers:
        """Let fetches end, if they have ``ended``, and begin what is new; see ``loops.go_on``."""
        if self._has is None:
            return loop(self.arrays, fetches, ended)
        found: list[Numbers] = []
        for number in range(len(fetches)):
            for begun in self._go_on_carefully(fetches[number : number + 1], ended, loop):
                begun[AFTER] = number
                found.append(begun)
        return np.concatenate(found, axis=1) if found else np.zeros((5, 0), np.int64)

    def _go_on_carefully(self, fetches: Numbers, ended: bool, loop: GoOn) -> Iterator[Numbers]:
        assert self._has is not None
        arrays, (place, reader) = self.arrays, place_and_reader(int(fetches[0]))
        here, is_open = (place, reader), self.is_open(place, reader)
        if ended:
            if not is_open:
                return
            self.tries.pop(here, None)
            outputs, ready = self.outputs(place, reader), int(arrays.ready[place])
            self.brings.pop(here, None)
            arrays.ready[place] = arrays.asked[place, reader]  # nothing begins
            loop(arrays, fetches, True)
            arrays.ready[place] = ready
            has, missing = self._has[reader], self.stage.inputs
            for output in outputs:
                has[output.task.stage.name] |= 1 << output.task.index
            arrays.missing[reader] = missing - sum(bits.bit_count() for bits in has.values())
        elif is_open:
            return
        new = self._new_outputs(place, reader)
        if not new:
            arrays.asked[place, reader] = arrays.arrived[place, reader] = arrays.ready[place]
            return
        self.brings[here] = new
        begun = loop(arrays, fetches, False)
        task = int(arrays.task[reader])
        size_bytes = sum(output.partition_bytes[task] for output in new)
        arrays.size_bytes[place, reader] = begun[SIZE] = size_bytes
        yield begun

    def _new_outputs(self, place: int, reader: int) -> tuple[Attempt, ...]:
        """What is ready on a node, was not asked for and is not had from elsewhere."""
        log, seen = self.logs[place], int(self.arrays.arrived[place, reader])
        return tuple(
            [
                output
                for output in log[seen:]
                if output.state == "succeeded"
                and not self.has(reader, output.task.stage.name, output.task.index)
            ]
        )

    # What can be seen ----------------------------------------------------------------------------
    def fetches(self, places: Iterable[int], readers: Iterable[int]) -> Numbers:
        """The numbers of the fetches from each of these places by each of these readers."""
        base, to = self.number << STAGE_SHIFT, list(places)
        return np.array(
            [base | place << READER_BITS | reader for reader in readers for place in to], np.int64
        )

    def is_open(self, place: int, reader: int) -> bool:
        """Whether a fetch is under way."""
        return bool(self.arrays.asked[place, reader] != self.arrays.arrived[place, reader])

    def under_way(self, reader: int | None = None) -> list[tuple[int, int]]:
        """The (place, reader) of all fetches under way, of one reader, as they began."""
        many = len(self.nodes)
        asked, arrived = self.arrays.asked[:many], self.arrays.arrived[:many]
        if reader is None:
            places, readers = (asked != arrived).nonzero()
        else:
            places = (asked[:, reader] != arrived[:, reader]).nonzero()[0]
            readers = np.full(len(places), reader)
        if len(places) > 1:
            order = self.arrays.order[places, readers].argsort()
            places, readers = places[order], readers[order]
        return list(zip(places.tolist(), readers.tolist(), strict=True))

    def name(self, place: int, reader: int) -> FlowId:
        """The flow of the fetch that began last."""
        attempt, number = self.reader(reader), self.arrays.name[place, reader]
        return FlowId(f"{attempt.id}:{self.nodes[place].id}:{number}")

    def reader(self, reader: int) -> Attempt:
        """An attempt that was launched."""
        attempt = self.readers[reader]
        if attempt is None:
            raise InvariantError(f"{self.stage.id} has a reader that was not launched")
        return attempt

    def outputs(self, place: int, reader: int) -> Sequence[Attempt]:
        """What a fetch under way is to bring."""
        known = self.brings.get((place, reader))
        if known is not None:
            return known
        arrived, asked = self.arrays.arrived[place, reader], self.arrays.asked[place, reader]
        return self.logs[place][int(arrived) : int(asked)]

    def as_fetch(self, place: int, reader: int) -> Fetch:
        """A fetch under way, to be looked at."""
        return Fetch(
            self.name(place, reader),
            self.reader(reader),
            self.nodes[place],
            self,
            self.outputs(place, reader),
            int(self.arrays.size_bytes[place, reader]),
            int(self.arrays.order[place, reader]),
        )

    def arriving(self, fetches: Numbers) -> Iterator[Arriving]:
        """What fetches are about to bring."""
        arrays, readers = self.arrays, fetches & READERS
        where = fetches >> READER_BITS & PLACES, readers
        return zip(
            [self.reader(reader).id for reader in readers.tolist()],
            (arrays.asked[where] - arrays.arrived[where]).tolist(),
            arrays.size_bytes[where].tolist(),
            arrays.started_s[where].tolist(),
            strict=True,
        )

    # What readers say (``ReaderRows``) -----------------------------------------------------------
    def missing(self, reader: int) -> int:
        """How many tasks' outputs have not arrived yet."""
        return int(self.arrays.missing[reader])

    def fetched(self, reader: int) -> dict[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}.  O(outputs)."""
        if self._has is not None:
            return self._has[reader]
        bits = dict.fromkeys([source.name for source in self.stage.reads], 0)
        for place, log in enumerate(self.logs):
            for output in log[: int(self.arrays.arrived[place, reader])]:
                bits[output.task.stage.name] |= 1 << output.task.index
        return bits

    def has(self, reader: int, stage: str, index: int) -> bool:
        """Whether the output of a task has arrived."""
        return bool(self.fetched(reader)[stage] >> index & 1)

    def sources_of(self, reader: int) -> Collection[NodeId]:
        """The nodes from which something is under way."""
        return {self.nodes[place].id for place, _ in self.under_way(reader)}

    def count(self, racks: Sequence[RackId]) -> None:
        """Have the job's record say what has been fetched."""
        record, arrays = self.stage.job.record, self.arrays
        if not np.isnan(arrays.ended_s[0]):
            self.ended_s = float(arrays.ended_s[0])
            arrays.ended_s[0] = np.nan
        moved, in_node, in_rack = arrays.moved_bytes.tolist()
        if not moved:
            return
        record.shuffled_bytes += moved
        record.fetched_in_node_bytes += in_node
        record.fetched_in_rack_bytes += in_rack
        arrays.moved_bytes[:] = 0
        for by_rack, counted in (
            (record.sent_bytes, arrays.sent_bytes),
            (record.received_bytes, arrays.received_bytes),
        ):
            for number in counted.nonzero()[0].tolist():
                by_rack[racks[number]] += int(counted[number])
            counted[:] = 0

    def _make_room(self, places: int, readers: int) -> None:
        """Make the arrays larger by so many places and readers."""
        larger = {}
        for name, array in self.arrays._asdict().items():
            if name in ("node", "ready"):
                more: tuple[int, ...] = (places,)
            elif name == "ready_bytes":
                more = (places, 0)
            elif name in ("reader_node", "task", "sequence", "missing"):
                more = (readers,)
            elif array.ndim == 2:
                more = (places, readers)
            else:
                continue
            larger[name] = np.pad(array, [(0, many) for many in more])
        self.arrays = self.arrays._replace(**larger)


def place_and_reader(fetch: int) -> tuple[int, int]:
    """Where in its stage's arrays a fetch is."""
    return fetch >> READER_BITS & PLACES, fetch & READERS


def is_to_fetch(stage: Stage, task: Task) -> bool:
    """Whether an attempt of a reading stage has yet to fetch ``task``'s output, each for itself.

    Whatever a pending task has reserved and fetched may be withdrawn.  O(slots the stage holds).
    """
    if stage.pending.count:
        return True
    return not all(attempt.killing or _has(attempt, task) for attempt in stage.live.values())


def _has(attempt: Attempt, task: Task) -> bool:
    return attempt.reader is not None and attempt.reader.has(task.stage.name, task.index)
