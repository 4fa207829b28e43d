"""The fetches of a reading stage: what is ready where, who has what, what is under way.

Most of it is in arrays (``loops.py``), in which readers have got all that they have asked for, in
the order in which it was ready.  Once something of a shuffle is lost or breaks off, that need not
be so any more: from then on (``be_careful``) each fetch has its own list of outputs.

Never here: who may fetch; see ``shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from railyard.cluster.ids import AttemptId, CoflowId, FlowId, NodeId, RackId
from railyard.cluster.messages import StartFlow
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.jobs import Attempt, Node, Stage
from railyard.resourcemanager.core.shuffling.loops import (
    AFTER,
    NONE,
    PLACES,
    READER_BITS,
    READERS,
    SIZE,
    STAGE_SHIFT,
    Arrays,
    Numbers,
    new_arrays,
    with_room,
)

#: Ends and begins fetches, as ``loops.go_on`` does: (arrays, fetches, ended) -> those that begin.
GoOn = Callable[[Arrays, Numbers, bool], Numbers]
#: Of a fetch: its reader, how many outputs it brings, their bytes, and since when.
Arriving = tuple[AttemptId, int, int, float]


class Fetch(msgspec.Struct, eq=False):
    """A fetch under way, as policies and messages see it."""

    id: FlowId
    reader: Attempt
    node: Node  #: that sends
    coflow: CoflowId
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
            coflow=self.coflow,
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
        self.coflow = CoflowId(stage.id)
        self.fetching = False  #: whether its attempts may fetch
        self.started_s: float | None = None  #: when its first flow between two nodes started
        self.ended_s: float | None = None  #: when its latest flow between two nodes ended
        self.arrays = new_arrays(stage.size, racks)
        self.nodes: list[Node] = []  #: by place
        self.place_of: dict[NodeId, int] = {}  #: of nodes that are alive
        self.readers: list[Attempt] = []
        self.tries: dict[int, int] = {}  #: {fetch: how many in a row have failed}
        self.number = number
        self._base = number << STAGE_SHIFT
        self._logs: list[list[Attempt]] = []  #: outputs as they became ready, by place
        #: once it is careful: ``fetched``, by reader; None before
        self._has: list[dict[str, int]] | None = None
        #: likewise: {fetch under way: outputs that it is to bring}
        self._brings: dict[int, tuple[Attempt, ...]] = {}
        #: {identity of an output's bytes, which equal outputs share: these, and as an array}
        self._sizes: dict[int, tuple[tuple[int, ...], Numbers]] = {}

    # What comes ----------------------------------------------------------------------------------
    def add_output(self, output: Attempt, node_number: int) -> int:
        node, sizes = output.node, output.partition_bytes
        place = self.place_of.get(node.id)
        if place is None:
            place = self.place_of[node.id] = len(self.nodes)
            self.nodes.append(node)
            self._logs.append([])
            if place == len(self.arrays.ready):
                self.arrays = with_room(self.arrays, places=place)
            self.arrays.node[place] = node_number
        self._logs[place].append(output)
        known = self._sizes.get(id(sizes))
        if known is None:
            known = self._sizes[id(sizes)] = sizes, np.array(sizes, np.int64)
        self.arrays.ready[place] += 1
        self.arrays.ready_bytes[place] += known[1]
        return place

    def add_reader(self, attempt: Attempt, node_number: int) -> int:
        """The number of a new attempt, which has fetched nothing yet."""
        reader = len(self.readers)
        if reader == len(self.arrays.task):
            self.arrays = with_room(self.arrays, readers=max(4, reader // 4))
        self.readers.append(attempt)
        self.arrays.reader_node[reader] = node_number
        self.arrays.task[reader] = attempt.task.index
        self.arrays.missing[reader] = self.stage.inputs
        if self._has is not None:
            self._has.append(self._nothing())
        return reader

    def forget_place(self, node: NodeId) -> None:
        """What is on a node is lost, and nothing is under way from there."""
        self.be_careful()
        if (place := self.place_of.pop(node, None)) is not None:
            self._logs[place] = []
            for counts in (self.arrays.ready, self.arrays.asked, self.arrays.arrived):
                counts[place] = 0

    def be_careful(self) -> None:
        """Something was lost, or broke off."""
        if self._has is None:
            self._has = [self.fetched(reader) for reader in range(len(self.readers))]

    def break_off(self, fetch: int) -> None:
        """A fetch under way has ended, and brought nothing."""
        self._brings.pop(fetch, None)
        where = place_and_reader(fetch)
        self.arrays.asked[where] = self.arrays.arrived[where]

    def go_on(self, fetches: Numbers, ended: bool, loop: GoOn) -> Numbers:
        """Let fetches end, if they have ``ended``, and begin what is new; see ``loops.go_on``."""
        if self._has is None:
            return loop(self.arrays, fetches, ended)
        found: list[Numbers] = []
        for at in range(len(fetches)):
            one = fetches[at : at + 1]
            if self.is_open(int(one[0])) == ended:
                begun = self._go_on_carefully(one, ended, loop, self._has)
                begun[AFTER] = at
                found.append(begun)
        return np.concatenate(found, axis=1) if found else NONE

    def _go_on_carefully(
        self, one: Numbers, ended: bool, loop: GoOn, has: list[dict[str, int]]
    ) -> Numbers:
        """The same for one fetch, of which the outputs are looked at."""
        arrays, fetch = self.arrays, int(one[0])
        place, reader = where = place_and_reader(fetch)
        ready, bits = int(arrays.ready[place]), has[reader]
        if ended:
            for output in self.outputs(fetch):
                bits[output.task.stage.name] |= 1 << output.task.index
            arrays.ready[place] = arrays.asked[where]  # nothing begins yet
            loop(arrays, one, True)
            arrays.ready[place] = ready
            have = sum(some.bit_count() for some in bits.values())
            arrays.missing[reader] = self.stage.inputs - have
            self._brings.pop(fetch, None)
            self.tries.pop(fetch, None)
        new = [
            output
            for output in self._logs[place][int(arrays.arrived[where]) :]
            if output.state == "succeeded"  # and it has none that the task made before
            and not bits[output.task.stage.name] >> output.task.index & 1
        ]
        if not new:
            arrays.asked[where] = arrays.arrived[where] = ready
            return NONE
        self._brings[fetch] = tuple(new)
        begun, task = loop(arrays, one, False), int(arrays.task[reader])
        size_bytes = sum(output.partition_bytes[task] for output in new)
        arrays.size_bytes[where] = begun[SIZE] = size_bytes
        return begun

    # What can be seen ----------------------------------------------------------------------------
    def fetches(self, places: Iterable[int], readers: Iterable[int]) -> list[int]:
        """The numbers of the fetches by each of these readers from each of these places."""
        of_places = [self._base | place << READER_BITS for place in places]
        return [number | reader for reader in readers for number in of_places]

    def is_open(self, fetch: int) -> bool:
        where = place_and_reader(fetch)
        return bool(self.arrays.asked[where] != self.arrays.arrived[where])

    def under_way(self, reader: int | None = None, place: int | None = None) -> list[int]:
        """The fetches under way, of one reader or from one place, as they began."""
        asked, arrived, orders = self.arrays.asked, self.arrays.arrived, self.arrays.order
        if place is not None:
            asked, arrived = asked[place : place + 1], arrived[place : place + 1]
        if reader is not None:
            asked, arrived = asked[:, reader : reader + 1], arrived[:, reader : reader + 1]
        if asked.tobytes() == arrived.tobytes():  # the common case; unused room is 0 in both
            return []
        places, readers = (asked != arrived).nonzero()
        places, readers = places + (place or 0), readers + (reader or 0)
        numbers = self._base | places << READER_BITS | readers
        found: list[int] = numbers[orders[places, readers].argsort()].tolist()
        return found

    def reader_of(self, fetch: int) -> Attempt:
        return self.readers[fetch & READERS]

    def node_of(self, fetch: int) -> Node:
        return self.nodes[place_and_reader(fetch)[0]]

    def name(self, fetch: int) -> FlowId:
        number = self.arrays.name[place_and_reader(fetch)]
        return FlowId(f"{self.reader_of(fetch).id}:{self.node_of(fetch).id}:{number}")

    def outputs(self, fetch: int) -> Sequence[Attempt]:
        """What a fetch under way is to bring."""
        if (known := self._brings.get(fetch)) is not None:
            return known
        place, _ = where = place_and_reader(fetch)
        return self._logs[place][int(self.arrays.arrived[where]) : int(self.arrays.asked[where])]

    def as_fetch(self, fetch: int) -> Fetch:
        where = place_and_reader(fetch)
        return Fetch(
            self.name(fetch),
            self.reader_of(fetch),
            self.node_of(fetch),
            self.coflow,
            self.outputs(fetch),
            int(self.arrays.size_bytes[where]),
            int(self.arrays.order[where]),
        )

    def arriving(self, fetches: Numbers) -> Iterator[Arriving]:
        """What fetches are about to bring: no outputs if they are not under way any more."""
        arrays, where = self.arrays, (fetches >> READER_BITS & PLACES, fetches & READERS)
        return zip(
            [self.readers[reader].id for reader in where[1].tolist()],
            (arrays.asked[where] - arrays.arrived[where]).tolist(),
            arrays.size_bytes[where].tolist(),
            arrays.started_s[where].tolist(),
            strict=True,
        )

    def count(self, racks: Sequence[RackId]) -> None:
        """Have the job's record say what has been fetched."""
        record, arrays = self.stage.job.record, self.arrays
        if not np.isnan(arrays.ended_s[0]):
            self.ended_s = float(arrays.ended_s[0])
            arrays.ended_s[0] = np.nan
        moved_bytes, in_node_bytes, in_rack_bytes = arrays.moved_bytes.tolist()
        record.shuffled_bytes += moved_bytes
        record.fetched_in_node_bytes += in_node_bytes
        record.fetched_in_rack_bytes += in_rack_bytes
        for by_rack, counted in (
            (record.sent_bytes, arrays.sent_bytes),
            (record.received_bytes, arrays.received_bytes),
        ):
            for number in counted.nonzero()[0].tolist():
                by_rack[racks[number]] += int(counted[number])
            counted[:] = 0
        arrays.moved_bytes[:] = 0

    def missing(self, reader: int) -> int:
        return int(self.arrays.missing[reader])

    def fetched(self, reader: int) -> dict[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}.  O(outputs)."""
        if self._has is not None:
            return self._has[reader]
        bits = self._nothing()
        for place, log in enumerate(self._logs):
            for output in log[: int(self.arrays.arrived[place, reader])]:
                bits[output.task.stage.name] |= 1 << output.task.index
        return bits

    def _nothing(self) -> dict[str, int]:
        return dict.fromkeys([source.name for source in self.stage.reads], 0)


def place_and_reader(fetch: int) -> tuple[int, int]:
    """Where in its stage's arrays a fetch is."""
    return fetch >> READER_BITS & PLACES, fetch & READERS


# Messages about many fetches ---------------------------------------------------------------------
# Fetches have numbers here, and names in the messages of a cluster: ``Core.handle`` gives and takes
# those, ``Core.handle_together`` these.  They never leave the process.
class FetchesEnded(Event, frozen=True, kw_only=True):
    """Fetches have brought all that they were to bring, in this order."""

    fetches: Numbers


class StartFetches(Command, frozen=True, kw_only=True):
    """Start the flows of fetches, in this order; [fetch] each."""

    fetches: Numbers
    src: Numbers  #: numbers of nodes: their places in the topology
    dst: Numbers
    size_bytes: Numbers
    stages: Mapping[int, StageShuffle]  #: by their numbers, ``loops.STAGE_SHIFT``
    #: weight and priority of each, as the flow policy says; empty if it says nothing
    asks: Sequence[tuple[float, tuple[float, ...]]] = ()


class CancelFetch(Command, frozen=True, kw_only=True):
    """A fetch is not wanted any more."""

    fetch: int
    started: StartFlow  #: what would have started it by itself
