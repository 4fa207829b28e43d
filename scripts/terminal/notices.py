"""Who hears what is said besides results: people, on standard error, or a program that calls us.

A command speaks to people.  A function that was called from Python has its notices heard by its
caller, and shows progress only if it was asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import click


class _Hearer(NamedTuple):
    hear: Callable[[str], None]
    wants_progress: bool


_hearer: ContextVar[_Hearer | None] = ContextVar("hearer", default=None)


def notice(words: str) -> None:
    """Say a line that is no result: on standard error, or to whoever hears it."""
    hearer = _hearer.get()
    if hearer is None:
        click.echo(words, err=True)
    else:
        hearer.hear(words)


def wants_progress() -> bool:
    """Whether progress is to be shown."""
    hearer = _hearer.get()
    return hearer is None or hearer.wants_progress


@contextmanager
def heard_by(hear: Callable[[str], None], *, wants_progress: bool) -> Iterator[None]:
    """Have ``hear`` called with each notice while the block runs."""
    token = _hearer.set(_Hearer(hear, wants_progress))
    try:
        yield
    finally:
        _hearer.reset(token)
