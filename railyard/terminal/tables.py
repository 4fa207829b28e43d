"""Tables: text is never read as markup, numbers are never cut, each column has one unit.

Where a terminal is too narrow, text is folded; if that is not enough, the least important columns
are left out, and a line below says which, and how to see them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from railyard.cluster.errors import printable
from railyard.cluster.units import NO_UNIT, Unit, whole_number

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a table that goes to no terminal.
_WIDE = 200
#: Letters of a line of text, which nobody reads well if it is longer.
_TEXT_WIDE = 96
#: Longer words may be folded, so that a name never pushes a number out.
_WORD_MAX = 16
#: Spaces between two columns.
_GAP = 2

#: Text, or a number; None: unknown.  A number's column gives it its unit; text among numbers
#: ("unlimited") stays as it is.
Cell = str | Text | float | None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    #: of numbers: their unit, by the largest of them; None: text
    unit: Callable[[float], Unit] | None = None
    #: 0: always shown; of the others the one with the highest rank is the first to be left out
    rank: int = 0


def plain_numbers(_: float) -> Unit:
    """Of a column of numbers without unit."""
    return NO_UNIT


def cell(text: str, style: str = "") -> Text:
    """A name, a reason or the like, never read as markup."""
    return Text(printable(text), style=style)


def plain_console(*, highlight: bool = True) -> Console:
    """A console as wide as the terminal, or as $COLUMNS says, or wide enough for whole lines."""
    from rich.console import Console

    console = Console(highlight=highlight)
    if not console.is_terminal and not whole_number(os.environ.get("COLUMNS", "")):
        console.width = _WIDE
    return console


def wrapped(text: str, indent: int = 0) -> str:
    """Text in lines as long as the terminal, at most 96 letters, all behind as many spaces."""
    width = max(min(plain_console().width, _TEXT_WIDE), indent + _WORD_MAX)
    margin = " " * indent
    return fill(
        text, width, initial_indent=margin, subsequent_indent=margin,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def show_table(
    console: Console,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    elsewhere: str = "",
) -> None:
    """Print a table as wide as the console at most, unless numbers need more.

    ``elsewhere`` says what else shows columns that are left out, such as "--json".
    """
    rows = list(rows)
    made = [_make(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    filled = [one for one in made if not one.cells or any(one.cells)]
    shown = _fitting(filled, console.width)
    if title:
        console.print(cell(title, "bold"))
    _print(console, shown)
    if left_out := [one for one in filled if one not in shown]:
        names = ", ".join(one.column.heading for one in left_out)
        how = f"a terminal of {_width(filled)} columns shows them"
        also = f", and so does {elsewhere}" if elsewhere else ""
        console.print(cell(f"left out: {names}; {how}{also}", "dim"))


class _Made(NamedTuple):
    """A column with its cells as they are shown."""

    column: Column
    heading: list[str]  #: its lines
    cells: list[Text]
    least: int  #: width below which a number would be cut, or a word folded
    full: int


def _make(column: Column, values: Sequence[Cell]) -> _Made:
    heading = column.heading.split(" ") if column.unit else [column.heading]
    if column.unit is None:
        texts = ["" if one is None else one for one in values]
        cells = [one if isinstance(one, Text) else cell(str(one)) for one in texts]
    else:
        known = [abs(one) for one in values if isinstance(one, float | int) and math.isfinite(one)]
        unit = column.unit(max(known, default=0.0))
        heading += [unit.name] if unit.name else []
        cells = [_number(one, unit) for one in values]
    full = max([*map(len, heading), *(one.cell_len for one in cells)])
    least = full
    if column.unit is None:
        words = [Text(word).cell_len for one in cells for word in one.plain.split()]
        least = max([*map(len, heading), *(min(word, _WORD_MAX) for word in words)])
    return _Made(column, heading, cells, least, full)


def _number(value: Cell, unit: Unit) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, Text):
        return value
    if isinstance(value, int) and unit is NO_UNIT:
        return Text(f"{value:,}")
    return Text(value if isinstance(value, str) else unit.digits(value))


def _width(columns: Sequence[_Made]) -> int:
    return sum(one.least for one in columns) + _GAP * max(0, len(columns) - 1)


def _fitting(columns: Sequence[_Made], width: int) -> list[_Made]:
    """The columns that are shown, in their order."""
    shown = list(columns)
    while _width(shown) > width:
        least = max(shown, key=lambda one: one.column.rank)
        if not least.column.rank:
            break
        shown = [one for one in shown if one is not least]
    return shown


def _print(console: Console, columns: Sequence[_Made]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    lines = max((len(one.heading) for one in columns), default=1)
    spare = max(0, console.width - _width(columns))
    for one in columns:
        more = min(spare, one.full - one.least)
        spare -= more
        table.add_column(
            "\n".join([*[""] * (lines - len(one.heading)), *one.heading]),
            justify="left" if one.column.unit is None else "right",
            width=one.least + more,
            overflow="fold",
        )
    for row in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*row)
    width, console.width = console.width, max(console.width, _width(columns))
    console.print(table)
    console.width = width
