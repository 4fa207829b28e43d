"""Pieces of Markdown: tables, code, and text that must not be read as markup."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

#: What every page that is written from the code says at its top.
WRITTEN = "Written by `scripts/docs` from the code; changes go there.\n"
#: Letters that Markdown reads as markup, outside of code.
_MARKUP = re.compile(r"([*<\[\]|])")
_CODE = re.compile(r"(``.+?``|`.+?`)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """Text in a table's cell, as code."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def codes(texts: Iterable[str]) -> str:
    """Several, with commas between."""
    return ", ".join(map(code, texts))


def plain(text: str) -> str:
    """Text in one line whose letters mean themselves, but for `code` and ``code``."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        f"`{part.strip('`')}`".replace("|", "\\|") if at % 2 else _MARKUP.sub(r"\\\1", part)
        for at, part in enumerate(parts)
    )


def first_words(thing: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())
