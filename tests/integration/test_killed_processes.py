"""kill -9 of each kind of process while a job runs."""

import os
import signal
import time

import pytest

from tests.command_line import SMALL, interrupt
from tests.integration.processes import attempts_of, rows_of
from tests.waiting import wait_for


@pytest.fixture
def options():
    """Options of the cluster of ``sorting``."""
    return ()


@pytest.fixture
def sorting(railyard, options):
    """A terasort whose sort is at work."""
    process = railyard.start("run", "terasort", "--size", "1500MB", "--topology", SMALL, *options)
    wait_for(lambda: attempts_of(railyard, "j2.m"), 40, "the sort has begun")
    yield process
    process.kill()
    process.communicate()
    wait_for(railyard.nothing_left, why="nothing is left")


def kill_first(line, role, prefix="", suffix=""):
    rows = [row for row in rows_of(line, role, prefix) if row["name"].endswith(suffix)]
    assert rows, f"there is no {role}"
    os.kill(rows[-1]["pid"], signal.SIGKILL)
    return rows[-1]


@pytest.mark.parametrize("role", ["NodeManager", "DataNode", "Helper", "JobHelper"])
def test_job_survives_the_loss_of(railyard, sorting, role):
    killed = kill_first(railyard, role, suffix="-j2" if role == "JobHelper" else "")
    said, errors = sorting.communicate(timeout=90)
    assert sorting.returncode == 0, errors
    assert "15000 records in order" in said
    if role in ("NodeManager", "DataNode"):
        died = f"the {role} {killed['name']} died (signal 9 (SIGKILL))"
        assert f"{died}; it is started again" in errors
        assert f"died       {killed['name']} (signal 9 (SIGKILL))" in said


def test_job_survives_the_loss_of_attempts(railyard, sorting):
    for prefix in ("j2.m", "j2.r"):
        wait_for(lambda prefix=prefix: attempts_of(railyard, prefix), why=f"{prefix} runs")
        while True:  # an attempt may have ended by itself before the signal came
            try:
                kill_first(railyard, "Attempt", prefix)
                break
            except ProcessLookupError:
                time.sleep(0.01)
    said, errors = sorting.communicate(timeout=90)
    assert sorting.returncode == 0, errors
    assert "15000 records in order" in said


@pytest.mark.parametrize("options", [("--restart", "never")])
def test_command_names_the_central_daemon_that_died(railyard, sorting):
    killed = kill_first(railyard, "NameNode")
    _, errors = sorting.communicate(timeout=30)
    assert sorting.returncode == 3
    assert f"the NameNode (process {killed['pid']}) died: signal 9" in errors
    assert "Traceback" not in errors
    assert railyard.nothing_left()


def test_a_killed_supervisor_is_named(railyard, sorting):
    kill_first(railyard, "Supervisor")
    _, errors = sorting.communicate(timeout=30)
    assert sorting.returncode == 3
    assert "railyard: the cluster's supervisor died" in errors


@pytest.mark.parametrize("after_s", [0.0, 0.3, 0.8, 1.5, 3.0, 5.0])
def test_interrupted_run_leaves_nothing(railyard, after_s):
    process = railyard.start("run", "terasort", "--size", "2GB", "--topology", SMALL)
    time.sleep(after_s)  # the moment is what is tested
    status, said = interrupt(process)
    assert status in (130, -signal.SIGINT, 1) or "records in order" in process.stdout.read(), said
    wait_for(railyard.nothing_left, why="interrupted run")


def test_interrupted_run_on_a_cluster_that_is_up_ends_its_job(railyard):
    railyard.ok("up", "--topology", SMALL)
    process = railyard.start("run", "terasort", "--size", "20GB")
    wait_for(lambda: attempts_of(railyard, "j1.m"), 40, "the first job has begun")
    status, _ = interrupt(process)
    assert status == 130
    wait_for(lambda: "killed" in railyard.ok("status"), why="the job is killed")
    railyard.ok("down")
    assert railyard.nothing_left()


def test_nonsense_is_refused_and_counted(railyard):
    import zmq

    railyard.ok("up", "--topology", SMALL)
    [folder] = railyard.run_folders()
    names = sorted(path.name for path in (folder / "sockets").iterdir())
    assert len(names) >= 10
    context = zmq.Context()
    for name in names:
        socket = context.socket(zmq.DEALER)
        socket.linger = 1000
        socket.connect(f"ipc://{folder / 'sockets' / name}")
        for frames in (
            [b"\xc1"],
            [b"", b"", b""],
            [os.urandom(300)],
            [b"\x92\x00\x80"],
            [b"x"] * 5,
        ):
            socket.send_multipart(frames)
        socket.close()
    context.term()
    wait_for(
        lambda: [n >= 5 for n in refused(railyard.ok("status")).values()] == [True] * 10,
        why="every daemon has refused five messages",
    )
    said = railyard.ok("run", "terasort", "--size", "500MB")
    assert "records in order" in said
    railyard.ok("down")


def refused(said):
    """{daemon: refused messages}, from what status prints."""
    lines = [line.split() for line in said.splitlines()]
    return {cells[0]: int(cells[3]) for cells in lines if len(cells) == 4 and cells[3].isdigit()}
