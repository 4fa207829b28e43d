"""Results for notebooks: data frames, HTML, and text as on the terminal."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from railyard.cluster.errors import UsageError, printable

if TYPE_CHECKING:
    from pandas import DataFrame

_CELL_LETTERS_MAX = 1000


def data_frame(rows: Iterable[dict[str, Any]]) -> DataFrame:
    """A frame of these rows; pandas is an extra: ``pip install railyard[pandas]``."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError("to_pandas: pandas is missing: pip install railyard[pandas]") from None
    return DataFrame(list(rows))


def html_table(rows: Iterable[Sequence[Any]], heading: Sequence[str] = ()) -> str:
    """A table; the first of a row is its name, unless there is a heading."""
    head = "".join(map(_heading, heading))
    body = "".join(
        "<tr>"
        + "".join(
            _cell(value) if heading or at else _heading(value) for at, value in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def printed(show: Callable[[], object]) -> str:
    """What a function prints."""
    written = io.StringIO()
    with redirect_stdout(written):
        show()
    return written.getvalue().rstrip("\n")


def preformatted(text: str) -> str:
    """Text as HTML that keeps its columns."""
    return f"<pre style='line-height:1.2'>{html.escape(text)}</pre>"


def _heading(name: str) -> str:
    return f"<th style='text-align:left'>{html.escape(name)}</th>"


def _cell(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f"<td style='text-align:left'>{html.escape(printable(text, _CELL_LETTERS_MAX))}</td>"
