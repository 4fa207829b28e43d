"""The shuffle where fetches are rows: many of them start and end in one call.

It does what ``shuffle.py`` does of one fetch after the other, and in the same order.

Never here: what happens to outputs that are lost, and to readers that are killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.ids import AttemptId, FlowId
from railyard.cluster.messages.execution import StartFlow
from railyard.resourcemanager.core.shuffling.fetches import Fetch, StageShuffle
from railyard.resourcemanager.core.shuffling.merging import Outputs
from railyard.resourcemanager.core.shuffling.rowmessages import (
    FetchesEnded,
    NamedFetch,
    NameFetches,
    Numbers,
    StartFetches,
)
from railyard.resourcemanager.core.shuffling.rows import (
    BITS,
    FetchTable,
    node_of,
    table_number,
    table_of,
    task_of,
)
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt
from railyard.resourcemanager.core.state.readers import Reader, RowReader
from railyard.resourcemanager.interface.commands import OpenCoflow

if TYPE_CHECKING:  # importing it loads numba
    from railyard.resourcemanager.core.shuffling.fast.tables import Tables

_NONE: Numbers = np.zeros(0, np.int64)
#: Stages of more tasks have no rows: the numbers of their fetches would not fit.
_TASKS_MAX = 1 << BITS


class Arriving(NamedTuple):
    """What fetches are about to bring: [fetch] each."""

    readers: list[AttemptId]
    outputs: list[int]  #: how many
    size_bytes: list[int]
    started_s: list[float]


class RowShuffle:
    """The fetches that are rows, of all stages."""

    def __init__(self, state: ClusterState) -> None:
        self.are_used = False  #: whether whoever drives the core takes rows
        self._state = state
        nodes = list(state.topology.nodes())
        self._number = {node.id: number for number, node in enumerate(nodes)}
        self._racks = list(dict.fromkeys(node.rack for node in nodes))
        racks = {rack: number for number, rack in enumerate(self._racks)}
        self._rack_of = np.array([racks[node.rack] for node in nodes], np.int64)
        self._tables: dict[int, FetchTable] = {}
        self._loops: Tables | None = None  #: these, for compiled loops
        self._shuffles: dict[int, StageShuffle] = {}  #: of these tables
        self._numbered = 0  #: tables so far
        self._begun = 0  #: fetches so far, rows or not

    # Tables --------------------------------------------------------------------------------------
    def new_table(self, shuffle: StageShuffle) -> FetchTable | None:
        """A table for a new stage's fetches; None if they can't be rows."""
        stage = shuffle.stage
        if not self.are_used or shuffle.merging is not None:
            return None
        if len(stage.reads) != 1 or stage.size > _TASKS_MAX:
            return None
        self._numbered += 1
        number = self._numbered
        self._shuffles[number] = shuffle
        table = FetchTable(stage, shuffle.coflow, number, len(self._racks))
        self._tables[number] = table
        self._put(table)
        return table

    def forget(self, table: FetchTable) -> None:
        """Forget a table."""
        self.count(table)
        del self._tables[table.number], self._shuffles[table.number]
        self._put(FetchTable(table.stage, table.coflow, table.number, 0))  # it may be large

    def count(self, table: FetchTable) -> None:
        """Have records say what a table's fetches have brought."""
        ended_s = table.count(self._racks)
        if ended_s is not None:
            self._shuffles[table.number].ended_s = ended_s

    def count_all(self) -> None:
        """The same of all tables."""
        for table in self._tables.values():
            self.count(table)

    def enroll(self, table: FetchTable, attempt: Attempt) -> bool:
        """Let an attempt read; False if the table can't have it."""
        if not table.enroll(attempt, self._number[attempt.node.id]):
            return False
        if isinstance(attempt.reader, Reader):
            attempt.reader = RowReader(table, attempt.task.index)
        return True

    def name_fetches(self, table: FetchTable) -> list[Fetch]:
        """Have each of a table's fetches dealt with by itself, and its readers likewise.

        Returns those under way, in the order in which they began.
        """
        for task, attempt in enumerate(table.attempts):
            if attempt is not None and isinstance(attempt.reader, RowReader):
                attempt.reader = table.as_reader(task)
        fetches, named = list[Fetch](), list[NamedFetch]()
        for node, task in table.under_way():
            attempt = table.attempts[task]
            assert attempt is not None
            assert isinstance(attempt.reader, Reader)
            fetches.append(self._as_fetch(table, node, task, attempt.reader))
            number = table.fetches(np.array([node]), np.array([task]))
            started_s = float(table.started_s[node, task])
            named.append(NamedFetch(int(number[0]), started_s, table.command(node, task)))
        if named:
            self._state.emit(NameFetches(named=named))
        self.forget(table)
        return fetches

    # Fetching ------------------------------------------------------------------------------------
    def next_order(self) -> int:
        """How many fetches began before one that begins now."""
        self._begun += 1
        return self._begun - 1

    def add_output(self, table: FetchTable, attempt: Attempt) -> int | None:
        """See ``FetchTable.add_output``."""
        before = table.ready
        place = table.add_output(attempt, self._number[attempt.node.id])
        if table.ready is not before:
            self._put(table)
        return place

    def fetch_output(self, table: FetchTable, node: int) -> None:
        """Something has become ready on a node: readers that fetch nothing from it fetch it."""
        at_work = table.stage.at_work
        tasks = np.array([each.task.index for each in at_work if not each.killing], np.int64)
        tasks = tasks[~table.is_open[node, tasks]]
        self._begin(table, np.full(len(tasks), node), tasks)

    def fetch_from_all(self, table: FetchTable, attempt: Attempt) -> None:
        """Fetch all that is ready for a reader."""
        if not attempt.killing:
            nodes = table.new_for(attempt.task.index)
            self._begin(table, nodes, np.full(len(nodes), attempt.task.index))

    def ended(self, event: FetchesEnded) -> None:
        """Fetches are complete: what is new at their nodes is fetched next."""
        assert self._loops is not None, "no fetch is a row"
        now_s = self._state.now_s
        fetches, src, dst, size_bytes, after = self._loops.end(event.fetches, now_s, self._begun)
        if len(fetches):
            self._begun += len(fetches)
            self._start(
                StartFetches(fetches=fetches, src=src, dst=dst, size_bytes=size_bytes, after=after)
            )

    # Reading -------------------------------------------------------------------------------------
    def has(self, fetch: int) -> bool:
        """Whether a fetch under way is still a row."""
        return table_number(fetch) in self._tables

    def arriving(self, fetches: Numbers) -> Arriving:
        """What fetches under way are about to bring."""
        assert self._loops is not None, "no fetch is a row"
        tables, ids = table_of(fetches).tolist(), self._tables
        tasks = task_of(fetches).tolist()
        readers = [ids[table].reader_ids[task] for table, task in zip(tables, tasks, strict=True)]
        outputs, sizes, started_s = self._loops.arriving(fetches)
        return Arriving(readers, outputs.tolist(), sizes.tolist(), started_s.tolist())

    def names(self, fetches: Numbers) -> list[FlowId]:
        """The flows of fetches under way."""
        tables, nodes, tasks = (part(fetches).tolist() for part in (table_of, node_of, task_of))
        return [
            self._tables[table].name(node, task)
            for table, node, task in zip(tables, nodes, tasks, strict=True)
        ]

    def as_commands(self, command: StartFetches) -> Iterator[StartFlow]:
        """What starts each of these flows, right after they began."""
        fetches = command.fetches
        tables, nodes, tasks = (part(fetches).tolist() for part in (table_of, node_of, task_of))
        for table, node, task in zip(tables, nodes, tasks, strict=True):
            yield self._tables[table].command(node, task)

    def as_fetches(self) -> Iterator[Fetch]:
        """All fetches under way that are rows, as objects."""
        for table in self._tables.values():
            readers: dict[int, Reader] = {}
            for node, task in table.under_way():
                if task not in readers:
                    readers[task] = table.as_reader(task)
                yield self._as_fetch(table, node, task, readers[task])

    # Inside --------------------------------------------------------------------------------------
    def _put(self, table: FetchTable) -> None:
        """Have compiled loops use a table's arrays."""
        from railyard.resourcemanager.core.shuffling.fast.tables import TableArrays, Tables

        if self._loops is None:
            self._loops = Tables(self._rack_of, BITS)
        self._loops.put(table.number, table.arrays(TableArrays))

    def _begin(self, table: FetchTable, nodes: Numbers, tasks: Numbers) -> None:
        """Begin fetches of all that is new on nodes for readers, in this order."""
        if not len(nodes):
            return
        orders = np.arange(self._begun, self._begun + len(nodes))
        self._begun += len(nodes)
        self._start(
            StartFetches(
                fetches=table.fetches(nodes, tasks),
                src=table.node_number[nodes],
                dst=table.reader_node[tasks],
                size_bytes=table.begin(nodes, tasks, self._state.now_s, orders),
                after=_NONE,
            )
        )

    def _start(self, command: StartFetches) -> None:
        """Start the flows of fetches.

        A stage's coflow opens right before the first of its flows from one node to another.
        """
        numbers = table_of(command.fetches)
        found = dict.fromkeys(numbers.tolist())
        closed = [number for number in found if self._shuffles[number].started_s is None]
        begin, opening = 0, list[tuple[int, int]]()
        for number in closed:
            first = ((numbers == number) & (command.src != command.dst)).nonzero()[0][:1].tolist()
            opening += [(place, number) for place in first]
        for place, number in sorted(opening):
            if place > begin:
                self._state.emit(command.part(slice(begin, place)))
            begin, shuffle = place, self._shuffles[number]
            shuffle.started_s = self._state.now_s
            job = shuffle.stage.job
            self._state.emit(OpenCoflow(coflow=shuffle.coflow, job=job.id))
        self._state.emit(command.part(slice(begin, None)) if begin else command)

    def _as_fetch(self, table: FetchTable, node: int, task: int, reader: Reader) -> Fetch:
        """The object for a fetch under way."""
        attempt, source = table.attempts[task], table.nodes[node]
        assert attempt is not None
        return Fetch(
            table.name(node, task),
            source.id,
            attempt,
            reader,
            self._shuffles[table.number],
            source,
            Outputs.of(tuple(table.outputs(node, task))),
            int(table.size_bytes[node, task]),
            None,
            table.order(node, task),
        )
