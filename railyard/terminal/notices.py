"""Who hears what is said besides results: people, on standard error, or a program that calls us.

A command speaks to people.  A function that was called from Python has its notices heard by its
caller, and shows progress only if it was asked to.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import click

from railyard.cluster.units import format_count
from railyard.terminal import interrupts


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


# How many of many like steps are done: a bar on a terminal, a line for each tenth elsewhere.


@contextmanager
def steps_done(doing: str, done: str, steps: int, noun: str) -> Iterator[Callable[[], None]]:
    """A function to call when one of so many steps is done.

    ``doing`` and ``done`` are words such as "simulating" and "simulated"; ``noun`` is what a step
    is, "run".  A single step has no progress.  All goes to standard error.
    """
    if steps == 1 or not wants_progress():
        yield lambda: None
        return
    if not sys.stderr.isatty():
        yield _lines(done, steps, noun)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (doing, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=steps)
        yield lambda: progress.advance(task)


def _lines(word: str, steps: int, noun: str) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done == steps or done * 10 // steps > (done - 1) * 10 // steps:
            print(f"{word} {done} of {format_count(steps, noun)}", file=sys.stderr, flush=True)

    return advance


# Progress of a simulation: a bar on a terminal, a line every few seconds elsewhere.


_SHOW_EVERY_S = 0.1
_LINE_EVERY_S = 5.0

#: To be called often; it checks the clock and interrupts itself.
Watch = Callable[[], None]


class State(NamedTuple):
    """Progress: so many done of a total."""

    done: int
    total: int
    words: str


@contextmanager
def watching(state: Callable[[], State]) -> Iterator[Watch]:
    """A function to call while a simulation runs; it shows ``state()`` from time to time."""
    if not wants_progress():
        yield interrupts.check
        return
    if not sys.stderr.isatty():
        yield _seldom(_LINE_EVERY_S, lambda: print(state().words, file=sys.stderr))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")

        def show() -> None:
            done, total, words = state()
            progress.update(task, completed=done, total=total, description=words)

        yield _seldom(_SHOW_EVERY_S, show)


def _seldom(every_s: float, show: Watch) -> Watch:
    """``show``, but at most every ``every_s`` seconds; each call also checks for an interrupt."""
    next_s = time.monotonic() + every_s

    def watch() -> None:
        nonlocal next_s
        interrupts.check()
        if time.monotonic() >= next_s:
            show()
            next_s = time.monotonic() + every_s

    return watch
