"""What is printed besides results: notices, and how far many steps or a simulation are.

A command prints it on standard error.  A function that was called from Python hands its notices to
its caller, and shows progress only if it was asked to.
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

_SHOW_EVERY_S = 0.1
_LINE_EVERY_S = 5.0

#: To be called often; it checks the clock and interrupts itself.
Watch = Callable[[], None]


class State(NamedTuple):
    """Progress: so many done of a total."""

    done: int
    total: int
    words: str


class _Receiver(NamedTuple):
    receive: Callable[[str], None]
    wants_progress: bool


_receiver: ContextVar[_Receiver | None] = ContextVar("receiver", default=None)


def notice(words: str) -> None:
    """Print a line that is no result on standard error, or hand it to who called us."""
    receiver = _receiver.get()
    if receiver is None:
        click.echo(words, err=True)
    else:
        receiver.receive(words)


def wants_progress() -> bool:
    """Whether progress is to be shown."""
    receiver = _receiver.get()
    return receiver is None or receiver.wants_progress


@contextmanager
def notices_to(receive: Callable[[str], None], *, wants_progress: bool) -> Iterator[None]:
    """Have ``receive`` called with each notice while the block runs."""
    token = _receiver.set(_Receiver(receive, wants_progress))
    try:
        yield
    finally:
        _receiver.reset(token)


@contextmanager
def steps_done(doing: str, done: str, steps: int, noun: str) -> Iterator[Callable[[], None]]:
    """A function to call when a step is done: a bar, or a line for each tenth of them.

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


@contextmanager
def watching(state: Callable[[], State]) -> Iterator[Watch]:
    """A function to call while a simulation runs: a bar of ``state()``, or a line now and then."""
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
