"""How many of many like steps are done: a bar on a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from railyard.cluster.units import format_count
from railyard.scripts.terminal.notices import wants_progress


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
