"""Attempts as processes: their parents, how they end, what is reported of it."""

from __future__ import annotations

import os
import signal

import msgspec
import psutil
import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.ids import AttemptId
from railyard.cluster.messages import (
    AskToCompute,
    AttemptDue,
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    AttemptWaits,
    DiscardJob,
    KillAttempt,
    LoadJob,
    UmbilicalHello,
)
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.topologyfile import RackShape
from railyard.jobs.package import pack_file
from railyard.nodemanager.permits import permits_of_machine
from tests.waiting import gone, wait_for

#: A job whose one stage calls ``work``; what is above it runs when the module is imported.
JOB = """
{top}
import os, signal, subprocess, sys, time
from pathlib import Path
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def __init__(self, job): self.job = job
    def run(self, task, io, counters):
        counters["done"] = 1
        result = self.job.work(task, io)
        pieces = [[result or b""]] * task.partitions
        return TaskResult(partitions=pieces, counters=counters)

class Only(Job):
    here: str = ""
    def stages(self):
        return (Stage("m", Op(self)),)
    def work(self, task, io):
        {work}
"""


def job_source(work="pass", top=""):
    return JOB.format(work=work, top=top)


def elsewhere(statement):
    """Code for a module's top: not done where the job is packed."""
    return f"import os, sys, time\nif os.getpid() != {os.getpid()}:\n    {statement}"


def package_of(top, cluster):
    """A job whose module runs ``top`` first."""
    file = cluster.folder.path / "packed.py"
    file.write_text(job_source(top=top))
    return pack_file(file)


def starts_a_child(note, session=False):
    started = f"subprocess.Popen(['sleep', '60'], start_new_session={session})"
    return f"p = {started}; Path({str(note)!r}).write_text(str(p.pid))"


def kill_order(attempt, node="r0n0"):
    return KillAttempt(attempt=attempt, node=node, reason="the test says so")


def test_attempts_descend_from_the_helpers_and_are_recorded(cluster, job):
    cluster.load(job, job_source("time.sleep(60)"))
    for number, node in enumerate(["r0n0", "r0n1", "r1n0"]):
        cluster.launch(f"{job}.m{number}.0", node)
    pids = [cluster.pid(f"{job}.m{number}.0") for number in range(3)]
    job_helpers = [psutil.Process(pid).parent() for pid in pids]
    assert job_helpers[0] == job_helpers[1] != job_helpers[2]
    for parent, rack in zip(job_helpers[1:], ("r0", "r1"), strict=True):
        assert parent.parent() == cluster.helper(rack)
        assert cluster.helper(rack).parent() == cluster.nodemanager(rack)
        assert parent.num_threads() == cluster.helper(rack).num_threads() == 1
    recorded = {row["name"]: row["pid"] for row in cluster.folder.processes()}
    assert pids == [recorded[f"{job}.m{number}.0"] for number in range(3)]
    everyone = [row["pid"] for row in cluster.folder.processes()]
    assert len(set(everyone)) == len(everyone)


def test_success_tells_what_was_done(cluster, job):
    cluster.load(job, job_source("return b'x' * 7"))
    cluster.launch(f"{job}.m0.0", partitions=3)
    ending = cluster.ending(f"{job}.m0.0")
    assert isinstance(ending, AttemptSucceeded)
    assert ending.partition_bytes == (7, 7, 7)
    assert ending.counters == {"done": 1}
    kinds = [type(fact) for fact in cluster.facts if fact.attempt == f"{job}.m0.0"]
    assert kinds == [AttemptStarted, AttemptSucceeded]


def test_import_is_paid_once_a_job_and_rack(cluster, job, tmp_path):
    marks = tmp_path / "imports"
    mark = f"with open({str(marks)!r}, 'a') as file: print(os.getpid(), file=file)"
    top = f"import os, time\n{mark}\ntime.sleep(0.3)"
    cluster.load(job, job_source(top=top), rack="r0")  # packing it has imported it here as well
    for number in range(6):
        cluster.launch(f"{job}.m{number}.0")
    for number in range(6):
        assert isinstance(cluster.ending(f"{job}.m{number}.0"), AttemptSucceeded)
    elsewhere = set(marks.read_text().split()) - {str(os.getpid())}
    assert len(elsewhere) == 1


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        pytest.param("os.kill(os.getpid(), 9)", "killed by signal 9 (SIGKILL)", id="kill -9"),
        pytest.param("os.abort()", "killed by signal 6 (SIGABRT)", id="abort"),
        pytest.param("os._exit(3)", "ended with exit 3 before its task was done", id="exit 3"),
        pytest.param("os._exit(0)", "ended with exit 0 before its task was done", id="exit 0"),
        pytest.param("sys.exit('enough')", "SystemExit: enough", id="sys.exit"),
        pytest.param("raise ValueError('odd\\nline')", "ValueError: odd", id="exception"),
    ],
)
def test_failure_gives_its_reason_and_the_stderr_before_it(cluster, job, work, reason):
    cluster.load(job, job_source(f"print('last words', file=sys.stderr, flush=True); {work}"))
    cluster.launch(f"{job}.m0.0", partitions=1)
    failed = cluster.ending(f"{job}.m0.0")
    assert isinstance(failed, AttemptFailed)
    assert failed.reason == reason
    assert failed.stderr.startswith("last words\n")


def test_traceback_shows_the_users_lines_only(cluster, job):
    cluster.load(job, job_source("return 1 // task.index"))
    cluster.launch(f"{job}.m0.0", partitions=1)
    failed = cluster.ending(f"{job}.m0.0")
    assert failed.reason.startswith("ZeroDivisionError: ")
    lines = failed.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "return 1 // task.index" in failed.stderr
    assert "nodemanager/attempt/main.py" not in failed.stderr
    written = cluster.folder.attempt(f"{job}.m0.0") / "stderr"
    assert written.read_text() == failed.stderr


def test_stdout_is_kept(cluster, job):
    cluster.load(job, job_source("print('hello')"))
    cluster.launch(f"{job}.m0.0", partitions=1)
    cluster.ending(f"{job}.m0.0")
    assert (cluster.folder.attempt(f"{job}.m0.0") / "stdout").read_text() == "hello\n"


def test_an_attempt_whose_output_cannot_be_kept_runs_all_the_same(cluster, job):
    cluster.load(job, job_source("print('hello')"))
    cluster.folder.attempt(f"{job}.m0.0").touch()  # no folder can be made, as on a read-only disk
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        pytest.param("raise RuntimeError('no such thing')", "no such thing", id="exception"),
        pytest.param("import no_such_module", "no_such_module", id="import error"),
        pytest.param("import sys; sys.exit(1)", "SystemExit: 1", id="sys.exit"),
    ],
)
def test_a_module_that_cannot_be_imported_fails_each_attempt(cluster, job, top, reason):
    cluster.load_package(job, package_of(elsewhere(top), cluster))
    for attempt in (f"{job}.m0.0", f"{job}.m0.1"):
        cluster.launch(attempt, partitions=1)
        failed = cluster.ending(attempt)
        assert isinstance(failed, AttemptFailed)
        assert "cannot be imported" in failed.reason
        assert reason in failed.reason
        assert top.split(";")[-1].strip() in failed.stderr  # the user's own line
    assert not any(
        isinstance(fact, AttemptStarted) and fact.attempt.startswith(f"{job}.")
        for fact in cluster.facts
    )


def test_a_module_may_begin_a_session_when_it_is_imported(cluster, job):
    cluster.load_package(job, package_of(elsewhere("os.setsid()"), cluster), rack="r0")
    cluster.launch(f"{job}.m0.0")
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)


def test_an_import_that_crashes_is_told_and_other_jobs_go_on(cluster, job):
    crash = "print('oh', file=sys.stderr, flush=True); os.abort()"
    cluster.load_package(job, package_of(elsewhere(crash), cluster), rack="r0")
    cluster.launch(f"{job}.m0.0", partitions=1)
    failed = cluster.ending(f"{job}.m0.0")
    assert "helper ended while importing the job's module: signal 6 (SIGABRT)" in failed.reason
    assert set(failed.stderr.split()) == {"oh"}  # twice, if the first helper had ended already
    other = f"{job}00"
    cluster.load(other, job_source())
    cluster.launch(f"{other}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{other}.m0.0"), AttemptSucceeded)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("keep = bytearray(3 * 2**30)", id="bytes"),
        pytest.param("import numpy; keep = numpy.ones(3 * 2**27)", id="numpy"),
        pytest.param("keep = [bytes(2**20) for _ in range(3000)]", id="bit by bit"),
    ],
)
def test_memory_is_limited(cluster, job, work):
    cluster.load(job, job_source(work))
    cluster.launch(f"{job}.m0.0", partitions=1)
    failed = cluster.ending(f"{job}.m0.0")
    assert isinstance(failed, AttemptFailed)
    assert failed.reason.startswith("MemoryError")
    assert "(compute.memory allows 1.07 GB an attempt)" in failed.reason
    assert "keep = " in failed.stderr


def test_memory_below_the_limit_is_there(cluster, job):
    cluster.load(job, job_source("keep = bytearray(900 * 2**20)"))
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)


def test_kill_ends_an_attempt_and_what_it_started(cluster, job, tmp_path):
    child = tmp_path / "child"
    work = f"{starts_a_child(child)}; p.wait()"
    cluster.load(job, job_source(work))
    cluster.launch(f"{job}.m0.0")
    pid = cluster.pid(f"{job}.m0.0")
    wait_for(lambda: child.exists() and child.read_text())
    cluster.send("r0", kill_order(f"{job}.m0.0"))
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptKilled)
    wait_for(lambda: gone(pid) and gone(int(child.read_text())))


@pytest.mark.parametrize("session", [False, True], ids=["same session", "session of its own"])
def test_what_a_dead_attempt_left_behind_is_killed(cluster, job, tmp_path, session):
    child = tmp_path / "child"
    cluster.load(job, job_source(starts_a_child(child, session)))
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    wait_for(lambda: gone(int(child.read_text())))


#: Starts a process that does not call exec, is nobody's child, and is in a session of its own.
DAEMON = """
        note = Path(self.here) / str(task.index)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note.write_text(str(os.getpid())); time.sleep(60)
            os._exit(0)
        os.wait()
        while not (note.exists() and note.read_text()): time.sleep(0.01)
        time.sleep(60 * task.index)
"""


def test_a_daemon_that_an_attempt_became_the_parent_of_ends_with_it(cluster, job, tmp_path):
    first, second = tmp_path / "0", tmp_path / "1"
    cluster.load(job, job_source(DAEMON), here=str(tmp_path))
    cluster.launch(f"{job}.m1.0", partitions=1)
    wait_for(lambda: second.exists() and second.read_text())
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    wait_for(lambda: gone(int(first.read_text())))
    assert not gone(int(second.read_text()))
    cluster.send("r0", kill_order(f"{job}.m1.0"))
    assert isinstance(cluster.ending(f"{job}.m1.0"), AttemptKilled)
    wait_for(lambda: gone(int(second.read_text())))


def test_what_one_attempt_left_behind_does_not_end_with_another(cluster, job, tmp_path):
    child, done = tmp_path / "child", tmp_path / "done"
    work = (
        "if task.index: return\n"
        f"        if os.fork() == 0: os.setsid(); {starts_a_child(child)}; os._exit(0)\n"
        f"        while not Path({str(done)!r}).exists(): time.sleep(0.01)"
    )
    cluster.load(job, job_source(work))
    cluster.launch(f"{job}.m0.0", partitions=1)
    wait_for(lambda: child.exists() and child.read_text())
    cluster.launch(f"{job}.m1.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m1.0"), AttemptSucceeded)
    assert not gone(int(child.read_text()))
    done.touch()
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    wait_for(lambda: gone(int(child.read_text())))


def test_killing_what_has_ended_is_no_news(cluster, job):
    cluster.load(job, job_source())
    cluster.launch(f"{job}.m0.0", partitions=1)
    cluster.ending(f"{job}.m0.0")
    cluster.send("r0", kill_order(f"{job}.m0.0"))
    cluster.launch(f"{job}.m1.0", partitions=1)
    cluster.ending(f"{job}.m1.0")
    endings = [fact for fact in cluster.facts if getattr(fact, "attempt", "") == f"{job}.m0.0"]
    assert [type(fact) for fact in endings] == [AttemptStarted, AttemptSucceeded]


def test_kill_while_the_module_is_imported(cluster, job):
    cluster.load_package(job, package_of(elsewhere("time.sleep(1)"), cluster))
    cluster.launch(f"{job}.m0.0", partitions=1)
    cluster.launch(f"{job}.m1.0", partitions=1)
    cluster.send("r0", kill_order(f"{job}.m0.0"))
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptKilled)
    assert isinstance(cluster.ending(f"{job}.m1.0"), AttemptSucceeded)


def test_orders_that_make_no_sense_are_answered(cluster, job):
    cluster.launch("j999.m0.0")
    assert cluster.ending("j999.m0.0").reason == "j999 was not loaded on nodemanager-r0"
    cluster.load(job, job_source())
    order = cluster.launch_order(f"{job}.m0.0", "r1n0")
    cluster.send("r0", order)
    assert cluster.ending(f"{job}.m0.0").reason == "r1n0 is no node of nodemanager-r0"


def test_discarding_a_job_kills_its_attempts_and_removes_its_output(cluster, job):
    cluster.load(job, job_source("time.sleep(60 * task.index); return b'x'"))
    cluster.launch(f"{job}.m0.0", partitions=1)
    cluster.launch(f"{job}.m1.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    output = cluster.folder.node("r0n0") / "shuffle" / job
    assert (output / f"{job}.m0.0").exists()
    pid = cluster.pid(f"{job}.m1.0")
    helper = psutil.Process(pid).ppid()
    cluster.send("r0", DiscardJob(job=job))
    assert isinstance(cluster.ending(f"{job}.m1.0"), AttemptKilled)
    wait_for(lambda: gone(pid) and gone(helper) and not output.exists())
    cluster.launch(f"{job}.m2.0", partitions=1)
    assert "was not loaded" in cluster.ending(f"{job}.m2.0").reason


def test_discarding_a_job_ends_what_it_started_in_other_sessions(cluster, job, tmp_path):
    child = tmp_path / "child"
    cluster.load(job, job_source(f"{starts_a_child(child, session=True)}; p.wait()"))
    cluster.launch(f"{job}.m0.0")
    wait_for(lambda: child.exists() and child.read_text())
    cluster.send("r0", DiscardJob(job=job))
    wait_for(lambda: gone(int(child.read_text())))


def test_job_helper_killed_takes_its_attempts_along_and_the_next_gets_a_new_one(cluster, job):
    cluster.load(job, job_source("time.sleep(60 * task.index)"))
    cluster.launch(f"{job}.m1.0")
    pid = cluster.pid(f"{job}.m1.0")
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    failed = cluster.ending(f"{job}.m1.0")
    assert isinstance(failed, AttemptFailed)
    assert failed.reason == "the job's helper ended while running attempts: signal 9 (SIGKILL)"
    wait_for(lambda: gone(pid) and len(helpers_of(job, cluster)) == 2)  # before any attempt asks
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    assert len(helpers_of(job, cluster)) == 2


def helpers_of(job, cluster):
    """The process ids of all helpers that the job has had in the first rack."""
    rows = cluster.folder.processes("JobHelper")
    return [row["pid"] for row in rows if row["name"] == f"nodemanager-r0-{job}"]


def test_job_helpers_that_keep_ending_without_an_attempt_are_not_replaced_for_ever(cluster, job):
    ends = "import signal; signal.setitimer(signal.ITIMER_REAL, 0.1)"  # once it has been imported
    cluster.load_package(job, package_of(elsewhere(ends), cluster), rack="r0")
    wait_for(lambda: len(helpers_of(job, cluster)) == 4)
    wait_for(lambda: all(map(gone, helpers_of(job, cluster))))
    other = f"{job}00"
    cluster.load(other, job_source("time.sleep(0.3)"), rack="r0")
    cluster.launch(f"{other}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{other}.m0.0"), AttemptSucceeded)
    assert len(helpers_of(job, cluster)) == 4


def test_progress_is_reported_also_while_the_attempt_waits(cluster, job):
    cluster.load(job, job_source("list(io.fetched())"))
    cluster.launch(f"{job}.m0.0", inputs=1, reads=("x",))
    cluster.fact(AttemptProgressed, attempt=f"{job}.m0.0")
    cluster.send("r0", kill_order(f"{job}.m0.0"))
    cluster.ending(f"{job}.m0.0")


class Nonsense(Message, frozen=True, kw_only=True):
    number: int


def test_nonsense_on_the_link_and_on_the_server_changes_nothing(cluster, job):
    cluster.send("r0", Nonsense(number=1))
    link = cluster.transport.link("nodemanager-r0")
    link.send(Nonsense(number=1))
    link.send(AttemptSucceeded(attempt=f"{job}.m0.0"))
    link.send(AttemptProgressed(attempt=f"{job}.m0.0", progress=0.5))
    cluster.load(job, job_source())
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    link.close()


def test_a_stranger_cannot_be_an_attempt(cluster, job):
    cluster.load_package(job, package_of(elsewhere("time.sleep(0.5)"), cluster), rack="r0")
    attempt = f"{job}.m0.0"
    cluster.launch(attempt, partitions=1)
    pid = cluster.pid(attempt)
    link = cluster.transport.link("nodemanager-r0")
    with pytest.raises(Refused, match=f"{attempt} is process {pid}, not {os.getpid()}|expected"):
        link.call(UmbilicalHello(attempt=attempt, pid=pid), Done)
    with pytest.raises(Refused, match=f"{attempt} did not come from it"):
        link.call(AttemptSucceeded(attempt=attempt), Done)
    link.send(AttemptDue(attempt=attempt, at_s=1e9))
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    link.close()


def test_permits_and_slots_are_a_matter_of_attempts_themselves(cluster, job):
    cluster.load_package(job, package_of(elsewhere("time.sleep(0.5)"), cluster), rack="r0")
    attempt = f"{job}.m0.0"
    cluster.launch(attempt, partitions=1)
    cluster.pid(attempt)
    link = cluster.transport.link("nodemanager-r0")
    for kind in (AskToCompute, AttemptWaits, AttemptReady):
        message = kind(attempt=attempt)
        with pytest.raises(Refused, match=f"{attempt} did not come from it"):
            link.call(message, Done)
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    link.close()


def test_more_attempts_than_permits_all_run_though_they_sleep(start_cluster):
    many = 2 * permits_of_machine()
    cluster = start_cluster(racks=RackShape(count=1, nodes=1, slots=many))
    cluster.load("j1", job_source("time.sleep(1)"))
    attempts = [f"j1.m{index}.0" for index in range(many)]
    for attempt in attempts:
        cluster.launch(attempt, partitions=1)
    for attempt in attempts:
        assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    waited_s = {delayed.attempt: delayed.launch_s for delayed in cluster.delayed}
    assert set(waited_s) == set(attempts)
    assert waited_s[attempts[-1]] > waited_s[attempts[0]]


def test_an_attempt_that_says_it_is_due_in_the_far_future_is_not_kept_back(cluster, job):
    attempt = f"{job}.m0.0"
    cluster.load(job, job_source("io._umbilical.end_at(9e9)"))
    cluster.launch(attempt, partitions=1)
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ("{'x': 2**63}", "counter x is 9223372036854775808: need -2^63 to 2^63 - 1, as in Hadoop"),
        ("{'x': -2**63 - 1}", "counter x is -9223372036854775809: need -2^63 to 2^63 - 1"),
        ("{'x': 2**70}", "counter x is 1180591620717411303424: need"),
        ("{'x': 9**9999}", "counter x is a longer number: need"),
        ("{'x': 'many'}", "counter x is 'many': need a whole number"),
        ("{'x': 1.5}", "counter x is 1.5: need a whole number"),
        ("{'x' * 256: 1}", "need a name of at most 255 letters"),
        ("{str(n): n for n in range(20_000)}", "its outcome is none: attempt-succeeded: "),
    ],
)
def test_counters_that_are_none_fail_the_attempt_and_say_why(cluster, job, counts, why):
    attempt = f"{job}.m0.0"
    cluster.load(job, job_source(f"self.counters.update({counts})"))
    cluster.launch(attempt, partitions=1)
    assert why in cluster.ending(attempt).reason


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63)])
def test_counters_of_64_bits_are_exact(cluster, job, count):
    attempt = f"{job}.m0.0"
    cluster.load(job, job_source(f"self.count('x', {count})"))
    cluster.launch(attempt, partitions=1)
    assert cluster.ending(attempt).counters["x"] == count


def test_a_module_that_writes_into_its_helpers_sockets_is_ended(cluster, job):
    write = "[os.write(int(fd), b'x' * 99) for fd in os.listdir('/proc/self/fd') if int(fd) > 2"
    write += " and 'socket' in os.path.realpath(f'/proc/self/fd/{fd}')]"
    guarded = f"for _ in range(1):\n        {write}"
    cluster.load_package(job, package_of(elsewhere(guarded), cluster), rack="r0")
    cluster.launch(f"{job}.m0.0")
    assert "helper ended" in cluster.ending(f"{job}.m0.0").reason
    other = f"{job}00"
    cluster.load(other, job_source())
    cluster.launch(f"{other}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{other}.m0.0"), AttemptSucceeded)


def test_names_that_lead_elsewhere_are_no_names(cluster, job, tmp_path):
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    cluster.load(job, job_source())
    before = sorted(path.name for path in cluster.folder.path.iterdir())
    for name in (str(tmp_path), "../../../../" + str(tmp_path), "../../../jobs", "..", ""):
        cluster.send("r0", DiscardJob(job=name))
        cluster.send("r0", LoadJob(job=f"{name}/x", package=package_of("", cluster)))
    order = cluster.launch_order(f"{job}.m1.0", partitions=1)
    odd = AttemptId(f"{job}.m1.0/../../elsewhere")
    cluster.send("r0", msgspec.structs.replace(order, attempt=odd))
    cluster.launch(f"{job}.m0.0", partitions=1)
    assert isinstance(cluster.ending(f"{job}.m0.0"), AttemptSucceeded)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    names = {path.name for path in cluster.folder.path.iterdir()} - {"packed.py"}
    assert names == set(before) - {"packed.py"}


# For how long an attempt computes where its code sets the time: what counts, and what does not.


TIMED_JOB = """
import time
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        {work}
        return TaskResult(output={output}, counters=counters)

def lazily():
    for _ in range(4):
        time.sleep(0.05)
        yield b"piece"

class Only(Job):
    def stages(self):
        return (Stage("m", Op()),)
"""


@pytest.mark.parametrize(
    ("work", "output"),
    [
        pytest.param("time.sleep(0.2)", "()", id="at-once"),
        pytest.param("pass", "lazily()", id="as-it-is-read"),
    ],
)
def test_computing_is_what_the_code_takes(cluster, job, work, output):
    cluster.load(job, TIMED_JOB.format(work=work, output=output))
    begin_s = cluster.reactor_now()
    cluster.launch(f"{job}.m0.0")
    ending = cluster.ending(f"{job}.m0.0")
    took_s = cluster.reactor_now() - begin_s
    assert isinstance(ending, AttemptSucceeded), ending
    assert 0.2 <= ending.computed_s <= took_s
    assert ending.read_s == 0
