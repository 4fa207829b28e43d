"""Tables as text: a row a line, its columns between commas, without quotes and without a header.

A file whose rows are not those of its table is refused with the file, the line, and what is wrong.
A decimal becomes a whole number of billionths, so that sums are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from railyard.cluster.messages.execution import Split
from railyard.cluster.shown import printable
from railyard.jobs.formats import Lines
from railyard.jobs.samples.checkedlines import BadLine, check_lines, parsed_blocks
from railyard.jobs.samples.sample import GivenFile
from railyard.jobs.taskio import Buffer, FileReader

#: What a decimal of 1 becomes.
DECIMAL_UNIT = 10**9

_LINES = Lines()
_WHOLE = re.compile(r"[0-9]{1,10}")
_DECIMAL = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_SHOWN_LETTERS_MAX = 60

Cell = str | int


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


def read_rows(
    table: Table, file: FileReader, split: Split
) -> Iterator[tuple[Buffer, list[tuple[Cell, ...]]]]:
    """(Block of whole lines, its rows) for all lines that begin in the split.

    Raises ``BadInput`` for a line that is no row of the table.
    """
    return parsed_blocks(table.rows, file, split)


def check_tables(files: Sequence[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines of files are rows of the tables that they belong to."""
    for given in files:
        check_lines(TABLES[given.input].rows, [given])
