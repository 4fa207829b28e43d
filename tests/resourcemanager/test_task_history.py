"""What is kept of each task for histories: the truth about every attempt, within bounds."""

from __future__ import annotations

import gc
import sys

import msgspec
import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import TaskId
from railyard.cluster.messages import JobPackage, KillAttempt
from railyard.resourcemanager.process.messages import GetJobTasks, SubmitJob
from railyard.resourcemanager.process.submission import RESERVED_MAX, JobIds
from railyard.resourcemanager.process.taskhistory import (
    ATTEMPT_BYTES,
    TaskHistory,
    job_details,
    job_tasks,
    settings_of,
)
from railyard.resourcemanager.schedulers import all_recipes
from tests.harness import tiny_cluster


class Watched:
    """A tiny cluster with a history that takes each of its events."""

    def __init__(self, **shape):
        self.c = tiny_cluster(**shape)
        self.core = self.c.core
        self.history = TaskHistory(self.core.state)
        handle = self.core.handle

        def watched(event, now_s):
            commands = handle(event, now_s)
            self.history.take(now_s, event, commands)
            return commands

        self.core.handle = watched

    def tasks(self, job, **wanted):
        """{task: its report}."""
        answer = job_tasks(self.core, self.history, GetJobTasks(job=job, **wanted), self.c.now_s)
        return {task.task: task for task in answer.tasks}

    def details(self, job):
        return job_details(self.core, self.history, job, self.c.now_s)


def test_tasks_while_they_run_and_after():
    w = Watched(racks=2, nodes=1, slots=1)
    w.c.store("in", blocks=[["r0n0"], ["r1n0"], ["r1n0"]])
    w.c.submit("j1", input="in", reduces=1, map_s=2.0, reduce_s=3.0)
    w.c.run(until_s=1.0)
    early = w.tasks("j1")
    assert [task.state for task in early.values()] == ["running", "running", "pending", "pending"]
    assert early["j1.m2"].waiting == "no slot is free"
    [first] = early["j1.m0"].attempts
    assert (first.node, first.level, first.ended_s) == ("r0n0", "node-local", None)
    stages = w.details("j1").stages
    assert [(s.name, s.tasks, s.running, s.pending) for s in stages] == [
        ("m", 3, 2, 1),
        ("r", 1, 0, 1),
    ]
    w.c.run()
    late = w.tasks("j1")
    assert {task.state for task in late.values()} == {"done"}
    [reduce] = late["j1.r0"].attempts
    assert reduce.state == "succeeded"
    assert sum(reduce.fetched_bytes) == 3 * 10
    moved = [flow for _, flow in w.c.flows() if flow.src[:2] != flow.dst[:2]]
    assert reduce.fetched_bytes[2] == sum(flow.size_bytes for flow in moved) > 0
    assert reduce.launched_s <= reduce.fetched_s <= reduce.ended_s
    status = w.details("j1").status
    assert (status.maps, status.maps_done, status.reduces, status.reduces_done) == (3, 3, 1, 1)


def test_what_failed_what_was_killed_and_what_was_lost():
    w = Watched(racks=1, nodes=3, slots=1)
    w.c.failure = lambda attempt, _: "it broke" if attempt == "j1.m0.0" else None
    w.c.submit("j1", maps=3, reduces=1, map_s=2.0)
    w.c.at(1.0, lambda: w.c.lose("r0n2"))
    w.c.run()
    tasks = w.tasks("j1")
    failed, again = tasks["j1.m0"].attempts
    assert (failed.state, failed.reason, again.state) == ("failed", "it broke", "succeeded")
    lost, again = tasks["j1.m2"].attempts
    assert (lost.state, lost.ended_s, again.state) == ("killed", 1.0, "succeeded")

    w.c.submit("j2", maps=5, map_s=9.0)
    w.c.at(w.c.now_s + 1.0, lambda: w.c.kill("j2"))
    w.c.run()
    states = [task.state for task in w.tasks("j2").values()]
    assert states == ["stopped"] * 5
    assert {a.state for a in w.tasks("j2")[TaskId("j2.m0")].attempts} == {"killed"}
    assert any(isinstance(command, KillAttempt) for _, command in w.c.commands)
    assert w.details("j2").status.maps_done == 0


def test_pages_cover_all_tasks_once():
    w = Watched(racks=1, nodes=2, slots=2)
    w.c.submit("j1", maps=7, reduces=3)
    w.c.run()
    seen, begin = [], 0
    while True:
        wanted = GetJobTasks(job="j1", begin=begin, limit=4)
        page = job_tasks(w.core, w.history, wanted, 0.0)
        seen += [task.task for task in page.tasks]
        begin += 4
        if not page.left:
            break
    assert seen == [f"j1.m{at}" for at in range(7)] + [f"j1.r{at}" for at in range(3)]
    assert not w.tasks("j1", begin=10)


def test_the_jobs_that_ended_first_are_forgotten_first_and_a_huge_one_is_not_kept():
    w = Watched(racks=1, nodes=2, slots=2)
    w.c.submit("j1", maps=4)
    w.c.run()
    w.c.submit("j2", maps=4)
    w.c.run()
    assert len(w.tasks("j1")) == len(w.tasks("j2")) == 4
    w.history._weight_bytes_max = w.history._weight_bytes + 4 * ATTEMPT_BYTES - 1
    w.c.submit("j3", maps=4)
    w.c.run()
    with pytest.raises(PeerError, match="attempts of job j1 are not kept any more"):
        w.tasks("j1")
    assert len(w.tasks("j2")) == len(w.tasks("j3")) == 4
    assert w.details("j1").status.maps_done == 4
    assert w.details("j1").stages[0].done is None
    w.c.submit("j4", maps=20)
    w.c.run()
    with pytest.raises(PeerError, match="j4 are not kept"):
        w.tasks("j4")
    with pytest.raises(PeerError, match="no job j9"):
        w.tasks("j9")


def test_nothing_is_left_of_jobs_without_records():
    w = Watched(racks=1, nodes=2, slots=2)
    w.core._jobs._records_kept = 2
    for number in range(1, 6):
        w.c.submit(f"j{number}", maps=2, reduces=2)
        w.c.run()
    history = w.history
    assert list(history._jobs) == ["j4", "j5"]
    assert history._weight_bytes == sum(job.weight_bytes for job in history._jobs.values())
    assert history._history.held == history._history.reserved == history._history._fetches == {}


def test_ids_of_jobs_are_reserved_and_used_once():
    ids = JobIds()
    first, job = ids.reserve(), ids.id_for(None)
    assert (first, job) == ("j1", "j2")
    assert ids.id_for(first) == first  # as often as it is tried in vain
    ids.used(first)
    for unknown in (first, job, "j77"):
        with pytest.raises(PeerError, match="not reserved, or was used already"):
            ids.id_for(unknown)
    oldest = ids.reserve()
    for _ in range(RESERVED_MAX):
        ids.reserve()
    with pytest.raises(PeerError, match=f"job {oldest}"):
        ids.id_for(oldest)


def test_settings_are_text_and_cut():
    package = JobPackage(
        module="railyard.jobs.samples.wordcount",
        file_name="",
        source=b"",
        job_class="WordCount",
        params={"pattern": "x" * 10_000, "reduces": 3, "raw": b"\xff"},
    )
    told = settings_of(SubmitJob(name="n", package=package, stages=(), input_paths=("/a", "/b")))
    assert told["input_paths"] == "/a,/b"
    assert (told["params.reduces"], told["params.raw"]) == ("3", "\ufffd")
    assert len(told["params.pattern"]) < 600
    assert told["code"] == "railyard.jobs.samples.wordcount:WordCount"


# What is kept of jobs that have ended: beyond the bound nothing more, under every scheduler.


_KEPT, _FIRST, _MORE = 2, 30, 10
#: Kinds of objects that belong to all of Python.
_SHARED = (type, type(sys), type(gc.collect), type(tiny_cluster))


def held_by(root):
    """How many objects are held by an object that nothing else needs, and their bytes."""
    seen, left, size_bytes = {id(root)}, [root], 0
    while left:
        one = left.pop()
        size_bytes += sys.getsizeof(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, _SHARED):
                seen.add(id(other))
                left.append(other)
    return len(seen), size_bytes


def run_jobs(cluster, numbers):
    for number in numbers:
        cluster.submit(f"j{number}", maps=2, reduces=1)
        cluster.run()


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_a_core_is_as_large_after_many_jobs_as_after_some(scheduler):
    cluster = tiny_cluster(racks=2, nodes=2, slots=2, scheduler=scheduler)
    core = cluster.core
    core._jobs._records_kept = _KEPT
    core.history._entries = type(core.history._entries)(maxlen=20)
    core.history.add = core.history._entries.append
    run_jobs(cluster, range(100, 100 + _FIRST))
    before, before_bytes = held_by(core)
    run_jobs(cluster, range(100 + _FIRST, 100 + _FIRST + _MORE))
    after, after_bytes = held_by(core)
    assert after <= before + _MORE // 2, "of each job something is kept for good"
    assert after_bytes <= before_bytes + 200 * _MORE


def test_ended_jobs_attempts_take_a_tenth_of_what_they_took():
    cluster = tiny_cluster(racks=2, nodes=2, slots=4)
    cluster.counters = {f"a counter of some length {number}": number for number in range(8)}
    history = TaskHistory(cluster.core.state)
    handle = cluster.core.handle

    def watched(event, now_s):
        commands = handle(event, now_s)
        history.take(now_s, event, commands)
        return commands

    cluster.core.handle = watched
    cluster.submit("j1", maps=40, reduces=10)
    cluster.run()
    known = history.of_job("j1")
    reports = [reports for _, _, reports in known.of_tasks(0, 50)]
    assert sum(map(len, reports)) == 50
    _, unpacked_bytes = held_by(reports)
    _, packed_bytes = held_by([known._outline, known._pieces])
    assert packed_bytes < unpacked_bytes / 10
    assert known.weight_bytes < packed_bytes
    assert msgspec.to_builtins(reports[0][0].counters) == cluster.counters
