"""Tables: text of others is shown as it is, and numbers are never cut, however narrow it is."""

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from railyard.cluster.units import size_unit, time_unit
from railyard.scripts.terminal.tables import Column, cell, plain_numbers, show_table

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
    from railyard.scripts.terminal.tables import plain_console

    monkeypatch.setenv("COLUMNS", "60")
    assert plain_console().width == 60
    monkeypatch.delenv("COLUMNS")
    assert plain_console().width == 200


def test_a_cell_has_a_style_and_is_printable():
    assert cell("a\nb", "red").plain == "a\\nb"
