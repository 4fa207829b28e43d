"""What a person sees while a job runs."""

from __future__ import annotations

import io
import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from railyard.cluster.ids import JobId
from railyard.cluster.units import size_unit, time_unit
from railyard.resourcemanager.process.messages import JobProgress, StageProgress
from railyard.terminal.notices import steps_done
from railyard.terminal.progress import Bars, BatchProgress, Lines
from railyard.terminal.tables import Column, cell, plain_numbers, show_table


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


# Progress of many like steps, where standard error is no terminal.


def test_a_line_for_each_tenth(capsys):
    with steps_done("simulating", "simulated", 25, "run") as advance:
        for _ in range(25):
            advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == ("simulated 3 of 25 runs", "simulated 25 of 25 runs")


def test_a_single_step_says_nothing(capsys):
    with steps_done("simulating", "simulated", 1, "run") as advance:
        advance()
    assert capsys.readouterr().err == ""


# Tables: text of others is shown as it is, and numbers are never cut, however narrow it is.


COLUMNS = (
    Column("job"),
    Column("submitted", time_unit, rank=1),
    Column("job time", time_unit),
    Column("input", size_unit, rank=3),
    Column("tasks", plain_numbers, rank=2),
    Column("why"),
)


def shown(rows, width, columns=COLUMNS, **more):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    show_table(console, columns, rows, **more)
    return console.file.getvalue()


def test_names_are_no_markup_and_move_no_cursor():
    text = shown([["[red]x[/] [/nothing] \x1b[2J\u202e"]], 80, [Column("name")])
    assert "[red]x[/] [/nothing] \\x1b[2J\\u202e" in text


def test_each_column_has_one_unit():
    rows = [["a", 0.0, 7_300.0, 2e9, 5, ""], ["b", 0.25, 95.0, 40e6, 12_345, ""]]
    assert [line.split() for line in shown(rows, 80).splitlines()] == [
        ["job"],
        ["submitted", "time", "input"],
        ["job", "ms", "s", "GB", "tasks"],
        ["a", "0", "7,300", "2.00", "5"],
        ["b", "250", "95.0", "0.040", "12,345"],
    ]


def test_a_narrow_terminal_has_fewer_columns_and_says_which():
    rows = [["terasort", 1.0, 8.11, 1e10, 56, "verified"]]
    assert "left out" not in shown(rows, 80)
    text = shown(rows, 34, elsewhere="--json")
    words = " ".join(text.split())
    assert "left out: submitted, input, tasks; a terminal of" in words
    assert "and so does --json" in words
    assert {"8.11", "verified"} <= set(words.split())
    [needed] = re.findall(r"a terminal of (\d+) columns", words)
    assert "left out" not in shown(rows, int(needed))
    assert "left out: input; a" in " ".join(shown(rows, int(needed) - 1).split())


def test_columns_that_say_nothing_are_not_shown():
    assert "why" not in shown([["a", 1.0, 1.0, 1, 1, ""]], 80)


@given(
    rows=st.lists(
        st.tuples(
            st.text("abc-_[]/ ", max_size=40),
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.integers(0, 10**18),
            st.integers(0, 10**9),
            st.just("some reason that is rather long"),
        ),
        min_size=1,
        max_size=4,
    ),
    width=st.integers(10, 130),
)
def test_no_number_is_ever_cut(rows, width):
    text = shown(rows, width)
    unit = time_unit(max(row[2] for row in rows))
    assert "\u2026" not in text
    words = text.split()
    for row in rows:
        assert unit.digits(row[2]) in text, "the time of a job, which is always shown"
    if "left out" not in text:
        assert all(f"{row[4]:,}" in words for row in rows)


def test_columns_of_the_environment_count_where_there_is_no_terminal(monkeypatch):
    from railyard.terminal.tables import plain_console

    monkeypatch.setenv("COLUMNS", "60")
    assert plain_console().width == 60
    monkeypatch.delenv("COLUMNS")
    assert plain_console().width == 200


def test_a_cell_has_a_style_and_is_printable():
    assert cell("a\nb", "red").plain == "a\\nb"
