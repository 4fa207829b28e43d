"""The shuffle where fetches are rows: many of them start and end in one call.

It does what ``shuffle.py`` does of one fetch after the other, and in the same order.

Never here: what happens to outputs that are lost, and to readers that are killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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

_NONE: Numbers = np.zeros(0, np.int64)
#: Stages of more tasks have no rows: the numbers of their fetches would not fit.
_TASKS_MAX = 1 << 20


class Arriving(NamedTuple):
    """What fetches are about to bring: [fetch] each."""

    readers: list[AttemptId]
    outputs: list[int]  #: how many
    size_bytes: list[int]
    started_s: list[float]


class _Begun(NamedTuple):
    """Fetches of a table that follow from ends."""

    table: FetchTable
    nodes: Numbers
    tasks: Numbers
    after: Numbers


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
        table = self._tables[number] = FetchTable(stage, shuffle.coflow, number)
        return table

    def forget(self, table: FetchTable) -> None:
        """Forget a table."""
        del self._tables[table.number], self._shuffles[table.number]

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
        return table.add_output(attempt, self._number[attempt.node.id])

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
        begun: list[_Begun] = []
        for table, places, nodes, tasks in self._by_table(event.fetches):
            self._record(table, nodes, tasks)
            more = table.end(nodes, tasks).nonzero()[0]
            if len(more):
                after = more if places is None else places[more]
                begun.append(_Begun(table, nodes[more], tasks[more], after))
        if len(begun) == 1:
            self._begin(*begun[0])
        elif begun:
            self._begin_in_turn(begun)

    # Reading -------------------------------------------------------------------------------------
    def has(self, fetch: int) -> bool:
        """Whether a fetch under way is still a row."""
        return table_number(fetch) in self._tables

    def arriving(self, fetches: Numbers) -> Arriving:
        """What fetches under way are about to bring."""
        many = len(fetches)
        readers = np.empty(many, object)
        outputs, sizes, started_s = np.empty(many, int), np.empty(many, int), np.empty(many)
        for table, at, nodes, tasks in self._by_table(fetches):
            places = slice(None) if at is None else at
            readers[places] = table.reader_ids[tasks]
            outputs[places] = table.asked[nodes, tasks] - table.arrived[nodes, tasks]
            sizes[places] = table.size_bytes[nodes, tasks]
            started_s[places] = table.started_s[nodes, tasks]
        return Arriving(readers.tolist(), outputs.tolist(), sizes.tolist(), started_s.tolist())

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
    def _by_table(
        self, fetches: Numbers
    ) -> Iterator[tuple[FetchTable, Numbers | None, Numbers, Numbers]]:
        """The fetches of each table: (table, their places, nodes, tasks); None: all of them."""
        of_tables, nodes, tasks = table_of(fetches), node_of(fetches), task_of(fetches)
        first = int(of_tables[0])
        if (of_tables == first).all():
            yield self._tables[first], None, nodes, tasks
            return
        for number in dict.fromkeys(of_tables.tolist()):
            places = (of_tables == number).nonzero()[0]
            yield self._tables[number], places, nodes[places], tasks[places]

    def _begin(
        self, table: FetchTable, nodes: Numbers, tasks: Numbers, after: Numbers = _NONE
    ) -> None:
        """Begin fetches of all that is new on nodes for readers, in this order."""
        if not len(nodes):
            return
        orders = np.arange(self._begun, self._begun + len(nodes))
        self._begun += len(nodes)
        command = self._begun_at(_Begun(table, nodes, tasks, after), orders)
        shuffle = self._shuffles[table.number]
        if shuffle.started_s is None:
            between = (command.src != command.dst).nonzero()[0]
            if len(between):
                first = int(between[0])
                shuffle.started_s = self._state.now_s
                if first:
                    self._state.emit(command.part(slice(first)))
                    command = command.part(slice(first, None))
                job = shuffle.stage.job
                self._state.emit(OpenCoflow(coflow=shuffle.coflow, job=job.id))
        self._state.emit(command)

    def _begun_at(self, begun: _Begun, orders: Numbers) -> StartFetches:
        table, nodes, tasks, after = begun
        return StartFetches(
            fetches=table.fetches(nodes, tasks),
            src=table.node_number[nodes],
            dst=table.reader_node[tasks],
            size_bytes=table.begin(nodes, tasks, self._state.now_s, orders),
            after=after,
        )

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

    def _begin_in_turn(self, begun: list[_Begun]) -> None:
        """Begin fetches of several tables, in the order of the ends that they follow from."""
        after = np.concatenate([each.after for each in begun])
        order = after.argsort()
        if any(
            self._shuffles[each.table.number].started_s is None for each in begun
        ):  # coflows may open
            of_begun = np.repeat(np.arange(len(begun)), [len(each.after) for each in begun])
            at = np.concatenate([np.arange(len(each.after)) for each in begun])
            for number, place in zip(of_begun[order].tolist(), at[order].tolist(), strict=True):
                table, nodes, tasks, those = begun[number]
                one = slice(place, place + 1)
                self._begin(table, nodes[one], tasks[one], those[one])
            return
        orders = np.empty(len(after), np.int64)
        orders[order] = np.arange(self._begun, self._begun + len(after))
        self._begun += len(after)
        ends = np.cumsum([len(each.after) for each in begun]).tolist()
        commands = [
            self._begun_at(each, orders[end - len(each.after) : end])
            for each, end in zip(begun, ends, strict=True)
        ]
        together = StartFetches(
            fetches=np.concatenate([each.fetches for each in commands]),
            src=np.concatenate([each.src for each in commands]),
            dst=np.concatenate([each.dst for each in commands]),
            size_bytes=np.concatenate([each.size_bytes for each in commands]),
            after=after,
        )
        self._state.emit(together.part(order))

    def _record(self, table: FetchTable, nodes: Numbers, tasks: Numbers) -> None:
        """Count what fetches have brought."""
        record = table.stage.job.record
        sizes = table.size_bytes[nodes, tasks]
        src, dst = table.node_number[nodes], table.reader_node[tasks]
        record.shuffled_bytes += int(sizes.sum())
        between = src != dst
        if not between.all():
            record.fetched_in_node_bytes += int(sizes[~between].sum())
            src, dst, sizes = src[between], dst[between], sizes[between]
        if not len(src):
            return
        self._shuffles[table.number].ended_s = self._state.now_s
        sources, targets = self._rack_of[src], self._rack_of[dst]
        far = sources != targets
        if not far.all():
            record.fetched_in_rack_bytes += int(sizes[~far].sum())
            sources, targets, sizes = sources[far], targets[far], sizes[far]
        for racks, by_rack in ((sources, record.sent_bytes), (targets, record.received_bytes)):
            totals = np.zeros(len(self._racks), np.int64)
            np.add.at(totals, racks, sizes)
            for number in dict.fromkeys(racks.tolist()):
                by_rack[self._racks[number]] += int(totals[number])
