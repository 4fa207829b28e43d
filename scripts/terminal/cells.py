"""Text of others in tables and lines of Rich: shown as it is, never read as markup."""

from __future__ import annotations

from rich.text import Text

from railyard.cluster.shown import printable


def cell(text: str, style: str = "") -> Text:
    """A name, a reason or the like."""
    return Text(printable(text), style=style)
