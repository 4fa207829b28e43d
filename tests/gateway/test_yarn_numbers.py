"""Numbers of the ResourceManager's REST: of one instant, so they add up."""

from __future__ import annotations

import posixpath
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import Refused
from railyard.dfs.messages import FileStatus
from railyard.dfs.paths import MISSING
from railyard.gateway.http.answers import RemoteError
from railyard.gateway.yarn.answers import as_xml, wants_xml
from railyard.gateway.yarn.mapreduce import (
    FILES,
    JOBS,
    RAILYARD,
    TASKS,
    MapReduceJob,
    counters_of,
)
from railyard.gateway.yarn.numbers import Numbers, TaskIds, container_id, job_named
from railyard.gateway.yarn.submission import input_files, line_cuts
from railyard.jobs.streaming.job import hadoop_job_id
from railyard.resourcemanager.process.messages import (
    AttemptReport,
    ClusterStatus,
    JobDetails,
    JobStatus,
    NodeStatus,
    StageStatus,
    TaskReport,
)

BEGUN_MS = 1_700_000_000_000


@st.composite
def clusters(draw):
    jobs = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        state = draw(st.sampled_from(["running", "committing", "succeeded", "failed"]))
        over = state in ("succeeded", "failed")
        jobs.append(
            JobStatus(
                job=f"j{number}",
                name="n",
                user="u",
                queue=draw(st.sampled_from("ab")),
                state=state,
                progress=draw(st.sampled_from([0.0, 0.5, 1.0])),
                submitted_s=1.0,
                finished_s=3.0 if over else None,
                stopped=state == "failed" and draw(st.booleans()),
            )
        )
    running = [job.job for job in jobs if job.finished_s is None]
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        held = draw(st.lists(st.sampled_from(running), max_size=3)) if running else []
        alive = draw(st.booleans())
        nodes.append(
            NodeStatus(
                node=f"r0n{number}",
                rack="r0",
                slots=draw(st.integers(0, 3)),
                attempts=tuple(f"{job}.m{at}.0" for at, job in enumerate(held)),
                alive=alive,
                lost_because="" if alive else "silent",
                drain=draw(st.sampled_from(["", "draining", "drained"])),
            )
        )
    named = {"scheduler": "fair", "flow_scheduler": "maxmin", "topology": "t", "now_s": 9.0}
    return Numbers(ClusterStatus(nodes=tuple(nodes), jobs=tuple(jobs), **named), BEGUN_MS)


@given(clusters())
def test_the_numbers_add_up(numbers):
    told = numbers.metrics()["clusterMetrics"]
    parts = "appsCompleted", "appsPending", "appsRunning", "appsFailed", "appsKilled"
    assert told["appsSubmitted"] == sum(told[part] for part in parts)
    for unit in ("MB", "VirtualCores"):
        shares = [told[f"{share}{unit}"] for share in ("available", "allocated", "reserved")]
        assert told[f"total{unit}"] == sum(shares)
        assert min(shares) >= 0
    nodes = [numbers.node(node) for node in numbers.status.nodes]
    states = Counter(node["state"] for node in nodes)
    named = {"activeNodes": "RUNNING", "lostNodes": "LOST"}
    named |= {f"decommission{how}Nodes": f"DECOMMISSION{how.upper()}" for how in ("ed", "ing")}
    assert {count: told[count] for count in named} == {c: states[s] for c, s in named.items()}
    assert told["totalNodes"] == states.total() == sum(told[count] for count in named)
    assert told["containersAllocated"] == sum(node["numContainers"] for node in nodes)
    assert told["availableMB"] == sum(node["availMemoryMB"] for node in nodes)
    apps = [numbers.app(job) for job in numbers.status.jobs]
    held = sum(app["runningContainers"] for app in apps if app["runningContainers"] >= 0)
    assert told["containersAllocated"] == held
    info = numbers.scheduler()["scheduler"]["schedulerInfo"]
    assert info["totalNodeCapacity"] == info["usedNodeCapacity"] + info["availNodeCapacity"]


def test_states_of_applications():
    def job(number, state, **fields):
        named = {"name": "n", "user": "u", "queue": "q", "progress": 0.0, "submitted_s": 2.0}
        return JobStatus(job=f"j{number}", state=state, **{**named, **fields})

    jobs = (
        job(1, "running"),
        job(2, "running", progress=0.25),
        job(3, "succeeded", finished_s=5.0, progress=1.0),
        job(4, "failed", finished_s=5.0, reason="a task failed"),
        job(12345, "failed", finished_s=5.0, stopped=True),
    )
    node = NodeStatus(node="r0n0", rack="r0", slots=2, attempts=("j2.m0.0",), alive=True)
    named = {"scheduler": "fair", "flow_scheduler": "maxmin", "topology": "t", "now_s": 9.0}
    numbers = Numbers(ClusterStatus(nodes=(node,), jobs=jobs, **named), BEGUN_MS)
    apps = [numbers.app(job) for job in jobs]
    assert [(app["state"], app["finalStatus"]) for app in apps] == [
        ("ACCEPTED", "UNDEFINED"),
        ("RUNNING", "UNDEFINED"),
        ("FINISHED", "SUCCEEDED"),
        ("FAILED", "FAILED"),
        ("KILLED", "KILLED"),
    ]
    assert apps[1]["id"] == f"application_{BEGUN_MS}_0002"
    assert apps[4]["id"] == f"application_{BEGUN_MS}_12345"
    assert (apps[1]["progress"], apps[1]["runningContainers"]) == (25.0, 1)
    assert (apps[1]["startedTime"], apps[1]["elapsedTime"]) == (BEGUN_MS + 2000, 7000)
    assert (apps[3]["finishedTime"], apps[3]["diagnostics"]) == (BEGUN_MS + 5000, "a task failed")


# Ids, counters and XML as Hadoop's clients expect them.


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
        assert job_named(5, hadoop_job_id(5, f"j{number}", kind)) == f"j{number}"
    assert job_named(6, hadoop_job_id(5, f"j{number}")) is None
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
        for group in job.counters()["jobCounters"]["counterGroup"]
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


# The files that -input stands for, and where their lines are cut into splits.


STORED = ("/in/a", "/in/b", "/in/_log", "/in/.crc", "/other/c.txt", "/other/d.gz", "/deep/x/y")


class Store:
    """A block store of names; a file is its own content, in pieces of three bytes."""

    def find(self, path: str) -> FileStatus | None:
        if path in STORED:
            return FileStatus(path=path)
        if path == "/" or any(file.startswith(f"{path}/") for file in STORED):
            return FileStatus(path=path, folder=True)
        return None

    def status(self, path: str) -> FileStatus:
        found = self.find(path)
        if found is None:
            raise Refused("there is none", kind=MISSING)
        return found

    def list(self, path: str) -> list[FileStatus]:
        head = path.rstrip("/") + "/"
        names = {file[len(head) :].split("/")[0] for file in STORED if file.startswith(head)}
        return [self.status(posixpath.join(path, name)) for name in sorted(names)]


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, path: str) -> Iterator[memoryview]:
        for at in range(0, len(self.data), 3):
            yield memoryview(self.data[at : at + 3])


@pytest.mark.parametrize(
    ("typed", "files"),
    [
        ("/in", ["/in/a", "/in/b"]),
        ("hdfs:///in/a", ["/in/a"]),
        ("/in/_log", ["/in/_log"]),  # who names it wants it
        ("/in/*", ["/in/a", "/in/b"]),
        ("/{in,other}/[ac]*", ["/in/a", "/other/c.txt"]),
        ("/*/?", ["/deep/x/y", "/in/a", "/in/b"]),
    ],
)
def test_inputs_are_files(typed, files):
    assert input_files(Store(), typed, "ann", recursive=False) == files


def test_folders_within_folders_are_read_if_asked():
    with pytest.raises(RemoteError, match="Not a file: /deep/x "):
        input_files(Store(), "/deep", "ann", recursive=False)
    assert input_files(Store(), "/deep", "ann", recursive=True) == ["/deep/x/y"]


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("/no", "Input path does not exist: /no"),
        ("/in/z*", "Input Pattern /in/z\\* matches 0 files"),
        ("a", "Input path does not exist: a"),
    ],
)
def test_what_is_not_there_is_said(typed, why):
    with pytest.raises(RemoteError, match=why):
        input_files(Store(), typed, "ann", recursive=False)


@given(st.lists(st.sampled_from([b"", b"x", b"long line"]), max_size=12), st.integers(1, 4))
def test_cuts_are_where_lines_begin(lines, each):
    data = b"".join(line + b"\n" for line in lines) + b"last"
    begins = line_cuts(Bytes(data), "/f", each)
    pieces = [data[at:end] for at, end in zip(begins, (*begins[1:], len(data)), strict=True)]
    assert b"".join(pieces) == data
    assert [piece.count(b"\n") for piece in pieces[:-1]] == [each] * (len(pieces) - 1)
    assert len(pieces[-1].splitlines()) <= each
    assert line_cuts(Bytes(b""), "/f", each) == ()
