"""Progress of a simulation: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from railyard.scripts.terminal import interrupts
from railyard.scripts.terminal.notices import wants_progress

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
