"""What a reduce attempt has fetched, and which of its fetches are under way.

Names and numbers only, so that attempts can hold a ``Reader`` and ``shuffling`` can be above them.

Never here: what is fetched next; see ``shuffling/shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from railyard.cluster.ids import FlowId, NodeId

#: Identifies a fetch of one reader: by its source node, since there is one at a time from each
#: node; by its flow where fetches are merged.
FetchKey = NodeId | FlowId


class Reader(msgspec.Struct, eq=False):
    """How far a reduce attempt's fetching is."""

    _missing: int
    #: for each stage read: {node: how many entries of its ``outputs[node]`` were asked for};
    #: empty if fetches are merged
    seen: list[dict[NodeId, int]]
    _fetched: dict[str, int]
    #: outputs that have arrived and are not counted in the two above yet, which are seldom read
    _arrived: list[Mapping[str, int]] = []
    fetches: dict[FetchKey, FlowId] = {}  #: the flows under way
    position: int = 0  #: how many of the ``Merging.ready`` were asked for, if fetches are merged
    repeats: bool = False  #: whether it has some of what it will ask for already
    tries: dict[NodeId, int] = {}  #: {node: fetches from it that failed in a row}
    sequence: int = 0  #: fetches started

    @property
    def fetched(self) -> Mapping[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}."""
        if self._arrived:
            self._count_arrived()
        return self._fetched

    @property
    def missing(self) -> int:
        """How many tasks' outputs have not arrived yet."""
        if self._arrived:
            self._count_arrived()
        return self._missing

    def has(self, stage: str, index: int) -> bool:
        """Whether the output of a task of a stage that it reads has arrived."""
        return bool(self.fetched[stage] >> index & 1)

    def take(self, outputs: Mapping[str, int]) -> None:
        """Outputs have arrived: tasks as bits, by stage.  Nobody may change the mapping."""
        self._arrived.append(outputs)

    def ask_again(self, node: NodeId) -> None:
        """Forget what was asked for from a node."""
        self.repeats = True
        for seen in self.seen:
            seen.pop(node, None)

    def _count_arrived(self) -> None:
        for outputs in self._arrived:
            for stage, tasks in outputs.items():
                before = self._fetched[stage]
                self._fetched[stage] = here = before | tasks
                self._missing -= here.bit_count() - before.bit_count()
        self._arrived.clear()


def new_reader(reads: Mapping[str, int], *, merged: bool) -> Reader:
    """The reader of an attempt of a stage that reads others: {stage: how many outputs of it}."""
    seen: list[dict[NodeId, int]] = [] if merged else [{} for _ in reads]
    return Reader(sum(reads.values()), seen, dict.fromkeys(reads, 0))


class ReaderRows(Protocol):
    """The fetches of a stage's readers, as rows; see ``shuffling/rows.py``."""

    def missing(self, task: int) -> int:
        """How many tasks' outputs a reader has yet to fetch."""

    def fetched(self, task: int) -> dict[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}."""

    def fetches_of(self, task: int) -> dict[FetchKey, FlowId]:
        """The flows under way for a reader."""


class RowReader(msgspec.Struct, frozen=True, eq=False):
    """How far a reduce attempt's fetching is, where fetches are rows."""

    rows: ReaderRows
    task: int  #: the reader's number among those of its stage

    @property
    def fetched(self) -> Mapping[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}."""
        return self.rows.fetched(self.task)

    @property
    def missing(self) -> int:
        """How many tasks' outputs have not arrived yet."""
        return self.rows.missing(self.task)

    @property
    def fetches(self) -> Mapping[FetchKey, FlowId]:
        """The flows under way."""
        return self.rows.fetches_of(self.task)

    def has(self, stage: str, index: int) -> bool:
        """Whether the output of a task of a stage that it reads has arrived."""
        return bool(self.fetched[stage] >> index & 1)
