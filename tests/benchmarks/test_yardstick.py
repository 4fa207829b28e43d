"""Bounds on CPU time are multiples of what a fixed loop takes in the same run."""

from __future__ import annotations

import pytest

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._common.yardstick import (
    WRITTEN_AT_S,
    by_yardstick,
    cpu_row,
    fill,
    in_numpy,
    in_python,
    in_turns,
)

MEMORY = bench_row("memory", 400.0, "MB", bound=500.0)


def held(rows: list[Row], *turns_s: float) -> list[Row]:
    """The first turn three times before, the others after."""
    left_s = [*turns_s[:1] * 3, *turns_s[1:]]
    return by_yardstick(lambda: rows, lambda: left_s.pop(0))


@pytest.mark.parametrize(
    ("slower", "cpu_s", "ok"),
    [
        pytest.param(1.0, 20.0, True, id="as it was written"),
        pytest.param(1.0, 20.1, False, id="a little more"),
        pytest.param(2.0, 40.0, True, id="on a machine of half the speed"),
        pytest.param(0.5, 10.1, False, id="on one of twice the speed"),
    ],
)
def test_a_bound_is_for_the_speed_of_the_machine(slower: float, cpu_s: float, ok: bool):
    row, _ = held([cpu_row("CPU", cpu_s, 20.0)], *4 * [slower * WRITTEN_AT_S])
    assert (row["value"], row["ok"]) == (cpu_s, ok)
    assert row["bound"] == pytest.approx(20.0 / WRITTEN_AT_S)
    assert row["ratio"] == pytest.approx(cpu_s / (slower * WRITTEN_AT_S))


def test_the_least_turn_counts_and_the_spread_is_shown():
    row, other, yardstick = held([cpu_row("CPU", 3.0, 2.0, unit="ms"), MEMORY], 1.25, 1.5, 1, 1.125)
    assert (row["value"], row["reference"], row["ratio"]) == (3000.0, 1000.0, 3.0)
    assert other == MEMORY
    assert yardstick["value"] == 1.0
    assert "1.250, 1.250, 1.250, 1.500, 1.000, 1.125: up to 50.0% more" in yardstick["note"]


def test_without_a_bound_there_is_a_ratio_and_no_verdict():
    row, _ = held([cpu_row("CPU", 3.0)], *4 * [1.5])
    assert (row["ratio"], row["bound"], row["ok"]) == (2.0, None, None)


def test_the_loop_does_the_same_each_time():
    assert in_python(100) == in_python(100) == pytest.approx(0.30638662)
    assert in_numpy(2) == in_numpy(2) == pytest.approx(267.952267)
    assert in_turns(fill, 2) == pytest.approx(2 * 63.60710395)
