"""Query: which visitors of ranked pages earned most, in five stages; an example of a job in SQL.

    SELECT sourceIP, SUM(adRevenue) AS totalRevenue, AVG(pageRank) AS avgPageRank
    FROM rankings JOIN uservisits ON pageURL = destURL
    WHERE visitDate BETWEEN :since AND :until
    GROUP BY sourceIP ORDER BY totalRevenue DESC, sourceIP LIMIT :most

``rankings`` and ``uservisits`` each read the input of that name and ship the rows that are wanted
to the task of their page's URL. ``join`` brings them together and adds up what it has of each
visitor, ``aggregate`` adds up these sums, and ``top`` has one task that ranks the best of each
``aggregate`` task.  The output has lines "sourceIP<TAB>totalRevenue<TAB>avgPageRank"; sums are
whole numbers, so their order does not matter, and the mean is rounded to thousandths.

Source: the join task of Pavlo et al., SIGMOD 2009, which is query 3 of the BigData benchmark; the
default is its largest variant, C (A is ``until=1980-04-01``, B is ``until=1983-01-01``).
Chosen here: ``most`` rows rather than one, and equal revenues go by address.

Each task puts its rows into tables in memory and runs one SELECT over them.  The database is SQLite
(docs/decisions/jobs.md).  Rows go from stage to stage as pairs of ``jobs.operators``: the first
column is the key, which decides on the task that gets a row.  Tables are text: a row a line, its
columns between commas, without quotes and without a header.  A file whose rows are not those of its
table is refused with the file, the line, and what is wrong.  A decimal becomes a whole number of
billionths, so that sums are exact.

Generated tables: the n-th most popular page, and the n-th most active visitor, have shares in
proportion to 1 / n**0.8; for pages that is what proxies saw (Breslau et al., INFOCOM 1999:
exponents of 0.64 to 0.83).  One visited page in eleven is in no ranking.  Days and revenues are
uniform.  Columns and sizes are the benchmark's, where ``rankings`` are 5 % of all bytes.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import printable, require
from railyard.cluster.messages import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import PairsOperator, RunReader, after_fetch, fetched
from railyard.jobs.package import pack_job
from railyard.jobs.plan import Files, GivenFile, Plan, Request, Step, Verdict, measured_step
from railyard.jobs.samples.checks import expected_rows, found_rows
from railyard.jobs.samples.tasks import BadLine, RowsGen, check_lines, generated, parsed_splits
from railyard.jobs.taskio import Buffer, Counters, JobError, TaskIO, TaskResult

DECIMAL_UNIT = 10**9  #: what a decimal of 1 becomes

_LINES = Lines()
_WHOLE = re.compile(r"[0-9]{1,10}")
_DECIMAL = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_SHOWN_LETTERS_MAX = 60

#: Instructions of SQLite between two progress reports: about a hundredth of a second.
_STEPS_PER_REPORT = 10**6
_ROWS_PER_REPORT = 4096  #: while tables are filled

Cell = str | int
Row = tuple[Any, ...]

_SUMS = ("sourceIP", "revenue", "ranks", "visits")
COLUMNS = ("sourceIP", "totalRevenue", "avgPageRank")  #: of the output
_SHOWN_ROWS = 10  #: that a verdict shows

RANKINGS_SHARE = 0.05  #: of ``rankings`` in the bytes of both tables
RANKING_BYTES, VISIT_BYTES = 62, 167  #: mean of a row, measured

_EXPONENT = 0.8
_VISITS_PER_VISITOR = 8
#: A prime larger than any number of pages here: multiples of it visit all of them.
_PRIME = 2**31 - 1
_FIRST_DAY, _DAYS = date(1970, 1, 1), 40 * 365
_REVENUE_CENTS_MAX = 1_000
_RANK_MAX = 2**20

_AGENTS = (
    "Mozilla/5.0 (Windows NT 6.1; rv:2.0) Gecko/20100101 Firefox/4.0",
    "Mozilla/5.0 (X11; Linux i686) AppleWebKit/534.30 Chrome/12.0.742",
    "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 5.1)",
    "Opera/9.80 (Windows NT 5.1; U; en) Presto/2.7.62 Version/11.01",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
)
_COUNTRIES = ("USA", "DEU", "FRA", "IND", "CHN", "BRA", "JPN", "RUS", "GBR", "KEN")
_LANGUAGES = ("en-US", "de-DE", "fr-FR", "hi-IN", "zh-CN", "pt-BR", "ja-JP", "ru-RU")


# Stages in SQL -----------------------------------------------------------------------------------
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
    if not _is_day(text):
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


def _as_pair(row: Row) -> tuple[Any, Any]:
    """The first column, and the others."""
    return row[0], row[1:]


@dataclass(frozen=True)
class Scan(PairsOperator):
    """Runs a SELECT over each block of a table's rows in the task's splits.

    It must choose and change rows one by one, as it sees only those of a block.
    """

    table: Table
    select: str
    values: Mapping[str, Any] = field(default_factory=dict)  #: {NAME: what stands for :NAME}

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return self.deliver(map(_as_pair, self._rows(task, io, counters)), task, counters)

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
    as_pair: Callable[[Row], tuple[Any, Any]] = _as_pair

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        runs = {stage: RunReader() for stage in task.reads}
        for stage, output in fetched(task, io):
            runs[stage].add(output)
        return self.deliver(map(self.as_pair, self._rows(runs, task, io, counters)), task, counters)

    def _rows(
        self, runs: Mapping[str, RunReader], task: TaskSpec, io: TaskIO, counters: Counters
    ) -> Iterator[Row]:
        groups = max(1, sum(each.groups for each in runs.values()))
        read = found = 0

        def report() -> None:
            nonlocal read
            read += 1
            if read % _ROWS_PER_REPORT == 0:
                io.progress(after_fetch(read / (2 * groups)))

        tables = {
            name: (
                columns,
                ((key, *row) for key, rows in runs[stage].merged(report) for row in rows),
            )
            for stage, (name, columns) in zip(task.reads, self.tables.items(), strict=True)
        }
        half = after_fetch(0.5)
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


# The job -----------------------------------------------------------------------------------------
class Query(Job):
    """Finds the `most` visitors who earned most from `since` to `until`."""

    most: int = 10
    since: str = "1980-01-01"
    until: str = "2010-01-01"

    def setup(self) -> None:
        require(self.most >= 1, "most", self.most, "a whole number >= 1")
        for name, day in (("since", self.since), ("until", self.until)):
            require(_is_day(day), name, day, "a day such as 1980-01-31")
        require(self.since <= self.until, "until", self.until, f"{self.since} or later")

    def stages(self) -> tuple[Stage, ...]:
        rankings = Scan(RANKINGS, "SELECT pageURL, pageRank FROM rankings")
        uservisits = Scan(
            USERVISITS,
            """SELECT destURL, sourceIP, adRevenue FROM uservisits
            WHERE visitDate BETWEEN :since AND :until""",
            {"since": self.since, "until": self.until},
        )
        join = Select(
            {
                "rankings": ("pageURL", "pageRank"),
                "uservisits": ("destURL", "sourceIP", "adRevenue"),
            },
            """SELECT sourceIP, SUM(adRevenue), SUM(pageRank), COUNT(*)
            FROM uservisits JOIN rankings ON pageURL = destURL GROUP BY sourceIP""",
        )
        aggregate = Select(
            {"joined": _SUMS},
            """SELECT sourceIP, SUM(revenue), SUM(ranks), SUM(visits) FROM joined
            GROUP BY sourceIP ORDER BY SUM(revenue) DESC, sourceIP LIMIT :most""",
            {"most": self.most},
        )
        top = Select(
            {"best": _SUMS},
            "SELECT * FROM best ORDER BY revenue DESC, sourceIP LIMIT :most",
            {"most": self.most},
            as_pair=_shown,
        )
        return (
            Stage("rankings", rankings, inputs=("rankings",)),
            Stage("uservisits", uservisits, inputs=("uservisits",)),
            Stage("join", join, reads=("rankings", "uservisits")),
            Stage("aggregate", aggregate, reads=("join",)),
            Stage("top", top, reads=("aggregate",), tasks=1),
        )


def _shown(row: Row) -> tuple[str, str]:
    """A row of the result as it is written: revenue as a decimal, and the mean rank."""
    source, revenue, ranks, visits = row
    whole, parts = divmod(revenue, DECIMAL_UNIT)
    thousandths = (2000 * ranks + visits) // (2 * visits)  # the nearest; halves are rounded up
    return source, f"{whole}.{parts:09}\t{thousandths // 1000}.{thousandths % 1000:03}"


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class _TableGen(RowsGen):
    if TYPE_CHECKING:
        pages: int

    def setup(self) -> None:
        require(1 <= self.pages < _PRIME, "pages", self.pages, f"1 to {_PRIME - 1}")
        super().setup()

    def text(self, first: int, rows: int, dice: np.random.Generator) -> bytes:
        return "".join(self.lines(first, rows, dice)).encode()

    def lines(self, first: int, rows: int, dice: np.random.Generator) -> Iterator[str]:
        raise NotImplementedError


class RankingsGen(_TableGen):
    """Generates the ranks of `pages` pages in `parts` files."""

    TOTAL = "pages"
    pages: int
    parts: int = 1
    seed: int = 1

    def lines(self, first: int, rows: int, dice: np.random.Generator) -> Iterator[str]:
        ranks = np.minimum(dice.pareto(1.2, rows) * 10 + 1, _RANK_MAX).astype(np.int64).tolist()
        durations = dice.integers(1, 120, rows).tolist()
        for page, rank, duration in zip(range(first, first + rows), ranks, durations, strict=True):
            yield f"{page_url(page)},{rank},{duration}\n"


class UserVisitsGen(_TableGen):
    """Generates `rows` visits of `pages` ranked pages, and of others, in `parts` files."""

    rows: int
    pages: int
    parts: int = 1
    seed: int = 1

    def lines(self, _: int, rows: int, dice: np.random.Generator) -> Iterator[str]:
        """Some rows; they depend on ``dice`` only."""
        visited = self.pages + self.pages // 10
        pages = _popular(visited, rows, dice) * _PRIME % visited
        visitors = _popular(1 + self.rows // _VISITS_PER_VISITOR, rows, dice)
        cents = dice.integers(1, _REVENUE_CENTS_MAX, rows)
        days = dice.integers(0, _DAYS, rows)
        rest = (dice.integers(0, sides, rows) for sides in (5, 10, 8, 1000, 30))
        columns = [each.tolist() for each in (visitors, pages, days, cents, *rest)]
        for visitor, page, day, cent, agent, country, language, word, duration in zip(
            *columns, strict=True
        ):
            yield (
                f"{_address(visitor)},{page_url(page)},{_date(day)},{cent // 100}.{cent % 100:02},"
                f"{_AGENTS[agent]},{_COUNTRIES[country]},{_LANGUAGES[language]},"
                f"{_words()[word]},{duration + 1}\n"
            )


def page_url(page: int) -> str:
    """The address of a page; no two have the same."""
    words = _words()
    site, folder = words[page % 997], words[31 * page % 991]
    return f"http://www.{site}.example/{folder}/{words[37 * page % 983]}/{page:x}.html"


def _popular(choices: int, rows: int, dice: np.random.Generator) -> npt.NDArray[np.int64]:
    """Numbers below ``choices`` by Zipf's law, 0 the most frequent."""
    drawn = np.searchsorted(_shares_up_to(choices), dice.random(rows), side="right")
    return np.minimum(drawn, choices - 1).astype(np.int64)


@cache
def _shares_up_to(choices: int) -> npt.NDArray[np.float64]:
    """The sum of the shares of the most frequent one, of the two most frequent ones, and so on."""
    sums = np.cumsum(np.arange(1.0, choices + 1) ** -_EXPONENT)
    shares: npt.NDArray[np.float64] = sums / sums[-1]
    return shares


@cache
def _words() -> list[str]:
    """1,000 made-up words of 4 to 14 letters, which are the same for all seeds."""
    dice = np.random.default_rng(0)
    letters = dice.integers(ord("a"), ord("z") + 1, (1000, 14), np.uint8)
    lengths = dice.integers(4, 15, 1000).tolist()
    return [bytes(row[:length]).decode() for row, length in zip(letters, lengths, strict=True)]


def _address(visitor: int) -> str:
    """The IPv4 address of a visitor; no two have the same."""
    number = (visitor * 2_654_435_761 + 0x9E3779B9) % 2**32  # an odd factor: one to one
    return ".".join(map(str, number.to_bytes(4, "big")))


@cache
def _date(day: int) -> str:
    return (_FIRST_DAY + timedelta(day)).isoformat()


def plan_query(request: Request) -> Plan:
    """Run the query over two generated tables, or over those that are given."""
    job = Query(**request.params)
    generating = () if request.input else _generate(request)
    inputs = dict(request.inputs or zip(TABLES, (step.output for step in generating), strict=False))
    source = request.input or request.shared or request.folder
    package = pack_job(Query, request.params)
    query = measured_step("query", source, request, lambda _: package)

    def verify(files: Files) -> Verdict:
        tables = inputs["rankings"], inputs["uservisits"]
        expected = expected_rows(files, *tables, job.since, job.until)
        best = expected[: job.most]
        if (found := found_rows(files, query.output)) != best:
            wrong = next((row for row in found if row not in best), None)
            example = f", such as {' '.join(wrong)}" if wrong is not None else ""
            return Verdict(False, f"{len(found)} rows, {len(best)} expected; others{example}")
        detail = f"the first {len(best)} of {len(expected)} rows, as computed independently"
        shown = tuple("  ".join(f"{c:>15}" for c in row) for row in (COLUMNS, *best[:_SHOWN_ROWS]))
        return Verdict(True, detail, shown)

    return Plan(
        steps=(*generating, replace(query, inputs=tuple(inputs.items()))),
        input=job.input,
        formats={name: job.input_format(name) for name in TABLES},
        check_files=check_tables,
        verify=verify,
    )


def _generate(request: Request) -> tuple[Step, Step]:
    """The steps that generate both tables, with a file for each block of about their size."""
    size = request.stored_bytes
    right = f"at least {RANKING_BYTES + VISIT_BYTES} real bytes: a row of each table"
    require(size >= RANKING_BYTES + VISIT_BYTES, "size", size, right)
    pages = max(1, round(size * RANKINGS_SHARE / RANKING_BYTES))
    rows = max(1, round(size * (1 - RANKINGS_SHARE) / VISIT_BYTES))
    ranked = replace(
        request, stored_bytes=pages * RANKING_BYTES, parts=math.ceil(request.parts * RANKINGS_SHARE)
    )
    visits = replace(request, stored_bytes=rows * VISIT_BYTES)
    return (
        generated(RankingsGen, ranked, "rankings", pages=pages),
        generated(UserVisitsGen, visits, "uservisits", rows=rows, pages=pages),
    )
