"""Stages in SQL: each task puts its rows into tables in memory and runs one SELECT over them.

The database is SQLite (docs/decisions/jobs.md).  Rows go from stage to stage as pairs of
``jobs.records``: the first column is the key, which decides on the task that gets a row.

Tables are text: a row a line, its columns between commas, without quotes and without a header.  A
file whose rows are not those of its table is refused with the file, the line, and what is wrong.  A
decimal becomes a whole number of billionths, so that sums are exact.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from railyard.cluster.errors import printable
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.operators import FETCHED_SHARE, PairsOperator, fetched
from railyard.jobs.plan import GivenFile
from railyard.jobs.records import RunReader
from railyard.jobs.samples.tasks import BadLine, check_lines, parsed_splits
from railyard.jobs.taskio import Buffer, Counters, JobError, TaskIO, TaskResult

#: What a decimal of 1 becomes.
DECIMAL_UNIT = 10**9

_LINES = Lines()
_WHOLE = re.compile(r"[0-9]{1,10}")
_DECIMAL = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_SHOWN_LETTERS_MAX = 60

#: Instructions of SQLite between two progress reports: about a hundredth of a second.
_STEPS_PER_REPORT = 10**6
#: Rows between two progress reports while tables are filled.
_ROWS_PER_REPORT = 4096

Cell = str | int
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """The kind of a column: how its text is read."""

    right: str  #: what its text has to be, in words
    read: Callable[[str], Cell]  #: raises ``ValueError`` for text of another kind


def _text(text: str) -> str:
    if not text.isascii():
        text.encode()  # fails for bytes that were not UTF-8
    return text


def _integer(text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) >= 2**31:
        raise ValueError
    return int(text)


def _decimal(text: str) -> int:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise ValueError
    return int(found[1]) * DECIMAL_UNIT + int((found[2] or "").ljust(9, "0"))


@lru_cache(2**14)  # there are far fewer days than rows
def _day(text: str) -> str:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError
    return text


TEXT = Kind("UTF-8 text", _text)
INTEGER = Kind("a whole number below 2**31", _integer)
DECIMAL = Kind("a decimal >= 0 with at most 9 digits on either side of the point", _decimal)
DAY = Kind("a day such as 1980-01-31", _day)  #: stays text, which sorts as the days do


@dataclass(frozen=True)
class Table:
    """A table's name and its columns."""

    name: str
    columns: dict[str, Kind]

    def rows(self, lines: Buffer) -> list[tuple[Cell, ...]]:
        """The rows in these lines; raises ``BadLine`` for the first one of other columns."""
        readers = [kind.read for kind in self.columns.values()]
        rows = []
        for number, line in enumerate(_LINES.records(lines)):
            cells = line.split(",")
            try:
                row = [read(cell) for read, cell in zip(readers, cells, strict=True)]
            except ValueError:
                raise BadLine(number, self._what_is_wrong(cells)) from None
            rows.append(tuple(row))
        return rows

    def _what_is_wrong(self, cells: Sequence[str]) -> str:
        if len(cells) != len(self.columns):
            right = f"need the {len(self.columns)} of {self.name}: {', '.join(self.columns)}"
            return f"{len(cells)} column{'s' * (len(cells) != 1)}: {right}"
        for cell, (name, kind) in zip(cells, self.columns.items(), strict=True):
            try:
                kind.read(cell)
            except ValueError:
                return f'{name} is "{printable(cell, _SHOWN_LETTERS_MAX)}": need {kind.right}'
        raise AssertionError("every cell is right")


# Columns: those of the benchmark, in its order.
RANKINGS = Table("rankings", {"pageURL": TEXT, "pageRank": INTEGER, "avgDuration": INTEGER})
USERVISITS = Table(
    "uservisits",
    {
        "sourceIP": TEXT,
        "destURL": TEXT,
        "visitDate": DAY,
        "adRevenue": DECIMAL,
        "userAgent": TEXT,
        "countryCode": TEXT,
        "languageCode": TEXT,
        "searchWord": TEXT,
        "duration": INTEGER,
    },
)
#: By name, in the order in which the job reads them.
TABLES = {table.name: table for table in (RANKINGS, USERVISITS)}


def check_tables(files: Sequence[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines of files are rows of the tables that they belong to."""
    for given in files:
        check_lines(TABLES[given.input].rows, [given])


@dataclass(frozen=True)
class Scan(PairsOperator):
    """Runs a SELECT over each block of a table's rows in the task's splits.

    It must choose and change rows one by one, as it sees only those of a block.
    """

    table: Table
    select: str
    values: Mapping[str, Any] = field(default_factory=dict)  #: {NAME: what stands for :NAME}

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return self.deliver(_as_pairs(self._rows(task, io, counters)), task, counters)

    def _rows(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[Row]:
        found = counters[f"{task.stage}.rows_in"] = 0
        for rows in parsed_splits(self.table.rows, task, io):
            tables = {self.table.name: (tuple(self.table.columns), rows)}
            for row in run_select(tables, self.select, self.values):
                found += 1
                yield row
            counters[f"{task.stage}.rows_in"] += len(rows)
        counters[f"{task.stage}.rows_out"] = found


@dataclass(frozen=True)
class Select(PairsOperator):
    """Runs a SELECT over all rows that a task fetches.

    ``tables``: for each stage that it reads, in their order, the table that its rows go to under
    a name of its own, with its columns.
    """

    tables: Mapping[str, Sequence[str]]
    select: str
    values: Mapping[str, Any] = field(default_factory=dict)  #: {NAME: what stands for :NAME}
    #: makes a pair of a row; None = the first column, and the others
    as_pair: Callable[[Row], tuple[Any, Any]] | None = None

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        runs = {stage: RunReader() for stage in task.reads}
        for stage, output in fetched(task, io):
            runs[stage].add(output)
        rows = self._rows(runs, task, io, counters)
        pairs = map(self.as_pair, rows) if self.as_pair is not None else _as_pairs(rows)
        return self.deliver(pairs, task, counters)

    def _rows(
        self, runs: Mapping[str, RunReader], task: TaskSpec, io: TaskIO, counters: Counters
    ) -> Iterator[Row]:
        groups = max(1, sum(each.groups for each in runs.values()))
        read = found = 0

        def report() -> None:
            nonlocal read
            read += 1
            if read % _ROWS_PER_REPORT == 0:
                io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * read / (2 * groups))

        tables = {
            name: (columns, _rows_of(runs[stage], report))
            for stage, (name, columns) in zip(task.reads, self.tables.items(), strict=True)
        }
        half = (1 + FETCHED_SHARE) / 2
        for row in run_select(tables, self.select, self.values, lambda: io.progress(half)):
            found += 1
            yield row
        counters[f"{task.stage}.rows_out"] = found


def run_select(
    tables: Mapping[str, tuple[Sequence[str], Iterable[Row]]],
    select: str,
    values: Mapping[str, Any],
    on_step: Callable[[], None] = lambda: None,
) -> Iterator[Row]:
    """The rows of a SELECT over ``tables``, {name: (columns, rows)}; calls ``on_step`` meanwhile.

    Raises ``JobError`` for a statement that fails, such as for a sum beyond 64 bits.
    """
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.set_progress_handler(on_step, _STEPS_PER_REPORT)
            for name, (columns, rows) in tables.items():
                database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                cells = ", ".join("?" * len(columns))
                database.executemany(f"INSERT INTO {name} VALUES ({cells})", rows)
            yield from database.execute(select, dict(values))
    except sqlite3.Error as error:
        raise JobError(f"{' '.join(select.split())}: {error}") from None


def _rows_of(run: RunReader, on_group: Callable[[], None]) -> Iterator[Row]:
    return ((key, *row) for key, rows in run.merged(on_group) for row in rows)


def _as_pairs(rows: Iterable[Row]) -> Iterator[tuple[Any, Any]]:
    return ((row[0], row[1:]) for row in rows)
