"""Bugs that are planted are found by schedules of faults, and the schedule is made short."""

from __future__ import annotations

import re

import pytest

from railyard.benchmarks._faults.planted import planted
from railyard.benchmarks._faults.running import (
    again,
    broken_law,
    made_short,
    schedule_of,
    schedulers,
)
from railyard.benchmarks._faults.schedules import Schedule, small_schedule
from railyard.benchmarks._faults.shrinking import parts_of, shrunk
from railyard.benchmarks.faults import found_by
from railyard.simulator.silence.daemons import DaemonDown


@pytest.mark.parametrize(
    ("bug", "law"),
    [
        ("a double grant", r"was granted \d+ bytes, and goes on from 0"),
        ("a forgotten replica", "is forgotten"),
        ("a slot that is never free again", r"free = \d, not \d"),
    ],
)
def test_a_planted_bug_is_found(bug: str, law: str):
    count, found = found_by(bug)
    assert count < 100
    assert re.search(law, found), found


def test_a_failing_schedule_is_made_short():
    count, _ = found_by("a double grant")
    with planted("a double grant"):
        long = schedule_of(count - 1, schedulers())
        short, lines = made_short(long)
        assert "was granted" in broken_law(short)
    assert broken_law(short) == ""
    assert [type(fault) for fault in short.faults] == [DaemonDown]
    assert len(short.jobs) == 1
    assert lines[-1].startswith(f"again with: {again(long)} f")


def test_parts_that_are_needed_stay():
    drawn = (small_schedule("fair", seed) for seed in range(100))
    long = next(schedule for schedule in drawn if len(parts_of(schedule)) > 4)
    wanted = {("f", 1), ("j", 0)}

    def fails(smaller: Schedule) -> bool:
        return long.faults[1] in smaller.faults and long.jobs[0] in smaller.jobs

    kept = shrunk(long, fails)
    assert set(kept) == wanted


def test_the_same_schedule_comes_of_the_same_seed():
    assert small_schedule("corral", 5) == small_schedule("corral", 5)
    assert small_schedule("corral", 5).faults != small_schedule("corral", 6).faults
