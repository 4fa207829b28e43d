"""The restart policy of daemons, with times given by the test."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.supervisor import PAUSE_S_MAX, Ending, Restarts
from tests.waiting import gone, wait_for


def test_pauses_double_until_the_daemon_is_given_up():
    restarts = Restarts(deaths_max=5)
    assert [restarts.pause_s("d", at_s) for at_s in range(5)] == [0.1, 0.2, 0.4, 0.8, None]


def test_pauses_are_bounded():
    restarts = Restarts(deaths_max=50)
    pauses_s = [restarts.pause_s("d", 0.0) for _ in range(49)]
    assert max(pauses_s) == PAUSE_S_MAX


def test_deaths_long_ago_do_not_count():
    restarts = Restarts(deaths_max=3, within_s=10.0)
    assert [restarts.pause_s("d", at_s) for at_s in (0, 6, 12, 18, 30)] == [0.1, 0.2, 0.2, 0.2, 0.1]


def test_each_daemon_has_deaths_of_its_own():
    restarts = Restarts(deaths_max=2)
    assert [restarts.pause_s(name, 0.0) for name in "abab"] == [0.1, 0.1, None, None]


# The supervisor with real forks: starts, reported deaths, restarts, and nothing left behind.


PROGRAM = """
import os, sys, time
import railyard.cluster.supervisor
from railyard.cluster.config import ClusterConfig
from railyard.cluster.processes import stop_on_sigterm
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.config import NOT_AGAIN
from railyard.cluster.supervisor import Restarts
from railyard.cluster.supervisor import DaemonSpec, Supervisor
from railyard.cluster.topology import load_topology
from railyard.cluster.messaging.transport import Transport

def serve(daemon):
    if os.fork() == 0:
        time.sleep(60)                      # a child that its parent does not care about
    transport = Transport(daemon.folder)
    transport.server(daemon.name)
    stop_on_sigterm(transport.reactor)
    daemon.ready()
    transport.reactor.run()
    transport.close()

def deaf(daemon):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    daemon.ready()
    time.sleep(60)

def broken(daemon):
    raise RuntimeError("no disk")

def hangs(daemon):
    time.sleep(60)

def breaks_later(daemon):
    path = daemon.folder.path / "starts"
    with open(path, "a") as file:
        file.write("x")
    if len(path.read_text()) > 1:
        raise RuntimeError("no disk any more")
    daemon.ready()
    time.sleep(60)

def hangs_later(daemon):
    path = daemon.folder.path / "starts"
    if not path.exists():
        path.touch()
        daemon.ready()
    time.sleep(60)

mains = {"serve": serve, "deaf": deaf, "broken": broken, "hangs": hangs, "later": breaks_later,
         "slow": hangs_later}
def hopeless(daemon):
    path = daemon.folder.path / "hopeless"
    if path.exists():
        return NOT_AGAIN
    path.touch()
    daemon.ready()
    time.sleep(60)

mains["hopeless"] = hopeless

def modules(daemon):
    (daemon.folder.path / daemon.name).write_text(str("colorsys" in sys.modules))
    daemon.ready()
    time.sleep(60)

mains["modules"] = modules

def followed(daemon):
    if daemon.wait_until_needed is not None:
        daemon.wait_until_needed(lambda: None)
    daemon.ready()
    time.sleep(60)

mains["followed"] = followed
railyard.cluster.supervisor.CHECK_PERIOD_S = 0.05
specs = [DaemonSpec(role=main, name=f"{main}-{n}", main=mains[main], critical=n == 0,
                    module="colorsys" if (main, n) == ("modules", 1) else "",
                    wants_standby=(lambda folder: True) if main == "followed" else None)
         for n, main in enumerate(sys.argv[2].split(","))]
config = ClusterConfig(topology=load_topology("flat-4x4"), restart=sys.argv[4])
supervisor = Supervisor(RunFolder(sys.argv[1]), config, specs, lifeline=0,
                        restarts=Restarts(deaths_max=3), start_timeout_s=float(sys.argv[3]))
sys.exit(supervisor.run())
"""


@pytest.fixture
def start(tmp_path_factory):
    started = []

    def start(mains, pass_fds=(), start_timeout_s=30.0, *, restart="on-failure"):
        folder = RunFolder.create(tmp_path_factory.mktemp("s"))
        how = [str(start_timeout_s), restart]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder.path), mains, *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
        )
        started.append((folder, process))
        return folder, process

    yield start
    for folder, process in started:
        left = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()
        for child in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        assert_gone([row["pid"] for row in folder.processes()])
        folder.remove()


def next_event(process):
    return json.loads(process.stdout.readline())


def family(folder, process):
    """Every process that was recorded, and every descendant that was not."""
    pids = {row["pid"] for row in folder.processes()}
    return pids | {child.pid for child in psutil.Process(process.pid).children(recursive=True)}


def assert_gone(pids):
    wait_for(lambda: all(map(gone, pids)), why="all have ended")


def test_sigterm_takes_all_down_even_what_does_not_listen(start):
    folder, process = start("serve,serve,deaf")
    assert next_event(process) == {"event": "ready"}
    assert sorted(p.name for p in folder.sockets.iterdir()) == ["serve-0", "serve-1"]
    pids = family(folder, process)
    assert len(pids) >= 6  # supervisor, three daemons, two forgotten children
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED
    assert_gone(pids)
    assert list(folder.sockets.iterdir()) == []


def test_a_critical_death_is_told_and_ends_a_cluster_where_nothing_is_started_again(start):
    folder, process = start("serve,serve", restart="never")
    assert next_event(process) == {"event": "ready"}
    pids = family(folder, process)
    victim = next(row["pid"] for row in folder.processes() if row["name"] == "serve-0")
    os.kill(victim, signal.SIGKILL)
    death = next_event(process)
    assert (death["event"], death["name"], death["pid"]) == ("died", "serve-0", victim)
    assert death["how"] == "signal 9 (SIGKILL)"
    assert death["next"] == "the cluster can't go on without it"
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.DAEMON_DIED
    assert [row["name"] for row in folder.deaths()] == ["serve-0"]
    assert_gone(pids)


def kill_9(folder, name):
    os.kill(pids_of(folder, name)[-1], signal.SIGKILL)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_critical_daemon_that_goes_on_is_started_again_until_it_dies_too_often(start, stopped):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    for _ in range(2):
        if stopped:
            pid = pids_of(folder, "serve-0")[-1]
            for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP):
                os.kill(pid, number)
                told, words = next_event(process), ("suspended", "resumed")
                assert (told["event"], told["pid"]) == (words[number == signal.SIGCONT], pid)
        kill_9(folder, "serve-0")
        death, again = next_event(process), next_event(process)
        assert (death["name"], death["next"]) == ("serve-0", "it is started again")
        assert gone(death["pid"])
        wait_until_it_serves(folder, "serve-0", again["pid"])
    kill_9(folder, "serve-0")
    words = "not started again, having died 3 times within 60 s; the cluster can't go on without it"
    assert words in next_event(process)["next"]
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.DAEMON_DIED


def standby_of(folder, process, names=("followed-0", "serve-1")):
    """The process id of the one child of the supervisor that is no daemon."""
    found = []

    def there():
        daemons = {pid for name in names for pid in pids_of(folder, name)}
        children = {child.pid for child in psutil.Process(process.pid).children()}
        found[:] = children - daemons
        return len(found) == 1

    wait_for(there, why="there is a standby")
    return found[0]


def test_a_standby_takes_the_place_of_the_daemon_that_it_follows(start):
    folder, process = start("followed,serve")
    assert next_event(process) == {"event": "ready"}
    standby = standby_of(folder, process)
    kill_9(folder, "followed-0")
    assert next_event(process)["next"] == "it is started again"
    again = next_event(process)
    assert (again["event"], again["pid"]) == ("started-again", standby)
    follower = standby_of(folder, process)
    assert follower != standby
    os.kill(follower, signal.SIGKILL)
    wait_for(lambda: gone(follower), why="the standby has died, and there is no other")
    kill_9(folder, "followed-0")
    assert next_event(process)["next"] == "it is started again"
    assert next_event(process)["pid"] != follower
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED


def test_a_daemon_that_says_that_it_is_of_no_use_is_not_started_again(start):
    folder, process = start("hopeless,serve")
    assert next_event(process) == {"event": "ready"}
    kill_9(folder, "hopeless-0")
    assert next_event(process)["next"] == "it is started again"
    assert next_event(process)["event"] == "started-again"
    death = next_event(process)
    assert (death["how"], death["next"]) == ("exit 78", "the cluster can't go on without it")
    assert process.wait() == Ending.DAEMON_DIED


def test_nothing_is_started_again_where_nobody_wants_that(start):
    folder, process = start("serve,serve", restart="never")
    assert next_event(process) == {"event": "ready"}
    kill_9(folder, "serve-1")
    assert next_event(process)["next"] == "it is not started again"
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED


def test_a_module_is_imported_for_the_daemon_that_needs_it_and_not_for_those_before_it(start):
    folder, process = start("modules,modules")
    assert next_event(process) == {"event": "ready"}
    has_it = [(folder.path / f"modules-{number}").read_text() for number in range(2)]
    assert has_it == ["False", "True"]
    process.send_signal(signal.SIGTERM)
    assert process.wait() == Ending.ASKED


def test_a_daemon_that_is_not_critical_is_started_again(start):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    [victim] = pids_of(folder, "serve-1")
    strays = family(folder, process)
    os.kill(victim, signal.SIGKILL)
    death, again = next_event(process), next_event(process)
    assert (death["event"], death["name"], death["next"]) == (
        "died",
        "serve-1",
        "it is started again",
    )
    assert (again["event"], again["name"]) == ("started-again", "serve-1")
    assert pids_of(folder, "serve-1") == [victim, again["pid"]]
    wait_until_it_serves(folder, "serve-1", again["pid"])
    alive = family(folder, process) - {victim}
    assert len(strays - alive) == 1 + 1  # the victim, and the child that it had left behind
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED
    assert_gone(alive)


def test_a_daemon_that_dies_again_and_again_is_given_up(start):
    folder, process = start("serve,later")
    assert next_event(process) == {"event": "ready"}
    [victim] = pids_of(folder, "later-1")
    os.kill(victim, signal.SIGKILL)
    events = [next_event(process) for _ in range(5)]
    assert [event["event"] for event in events] == ["died", "started-again"] * 2 + ["died"]
    assert events[-1]["next"] == "it is not started again, having died 3 times within 60 s"
    assert [row["how"] for row in folder.deaths()] == ["signal 9 (SIGKILL)", "exit 1", "exit 1"]
    assert "RuntimeError: no disk any more" in folder.log("later-1").read_text()
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED


def test_a_daemon_that_hangs_when_started_again_is_killed(start):
    folder, process = start("serve,slow", start_timeout_s=1.5)
    assert next_event(process) == {"event": "ready"}
    os.kill(pids_of(folder, "slow-1")[0], signal.SIGKILL)
    events = [next_event(process) for _ in range(5)]
    assert [event["event"] for event in events] == ["died", "started-again"] * 2 + ["died"]
    assert {event.get("how") for event in events} == {None, "signal 9 (SIGKILL)"}
    assert events[-1]["next"].startswith("it is not started again")
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}


def test_files_that_cannot_be_removed_as_on_a_read_only_disk_do_not_end_it(start):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    folder.port("serve-1").mkdir()  # which no unlink removes
    kill_9(folder, "serve-1")
    assert [next_event(process)["event"] for _ in range(2)] == ["died", "started-again"]
    process.send_signal(signal.SIGTERM)
    assert next_event(process) == {"event": "stopped"}
    assert process.wait() == Ending.ASKED


def test_a_dead_daemons_port_is_not_looked_for(start):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    folder.port("serve-1").write_text("1")  # as over TCP
    os.kill(pids_of(folder, "serve-1")[0], signal.SIGKILL)
    assert next_event(process)["name"] == "serve-1"
    assert not folder.port("serve-1").exists()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == Ending.ASKED


def pids_of(folder, name):
    return [row["pid"] for row in folder.processes() if row["name"] == name]


def wait_until_it_serves(folder, name, pid):
    transport = Transport(folder)
    assert transport.link(name).call(Describe(), Description).pid == pid
    transport.close()


def test_a_failed_start_says_which_daemon_and_leaves_nothing(start):
    folder, process = start("serve,broken")
    events = [json.loads(line) for line in process.stdout]
    assert [event["event"] for event in events if event["event"] != "ready"] == [
        "died", "failed", "stopped",
    ]  # fmt: skip
    assert process.wait() == Ending.START_FAILED
    assert "RuntimeError: no disk" in folder.log("broken-1").read_text()
    assert_gone({row["pid"] for row in folder.processes()})


def test_a_critical_death_while_others_start_is_a_failed_start(start):
    folder, process = start("serve,hangs")
    wait_for(lambda: list(folder.sockets.iterdir()), why="it has begun")
    os.kill(next(r["pid"] for r in folder.processes() if r["name"] == "serve-0"), signal.SIGKILL)
    events = [json.loads(line) for line in process.stdout]
    assert [event["event"] for event in events] == ["died", "failed", "stopped"]
    assert events[1]["reason"] == "serve-0 ended during the start: signal 9 (SIGKILL)"
    assert process.wait() == Ending.START_FAILED


def test_a_closed_lifeline_ends_the_cluster_and_removes_its_folder(start):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    pids = family(folder, process)
    process.stdin.close()
    assert process.wait() == Ending.ASKED
    assert_gone(pids)
    assert not folder.path.exists()


def test_daemons_die_with_a_killed_supervisor(start):
    folder, process = start("serve,serve,deaf")
    assert next_event(process) == {"event": "ready"}
    pids = {row["pid"] for row in folder.processes()}
    strays = family(folder, process) - pids
    process.kill()
    process.wait()
    assert_gone(pids)
    for pid in strays:  # children of our test's daemons that never asked to die with them
        os.kill(pid, signal.SIGKILL)


def test_only_the_supervisor_holds_what_it_was_given(start, tmp_path):
    """Or the cluster would count as alive for as long as anything that was forked from it lives."""
    lock = os.open(tmp_path / "alive", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder, process = start("serve,serve", pass_fds=[lock])
    os.close(lock)
    assert next_event(process) == {"event": "ready"}
    pids = {row["pid"] for row in folder.processes()}
    strays = family(folder, process) - pids
    assert all(is_open_in(pid, tmp_path / "alive") == (pid == process.pid) for pid in pids | strays)
    process.kill()
    process.wait()
    lock = os.open(tmp_path / "alive", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
    for pid in strays:
        os.kill(pid, signal.SIGKILL)


def is_open_in(pid, path):
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed after it was listed
            if entry.readlink() == path:
                return True
    return False


def test_what_a_dead_daemon_had_started_is_ended(start):
    folder, process = start("serve,serve")
    assert next_event(process) == {"event": "ready"}
    victim = next(row["pid"] for row in folder.processes() if row["name"] == "serve-1")
    children = {child.pid for child in psutil.Process(victim).children()}
    assert children
    os.kill(victim, signal.SIGKILL)
    assert next_event(process)["name"] == "serve-1"
    assert_gone(children)
