"""The processes of a cluster are found, and no other process is ever signalled."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from railyard.cluster.processes.members import kill_members, marked, signal_member
from tests.waiting import gone, wait_for

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
        "from railyard.cluster.processes.members import kill_members; import sys; "
        "print(kill_members(sys.argv[1], 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ID],
        env=marked(dict(os.environ) | {"PYTHONPATH": "."}, ID),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"[]\n"
