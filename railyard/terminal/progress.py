"""Progress of jobs: bars on a terminal, a line every few seconds elsewhere.

All of it goes to standard error, so that standard output has only results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from railyard.cluster.errors import printable, printable_lines
from railyard.cluster.units import format_count, format_duration, format_share, format_size
from railyard.resourcemanager.process.messages import JobProgress, StageProgress
from railyard.terminal.notices import wants_progress
from railyard.terminal.tables import cell

_LINE_EVERY_S = 2.0
#: At most so many jobs are shown at once: a terminal has few lines.
_BARS_MAX = 12
#: Jobs that a line names, the first ones submitted, and letters of their names.
_NAMED_MAX = 4
_NAME_LETTERS_MAX = 24
_FEW_LETTERS = {"m": "maps", "r": "reduces"}


@dataclass(frozen=True, kw_only=True)
class BatchProgress:
    """Progress of several jobs."""

    title: str
    elapsed_s: float
    done: int  #: of so many
    jobs: int
    running: Mapping[str, JobProgress]  #: by the jobs' names


class View:
    """Shows the progress of jobs; by itself nothing."""

    def show(self, title: str, progress: JobProgress) -> None:
        """Show the progress of the job called ``title``."""

    def show_all(self, batch: BatchProgress) -> None:
        """Show the progress of several jobs."""

    def say(self, words: str) -> None:
        """Print a line that stays."""


@contextmanager
def progress_view() -> Iterator[View]:
    """Bars if standard error is a terminal, else lines; nothing if nobody wants progress."""
    if not wants_progress():
        yield View()
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield Bars(live)


class Lines(View):
    """A line every few seconds, and when a stage is done."""

    def __init__(self) -> None:
        self._said_s = float("-inf")
        self._said = ""

    def show(self, title: str, progress: JobProgress) -> None:
        done = [stage.name for stage in progress.stages if stage.done == stage.tasks]
        milestone = f"{title} {done}"
        now_s = time.monotonic()
        if milestone == self._said and now_s < self._said_s + _LINE_EVERY_S:
            return
        self._said, self._said_s = milestone, now_s
        stages = "  ".join(f"{name_of(s)} {s.done}/{s.tasks}" for s in progress.stages)
        shuffle = f"  shuffle {_of(progress)}" if progress.shuffle_bytes else ""
        waiting = f"  (waits: {progress.waiting})" if progress.waiting else ""
        self.say(f"{title}  {format_duration(progress.elapsed_s)}  {stages}{shuffle}{waiting}")

    def show_all(self, batch: BatchProgress) -> None:
        now_s = time.monotonic()
        if now_s < self._said_s + _LINE_EVERY_S:
            return
        self._said_s = now_s
        running = list(batch.running.items())
        if not running:
            self.say(_headline(batch))
            return
        shares = [
            f"{printable(name, _NAME_LETTERS_MAX)} {format_share(_share(job))}"
            for name, job in running[:_NAMED_MAX]
        ]
        if len(running) > _NAMED_MAX:
            shares.append(f"and {len(running) - _NAMED_MAX} more")
        self.say(f"{_headline(batch)}, {len(running)} under way: {', '.join(shares)}")

    def say(self, words: str) -> None:
        print(printable_lines(words), file=sys.stderr, flush=True)


class Bars(View):
    """A bar for each stage; one for all shuffles, before the first stage that fetches."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, title: str, progress: JobProgress) -> None:
        rows = Table.grid(padding=(0, 2))
        shown = not progress.shuffle_bytes
        for stage in progress.stages:
            if stage.reads and not shown:
                shown = True
                share = progress.shuffled_bytes / progress.shuffle_bytes
                rows.add_row("shuffle", _bar(share), _of(progress))
            running = f"  {stage.running} running" if stage.running else ""
            counts = f"{stage.done}/{stage.tasks}{running}"
            rows.add_row(name_of(stage), _bar(stage.progress), counts)
        head = cell(f"{title}  {format_duration(progress.elapsed_s)}", style="bold")
        if progress.failed_attempts:
            failed = format_count(progress.failed_attempts, "failed attempt")
            head.append(f"  {failed}", style="yellow")
        waiting = [cell(f"waits: {progress.waiting}", style="dim")] if progress.waiting else []
        self._live.update(Group(head, rows, *waiting), refresh=True)

    def show_all(self, batch: BatchProgress) -> None:
        rows = Table.grid(padding=(0, 2))
        for name, job in list(batch.running.items())[:_BARS_MAX]:
            tasks = sum(stage.tasks for stage in job.stages)
            done = sum(stage.done for stage in job.stages)
            rows.add_row(cell(name), _bar(_share(job)), f"{done}/{tasks} tasks")
        more = len(batch.running) - _BARS_MAX
        others = [Text(f"and {more} more", style="dim")] if more > 0 else []
        self._live.update(Group(Text(_headline(batch), style="bold"), rows, *others), refresh=True)

    def say(self, words: str) -> None:
        self._live.console.print(printable_lines(words), highlight=False, markup=False)


def name_of(stage: StageProgress) -> str:
    """A stage's name for people: "maps" and "reduces" for those of plain MapReduce."""
    return _FEW_LETTERS.get(stage.name, stage.name)


def _headline(batch: BatchProgress) -> str:
    elapsed = format_duration(batch.elapsed_s)
    return f"{batch.title}  {elapsed}  {batch.done} of {batch.jobs} jobs done"


def _share(job: JobProgress) -> float:
    """How much of all its tasks is done, 0 to 1."""
    tasks = sum(stage.tasks for stage in job.stages)
    return sum(stage.progress * stage.tasks for stage in job.stages) / tasks


def _bar(share: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=min(1.0, share), width=40)


def _of(progress: JobProgress) -> str:
    # Attempts that are run again fetch again: that is no more than all.
    fetched_bytes = min(progress.shuffled_bytes, progress.shuffle_bytes)
    return f"{format_size(fetched_bytes)}/{format_size(progress.shuffle_bytes)}"
