"""Tables: text is never read as markup; lines are cut to fit a terminal, but not a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from railyard.cluster.shown import printable

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of a table that goes to no terminal.
_WIDE = 200


def cell(text: str, style: str = "") -> Text:
    """A name, a reason or the like, never read as markup."""
    return Text(printable(text), style=style)


def plain_console(*, highlight: bool = True) -> Console:
    """A console as wide as the terminal, or wide enough for whole lines."""
    from rich.console import Console

    console = Console(highlight=highlight)
    if not console.is_terminal:
        console.width = _WIDE
    return console
