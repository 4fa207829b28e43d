"""Ids, counters and XML as Hadoop's clients expect them."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.gateway.yarn.history.jobcounters import job_counters
from railyard.gateway.yarn.history.mapreduce import MapReduceJob
from railyard.gateway.yarn.history.taskcounters import FILES, JOBS, RAILYARD, TASKS, counters_of
from railyard.gateway.yarn.ids import TaskIds, container_id, job_id, job_named
from railyard.gateway.yarn.xml import as_xml, wants_xml
from railyard.resourcemanager.process.messages import (
    AttemptReport,
    JobDetails,
    JobStatus,
    StageStatus,
    TaskReport,
)

JOB = "job_1700000000000_0007"
STAGES = (
    StageStatus(name="split", reads=(), tasks=3),
    StageStatus(name="count", reads=("split",), tasks=2),
    StageStatus(name="other", reads=(), tasks=2),
    StageStatus(name="top", reads=("count", "other"), tasks=1),
)


def test_ids_of_tasks_go_on_from_stage_to_stage():
    ids = TaskIds(JOB, STAGES)
    assert ids.task("j7.split2") == "task_1700000000000_0007_m_000002"
    assert ids.task("j7.other0") == "task_1700000000000_0007_m_000003"
    assert ids.task("j7.top0") == "task_1700000000000_0007_r_000002"
    assert ids.attempt("j7.count1.4") == "attempt_1700000000000_0007_r_000001_4"
    tasks = [f"j7.{stage.name}{at}" for stage in STAGES for at in range(stage.tasks)]
    assert [ids.position(ids.task(task)) for task in tasks] == list(range(8))
    assert ids.position("attempt_1700000000000_0007_m_000003_1") == 5
    for wrong in ("task_1700000000000_0007_m_000005", "task_1_0007_m_000000", "task", ""):
        assert ids.position(wrong) is None


@given(st.integers(1, 10**7))
def test_job_ids_are_read_as_they_are_written(number):
    for kind in ("job", "application"):
        assert job_named(5, job_id(5, f"j{number}", kind)) == f"j{number}"
    assert job_named(6, job_id(5, f"j{number}")) is None
    assert job_named(5, f"job_5_0{number:04d}") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["m", "r", "split"]), st.integers(0, 10**6), st.integers(0, 999)),
        unique=True,
    )
)
def test_containers_of_a_job_have_ids_of_their_own(attempts):
    found = {container_id(5, f"j1.{stage}{index}.{number}") for stage, index, number in attempts}
    assert len(found) == len(attempts)


def attempt(**fields):
    named = {"attempt": "j7.m0.0", "node": "r0n0", "state": "succeeded", "level": "node-local"}
    return AttemptReport(copy=False, launched_s=1.0, **(named | fields))


def test_counters_of_a_map_with_a_combiner():
    counted = {"m.records_in": 10, "m.pairs_out": 20, "m.combined_away": 5, "words": 3, "g,n": 2}
    told = counters_of("m", attempt(counters=counted, shuffle_bytes=70), is_map=True)
    assert told[TASKS] == {
        "MAP_INPUT_RECORDS": 10,
        "MAP_OUTPUT_RECORDS": 20,
        "COMBINE_INPUT_RECORDS": 20,
        "COMBINE_OUTPUT_RECORDS": 15,
        "MAP_OUTPUT_MATERIALIZED_BYTES": 70,
        "SPILLED_RECORDS": 15,
    }
    assert (told["Counters"], told["g"]) == ({"words": 3}, {"n": 2})


def test_what_a_program_wrote_counts_in_the_models_bytes():
    told = counters_of("m", attempt(counters={"m.bytes_out": 40}), is_map=True, scale=1000)
    assert told[TASKS] == {"MAP_OUTPUT_BYTES": 40_000}


def test_what_a_reduce_makes_has_no_counter_of_bytes():
    told = counters_of("r", attempt(counters={"r.bytes_out": 40}), is_map=False)
    assert set(told[TASKS]) == {"REDUCE_SHUFFLE_BYTES"}
    assert "Counters" not in told


def test_nothing_is_guessed():
    read = counters_of("m", attempt(read_bytes=(1, 2, 4), shuffle_bytes=9), is_map=True)
    assert read[TASKS] == {"MAP_OUTPUT_MATERIALIZED_BYTES": 9, "MAP_OUTPUT_BYTES": 9}
    assert read[FILES] == {"HDFS_BYTES_READ": 7, "HDFS_BYTES_WRITTEN": 0}
    reduced = counters_of("r", attempt(fetched_bytes=(1, 2, 4), output_bytes=3), is_map=False)
    assert reduced[TASKS] == {"REDUCE_SHUFFLE_BYTES": 7}
    assert reduced[RAILYARD]["SHUFFLE_CROSS_RACK_BYTES"] == 4


def a_job(*tasks, state="succeeded", **fields):
    named = {"job": "j7", "name": "n", "user": "u", "queue": "q", "progress": 1.0}
    status = JobStatus(**(named | fields), state=state, submitted_s=0.5, finished_s=20.0)
    stages = (
        StageStatus(name="m", reads=(), tasks=2),
        StageStatus(name="r", reads=("m",), tasks=1),
    )
    details = JobDetails(now_s=30.0, status=status, stages=stages, settings={"name": "n"})
    return MapReduceJob(details, 1_700_000_000_000, tasks)


def test_a_task_that_was_done_again_counts_once():
    """Its first output was lost with its node; another attempt had failed before."""
    failed = attempt(state="failed", reason="it broke", ended_s=2.0)
    lost = attempt(attempt="j7.m0.1", state="output lost", ended_s=4.0, counters={"words": 3})
    again = attempt(attempt="j7.m0.2", ended_s=9.0, counters={"words": 3})
    task = TaskReport(task="j7.m0", state="done", attempts=(failed, lost, again))
    job = a_job(task, locality=(2, 1, 0))
    states = [job.attempt(task, each)["state"] for each in task.attempts]
    assert states == ["FAILED", "KILLED", "SUCCEEDED"]
    told = job.task(task)
    assert told["successfulAttempt"] == "attempt_1700000000000_0007_m_000000_2"
    assert (told["startTime"], told["finishTime"]) == (1_700_000_001_000, 1_700_000_009_000)
    counts = job.finished()["job"]
    kinds = ("failed", "killed", "successful", "running", "new")
    assert [counts[f"{kind}MapAttempts"] for kind in kinds] == [1, 1, 1, 0, 0]
    assert counts["avgMapTime"] == 8000
    groups = {
        group["counterGroupName"]: {row["name"]: row for row in group["counter"]}
        for group in job_counters(job)["jobCounters"]["counterGroup"]
    }
    assert groups["Counters"]["words"]["totalCounterValue"] == 3
    of_job = {name: row["totalCounterValue"] for name, row in groups[JOBS].items()}
    assert (of_job["TOTAL_LAUNCHED_MAPS"], of_job["NUM_KILLED_MAPS"]) == (3, 1)
    assert (of_job["DATA_LOCAL_MAPS"], of_job["RACK_LOCAL_MAPS"]) == (2, 1)
    assert of_job["MILLIS_MAPS"] == 1000 + 3000 + 8000


@pytest.mark.parametrize(
    ("state", "shown"),
    [("pending", "SCHEDULED"), ("left", "KILLED"), ("failed", "FAILED"), ("stopped", "KILLED")],
)
def test_tasks_without_attempts(state, shown):
    task = TaskReport(task="j7.r0", state=state)
    told = a_job(task).task(task)
    assert (told["state"], told["type"], told["successfulAttempt"]) == (shown, "REDUCE", "")
    assert (told["startTime"], told["finishTime"], told["elapsedTime"]) == (0, 0, 0)


def test_phases_of_a_reduce():
    reduce = attempt(attempt="j7.r0.0", fetched_s=4.0, ended_s=9.0)
    task = TaskReport(task="j7.r0", state="done", attempts=(reduce,))
    told = a_job(task).attempt(task, reduce)
    assert (told["elapsedShuffleTime"], told["elapsedMergeTime"]) == (3000, 0)
    assert told["elapsedReduceTime"] == 5000
    ahead = attempt(attempt="j7.r0.0", fetched_s=0.5, ended_s=9.0)  # before it had its slot
    assert a_job(task).attempt(task, ahead)["elapsedShuffleTime"] == 0
    fetching = attempt(attempt="j7.r0.0", state="running", fetched_s=4.0, progress=0.2)
    assert a_job(task).attempt(task, fetching)["shuffleFinishTime"] == 0


@pytest.mark.parametrize(
    ("accept", "xml"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/xml", True),
        ("text/xml; charset=utf-8", True),
        ("application/json, application/xml", False),
        ("application/xml;q=0.5, application/json;q=0.9", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/xml;q=x", False),
        (";;,,q", False),
    ],
)
def test_xml_only_where_it_is_preferred(accept, xml):
    assert wants_xml(accept) == xml


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.text(), VALUES.filter(lambda value: not isinstance(value, list)))
def test_whatever_an_answer_holds_it_is_an_xml_document(name, value):
    assert ET.fromstring(as_xml({name: value})) is not None


def test_xml_of_lists_nothing_and_truth():
    answer = {"apps": {"app": [{"id": "<a&b>", "x": None}, {"ok": True, "n": 1.5}]}}
    text = as_xml(answer).decode().partition("?>\n")[2]
    assert (
        text == "<apps><app><id>&lt;a&amp;b&gt;</id></app><app><ok>true</ok><n>1.5</n></app></apps>"
    )
    assert as_xml({"apps": None}).endswith(b"<apps />")
