"""Correlation against a plain definition of ranks; its graph; generated tables; wrong lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.jobs.local import BytesReader, run_locally
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.correlation import check
from railyard.jobs.samples.correlation.generate import ROW_BYTES, TableGen
from railyard.jobs.samples.correlation.job import Correlation, rows
from railyard.jobs.samples.sample import GivenFile
from railyard.jobs.taskio import BadInput


def correlated(lines, split_bytes=10_000):
    data = "".join(f"{line}\n" for line in lines).encode()
    [output] = run_locally(Correlation(), {"/in": data}, 1, split_bytes).outputs["joined"]
    return [tuple(line.split("\t")) for line in output.decode().splitlines()]


def test_its_graph_is_a_diamond_of_single_tasks():
    by_name = {stage.name: stage for stage in Correlation().stage_specs()}
    assert {name: stage.reads for name, stage in by_name.items()} == {
        "m": (),
        "rows": ("m",),
        "first": ("rows",),
        "second": ("rows",),
        "joined": ("first", "second"),
    }
    assert [stage.tasks for stage in by_name.values()] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("lines", "ranks", "coefficient"),
    [
        (["a,1,10", "b,2,20", "c,3,30"], ["a 1 1", "b 2 2", "c 3 3"], "1.000000"),
        (["a,1,30", "b,2,20", "c,3,-10"], ["a 1 3", "b 2 2", "c 3 1"], "-1.000000"),
        (["a,5,1", "b,5,2", "c,9,3"], ["a 1.5 1", "b 1.5 2", "c 3 3"], "0.866025"),
        (["a,5,1", "b,5,2"], ["a 1.5 1", "b 1.5 2"], "undefined"),
        (["b,2,2", "a,1,9", "b,2,1", "a,1,5"], ["a 1 2", "b 2 1"], "-1.000000"),
        (["a,1,2"], ["a 1 1"], "undefined"),
    ],
)
def test_examples(lines, ranks, coefficient):
    *found, last = correlated(lines)
    assert [" ".join(each) for each in found] == ranks
    assert last == ("", str(len(ranks)), coefficient)


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(
        st.tuples(st.sampled_from("abcdeü"), st.integers(-3, 3), st.integers(-3, 3)),
        min_size=1,
        max_size=12,
    ),
    split_bytes=st.sampled_from([1, 5, 10_000]),
)
def test_ranks_are_how_many_are_below_and_half_of_the_equal_ones(table, split_bytes):
    *found, last = correlated([f"{n},{a},{b}" for n, a, b in table], split_bytes)
    least = {name: min(row[1:] for row in table if row[0] == name) for name, *_ in table}
    assert [name for name, *_ in found] == sorted(least, key=str.encode)
    for name, *ranks in found:
        for column, rank in enumerate(ranks):
            own = least[name][column]
            below = sum(row[column] < own for row in least.values())
            equal = sum(row[column] == own for row in least.values())
            assert float(rank) == below + (equal + 1) / 2
    assert last[:2] == ("", str(len(least)))


@pytest.mark.parametrize("bad", ["a,1", "a,1,2,3", ",1,2", "a,1,x", "a,1.5,2", "", "a\tb,1,2"])
def test_a_line_that_is_no_row_is_named_by_file_and_line(bad):
    lines = [f"n{n:03},1,2\n" for n in range(40)]
    data = "".join([*lines[:30], f"{bad}\n", *lines[30:]]).encode()
    for split_bytes in (10, 200, 10_000):
        with pytest.raises(BadInput, match=r"^/in:31: .*: need name,first,second"):
            run_locally(Correlation(), {"/in": data}, 1, split_bytes)
    with pytest.raises(BadInput, match=r"^mine\.csv:31: "):
        check_lines(rows, [GivenFile("", "mine.csv", BytesReader(data))])


def test_the_check_shares_nothing_with_the_job():
    imports = re.findall(r"^(?:from|import) .*", Path(check.__file__).read_text(), re.MULTILINE)
    assert not [line for line in imports if "samples.correlation" in line]


def test_generated_rows_have_names_that_come_twice_and_columns_that_agree():
    made = run_locally(TableGen(rows=20_000, parts=3, seed=4), {}).outputs["m"]
    assert made == run_locally(TableGen(rows=20_000, parts=3, seed=4), {}).outputs["m"]
    assert sum(map(len, made)) == 20_000 * ROW_BYTES
    lines = b"".join(made).decode().splitlines()
    names = {line.split(",")[0] for line in lines}
    assert 19_500 < len(names) < 19_700
    *_, last = correlated(lines, split_bytes=100_000)
    assert 0.5 < float(last[2]) < 0.8
