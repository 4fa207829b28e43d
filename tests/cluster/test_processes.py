"""Forked children: their exit, and that they never return to their parent's code."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from railyard.cluster.processes import (
    allow_many_descriptors,
    fork,
    how_it_ended,
    kill_members,
    marked,
    signal_member,
)
from tests.waiting import gone, wait_for


def ending(main):
    """The end of a child that runs ``main``, in words."""
    test = os.getpid()
    try:
        pid = fork(main)
    finally:
        if os.getpid() != test:  # it must not go on with what its parent was doing
            os._exit(99)
    return how_it_ended(os.waitpid(pid, 0)[1])


def fill_stdout():
    """Leave words in the buffer of a stdout that has no room for them."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    sys.stdout = os.fdopen(1, "w", buffering=2**16)
    print("words")


def fill_stderr():
    """Fail, with no room for the traceback."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    raise ValueError("unheard of")


@pytest.mark.parametrize(
    ("main", "how"),
    [
        pytest.param(lambda: None, "exit 0", id="nothing returned"),
        pytest.param(lambda: 7, "exit 7", id="a status returned"),
        pytest.param(lambda: sys.exit(0), "exit 1", id="sys.exit"),
        pytest.param(lambda: os.kill(os.getpid(), 9), "signal 9 (SIGKILL)", id="a signal"),
        pytest.param(fill_stdout, "exit 1", id="no room for its last words"),
        pytest.param(fill_stderr, "exit 1", id="no room for its traceback"),
    ],
)
def test_a_forked_child_ends_and_nothing_else(main, how):
    assert ending(main) == how


def test_a_forked_child_tells_what_it_died_of(capfd):
    assert ending(lambda: 1 // 0) == "exit 1"
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_soft_limit_on_descriptors_is_raised():
    def few_then_many():
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        allow_many_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 2**16), hard)

    assert ending(few_then_many) == "exit 0"


# The processes of a cluster are found, and no other process is ever signalled.


ID = f"test-{os.getpid()}"


@pytest.fixture
def start():
    started = []

    def start(*command, cluster=ID, **more):
        environment = marked(dict(os.environ), cluster) if cluster else None
        started.append(subprocess.Popen(command, env=environment, **more))
        pid = started[-1].pid
        wait_for(lambda: Path(f"/proc/{pid}/exe").samefile("/bin/sleep"), why="it runs")
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_members_are_killed_and_nobody_else(start):
    ours = [start("sleep", "60"), start("sleep", "60", start_new_session=True)]
    others = [start("sleep", "60", cluster=None), start("sleep", "60", cluster=f"{ID}0")]
    assert kill_members(ID, 5.0) == []
    assert [process.wait() for process in ours] == [-signal.SIGKILL] * 2
    assert [process.poll() for process in others] == [None] * 2
    assert kill_members(ID, 5.0) == []


DAEMON = """
import os, subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        command = ["sleep", "60"]
        child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        print(child.pid, flush=True)
"""


def test_what_a_member_has_started_is_killed_wherever_it_is():
    environment = marked(dict(os.environ), ID)
    done = subprocess.run(
        [sys.executable, "-c", DAEMON], env=environment, stdout=subprocess.PIPE, check=True
    )
    sleeping = psutil.Process(int(done.stdout))
    assert kill_members(ID, 5.0) == []
    assert gone(sleeping)


def test_a_number_that_is_somebody_elses_by_now_is_not_signalled(start):
    ours, other = start("sleep", "60"), start("sleep", "60", cluster=None)
    assert not signal_member(ID, other.pid, signal.SIGTERM)
    assert signal_member(ID, ours.pid, signal.SIGTERM)
    assert ours.wait() == -signal.SIGTERM
    assert not signal_member(ID, ours.pid, signal.SIGTERM)
    assert other.poll() is None


def test_who_looks_is_not_killed():
    program = (
        "from railyard.cluster.processes import kill_members; import sys; "
        "print(kill_members(sys.argv[1], 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ID],
        env=marked(dict(os.environ) | {"PYTHONPATH": "."}, ID),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"[]\n"
