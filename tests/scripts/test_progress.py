"""What a person sees while a job runs."""

import re
from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live

from railyard.cluster.ids import JobId
from railyard.resourcemanager.process.messages import JobProgress, StageProgress
from railyard.scripts.terminal.progress import Bars, BatchProgress, Lines


def stage(name, done, tasks, reads=()):
    share = done / tasks
    return StageProgress(
        name=name, reads=reads, tasks=tasks, done=done, running=tasks - done, progress=share
    )


@pytest.fixture
def diamond():
    """A job of four stages, of which two read the first; something was fetched twice."""
    return JobProgress(
        job=JobId("j1"),
        elapsed_s=1.5,
        stages=(
            stage("m", 4, 4),
            stage("b", 1, 2, ("m",)),
            stage("c", 0, 2, ("m",)),
            stage("d", 0, 1, ("b", "c")),
        ),
        shuffled_bytes=5_000_000_000,
        shuffle_bytes=4_000_000_000,
        failed_attempts=1,
        waiting="no slot is free",
    )


def test_bars(diamond):
    console = Console(file=StringIO(), force_terminal=True, width=60, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        Bars(live).show("words", diamond)
    plain = Console(file=StringIO(), width=60, color_system=None)
    plain.print(live.get_renderable())
    shown = re.sub("[━╸╺]", "", plain.file.getvalue())
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "words 1.50 s 1 failed attempt",
        "maps 4/4",
        "shuffle 4 GB/4 GB",
        "b 1/2 1 running",
        "c 0/2 2 running",
        "d 0/1 1 running",
        "waits: no slot is free",
    ]


def test_lines(diamond, capsys):
    Lines().show("words", diamond)
    assert capsys.readouterr().err == (
        "words  1.50 s  maps 4/4  b 1/2  c 0/2  d 0/1  shuffle 4 GB/4 GB"
        "  (waits: no slot is free)\n"
    )


@pytest.fixture
def batch(diamond):
    running = {f"words-{number}": diamond for number in range(1, 14)}
    return BatchProgress(title="running", elapsed_s=2.0, done=3, jobs=16, running=running)


def test_bars_of_many_jobs_fit_on_a_screen(batch):
    console = Console(file=StringIO(), force_terminal=True, width=80, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        Bars(live).show_all(batch)
    plain = Console(file=StringIO(), width=80, color_system=None)
    plain.print(live.get_renderable())
    first, *bars, last = plain.file.getvalue().splitlines()
    assert first == "running  2.00 s  3 of 16 jobs done"
    assert len(bars) == 12
    assert bars[0].startswith("words-1 ")
    assert bars[0].rstrip().endswith("5/9 tasks")
    assert last == "and 1 more"


def test_lines_of_many_jobs(batch, capsys):
    lines = Lines()
    lines.show_all(batch)
    lines.show_all(batch)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        "running  2.00 s  3 of 16 jobs done, 13 under way: words-1 56%, words-2 56%"
    )


def test_a_line_of_hundreds_of_jobs_names_the_first_few(diamond, capsys):
    running = {f"{'a-job-of-a-very-long-name' * 3}-{n}": diamond for n in range(300)}
    batch = BatchProgress(title="running", elapsed_s=3.0, done=12, jobs=400, running=running)
    Lines().show_all(batch)
    [line] = capsys.readouterr().err.splitlines()
    assert "12 of 400 jobs done, 300 under way: a-job-of-a-very-long-" in line
    assert line.endswith(", and 296 more")
    assert len(line) < 260


def test_nothing_that_is_said_reaches_the_terminal_unescaped(capsys):
    Lines().say("job \x1b[2J\u202e\u200b\x9b31m of somebody\nnext")
    assert capsys.readouterr().err == "job \\x1b[2J\\u202e\\u200b\\x9b31m of somebody\nnext\n"
