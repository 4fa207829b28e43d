"""A plan's file: written, read, and refused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import rack_id
from railyard.resourcemanager.schedulers.corral.planfile import (
    Plan,
    PlannedJob,
    as_toml,
    load_plan,
    save_plan,
)

SMALL = """
scenario = "batch"
racks = 3
jobs = [
  { name = "b", priority = 2, racks = ["r2"] },
  { name = "a", priority = 1, racks = ["r0", "r1"], start_s = 1.5, planned_s = 2 },
]
"""


def test_a_person_may_write_one(tmp_path):
    (tmp_path / "plan.toml").write_text(SMALL)
    plan = load_plan(tmp_path / "plan.toml")
    assert [job.name for job in plan.jobs] == ["b", "a"]
    assert plan.jobs[1].end_s == plan.makespan_s == 3.5
    assert plan.completion_s == 1.75


def test_a_file_has_a_line_for_each_job_by_priority(tmp_path):
    (tmp_path / "plan.toml").write_text(SMALL)
    text = as_toml(load_plan(tmp_path / "plan.toml"))
    assert text.startswith("# Corral's plan: 2 jobs on 3 racks.\n")
    first, second = [line for line in text.splitlines() if "name =" in line]
    assert first.startswith('  { name = "a", priority = 1, ')
    assert first.endswith('racks = ["r0", "r1"] },')
    assert '"b"' in second


times = st.floats(0, 1e12)
planned = st.lists(
    st.tuples(st.text(), st.sets(st.integers(0, 4), min_size=1), times, times),
    unique_by=lambda row: row[0],
)


@given(planned)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, rows):
    jobs = tuple(
        PlannedJob(
            name=name,
            racks=tuple(rack_id(rack) for rack in sorted(racks)),
            priority=at + 1,
            start_s=start_s,
            planned_s=planned_s,
        )
        for at, (name, racks, start_s, planned_s) in enumerate(rows)
    )
    plan = Plan(scenario="online", racks=5, workload='a "b"', jobs=jobs)
    save_plan(plan, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"batch"', '"bath"', r"scenario = 'bath': need \"batch\" or \"online\""),
        ('"r2"', '"r3"', r"job b: racks = \['r3'\]: need racks of r0 to r2, each once"),
        ('["r2"]', "[]", r"job b: racks = \[\]: need racks of r0 to r2"),
        ('"r1"', '"r0"', r"job a: racks = \['r0', 'r0'\]: need racks of r0 to r2, each once"),
        ("priority = 2", "priority = 1", "job a: priority = 1: need a number that no other job"),
        ('"b"', '"a"', "job = 'a': need a name that no other job has"),
        ("priority = 2, ", "", r'missing key "jobs\[0\].priority"'),
        ("priority = 2", "prior = 2", "unknown field prior"),
        ("racks = 3", "racks = 'x'", "racks: need a whole number, not text"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, old, new, words):
    (tmp_path / "plan.toml").write_text(SMALL.replace(old, new))
    with pytest.raises(UsageError, match=f"plan.toml: .*{words}"):
        load_plan(tmp_path / "plan.toml")


def test_a_plan_that_cannot_be_written_says_why(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        save_plan(Plan(scenario="batch", racks=1, jobs=()), tmp_path / "no" / "plan.toml")
