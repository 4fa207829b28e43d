"""Merged fetches: large shuffles as a bounded number of flows.  Only the simulator asks for them.

A shuffle of 800 maps and 1,000 reduces is a flow for nearly each pair of nodes.  Merged, what is
ready for a reader is divided over few flows, each of which stands for those from some nodes: it
carries their bytes, with the weight of them all, and comes from one of them.  Which one that is
changes from reader to reader: each node is it as often as its share of the bytes, so that a node
with three times the output of others sends three times as much, and to all racks.
Each byte crosses its reader's links, and as many bytes cross the links of each source; what differs
is which source sends to which reader, and when: a reader asks for what has become ready once a
second if it has little under way, and for the last of it at once.  As many flows as there are nodes
would be the exact shuffle.

Left open in the papers, chosen here: a fetch breaks off with the node that it comes from, not with
the others that it stands for, until they are known to be lost.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from railyard.cluster.ids import AttemptId, RackId
from railyard.resourcemanager.core.state.jobs import Attempt, Node, Position, Stage
from railyard.resourcemanager.core.state.readers import Reader

#: Seconds between two looks of a waiting reader for what has become ready; once all is, at once.
LOOK_AFTER_S = 1.0
#: Ends the names of the timers for that.
LOOK = ".fetch"
_GOLDEN = (math.sqrt(5) - 1) / 2


class Outputs(NamedTuple):
    """Outputs that are fetched together, with their names and tasks."""

    attempts: tuple[Attempt, ...]
    ids: tuple[AttemptId, ...]
    tasks: Mapping[str, int]  #: for each stage, as bits

    @classmethod
    def of(cls, attempts: tuple[Attempt, ...]) -> Outputs:
        """Outputs of these attempts."""
        tasks: dict[str, int] = {}
        for attempt in attempts:
            name = attempt.task.stage.name
            tasks[name] = tasks.get(name, 0) | 1 << attempt.task.index
        return cls(attempts, tuple([attempt.id for attempt in attempts]), tasks)


class Bundle:
    """Outputs of some nodes, to be fetched together."""

    __slots__ = ("_ends", "_first", "_sizes", "nodes", "outputs")

    def __init__(
        self, outputs: tuple[Attempt, ...], nodes: tuple[Node, ...], first: float = 0.0
    ) -> None:
        self.outputs = Outputs.of(outputs)
        self.nodes = nodes  #: all that they are on
        #: tasks of equal output share the tuple
        sizes = Counter(id(output.partition_bytes) for output in outputs)
        by_id = {id(output.partition_bytes): output.partition_bytes for output in outputs}
        self._sizes = [(by_id[which], count) for which, count in sizes.items()]
        self._first = first  #: place of the node that sends to reader 0, from 0 to 1
        total = {which: sum(sizes) for which, sizes in by_id.items()}
        bytes_of = dict.fromkeys(nodes, 0)
        for output in outputs:
            bytes_of[output.node] += total[id(output.partition_bytes)]
        #: up to which place each node sends
        self._ends = list(accumulate(bytes_of[node] for node in nodes))

    def for_reader(self, number: int) -> tuple[Node, int]:
        """The node that sends it to the reader of that number, and how many bytes.

        Readers next to each other are often on nodes next to each other: theirs are far apart.
        """
        total_bytes = 0
        for sizes, count in self._sizes:
            total_bytes += count * sizes[number]
        place = (self._first + number * _GOLDEN) % 1.0 * self._ends[-1]
        return self.nodes[min(bisect_right(self._ends, place), len(self.nodes) - 1)], total_bytes


class Merging:
    """The outputs that a stage with merged fetches reads, as they become ready."""

    __slots__ = ("_cut", "flows", "looking", "ready")

    def __init__(self, flows: int) -> None:
        self.ready: list[Attempt] = []  #: outputs, in the order in which they came; lost ones too
        self.looking = False  #: whether a timer is set
        self.flows = flows  #: for each reader, each time that it asks
        #: bundles of what is between two places of ``ready``
        self._cut: dict[tuple[int, int], list[Bundle]] = {}

    def forget_bundles(self) -> None:
        """Forget how outputs were bundled, since some have been lost."""
        self._cut.clear()

    def bundles(self, reader: Attempt) -> list[Bundle]:
        """Bundles of what is new for a reader, which count as asked for from now on."""
        assert isinstance(reader.reader, Reader)
        begin, end = reader.reader.position, len(self.ready)
        reader.reader.position = end
        if begin == end:
            return []
        if reader.reader.repeats:  # it has some of this already
            has = reader.reader.has
            return self._divide([o for o in self.ready if not has(o.task.stage.name, o.task.index)])
        cut = self._cut.get((begin, end))
        if cut is None:
            cut = self._cut[begin, end] = self._divide(self.ready[begin:end])
        return cut

    def _divide(self, outputs: list[Attempt]) -> list[Bundle]:
        by_node: dict[Node, list[Attempt]] = {}
        for output in outputs:
            node = output.node
            if not output.output_lost and node.alive:
                by_node.setdefault(node, []).append(output)
        # Rack by rack, so that steps of one length meet each rack as often as it has nodes; and
        # the flows of one reader begin at places that are as far apart.
        there = sorted(by_node.items(), key=_place)
        count = min(self.flows, len(there))
        bundles = []
        for number in range(count):
            some = there[number::count]
            outputs_there = tuple(output for _, outputs in some for output in outputs)
            nodes = tuple(node for node, _ in some)
            bundles.append(Bundle(outputs_there, nodes, number / count))
        return bundles


def merging_of(stage: Stage, flows_max: int) -> Merging | None:
    """How a reading stage's fetches are merged; None: they are few enough, or are not to be."""
    flows = flows_of_each(stage.size, stage.inputs, flows_max)
    return None if flows is None else Merging(flows)


def flows_of_each(readers: int, outputs: int, flows_max: int) -> int | None:
    """Flows of each reader, each time that it asks, of so many outputs; None: see above."""
    if not flows_max or readers * outputs <= flows_max:
        return None
    return max(1, flows_max // readers)


def _place(there: tuple[Node, list[Attempt]]) -> tuple[int, RackId, Position]:
    node = there[0]
    return len(node.rack), node.rack, node.position
