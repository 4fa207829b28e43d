"""Starting and stopping clusters: what is there meanwhile, and that nothing is there afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from railyard.cli.commands.status import _daemon_state
from railyard.cluster.errors import RailyardError
from railyard.cluster.messaging.transport import Description
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import SafeModeStatus
from railyard.runs import home as clusters
from tests.command_line import interrupt
from tests.fulldisk import files_of_at_most, small_disk
from tests.waiting import gone, wait_for

SMALL = ("--topology", "unlimited-2x2")


@pytest.fixture
def cluster(railyard):
    railyard.ok("up", *SMALL)
    yield railyard
    if railyard.current():
        railyard.ok("down")


def test_up_leaves_a_cluster_and_down_leaves_nothing_but_what_was_there(railyard):
    thesis = railyard.home / "c-notes" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    said = railyard.ok("up", *SMALL)
    assert "8 daemons, 2 racks, 4 slots" in said
    folder = railyard.current()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(railyard.processes()) >= 8
    railyard.ok("down")
    assert railyard.nothing_left()
    assert thesis.read_text() == "years of work"


def test_home_may_be_a_relative_path(railyard):
    railyard.environment["RAILYARD_HOME"] = railyard.home.name
    assert railyard.run("up", *SMALL, cwd=railyard.home.parent).returncode == 0
    assert railyard.run("status", cwd=railyard.home.parent).returncode == 0
    assert railyard.run("down", cwd=railyard.home.parent).returncode == 0
    assert railyard.nothing_left()


def test_home_with_too_long_a_path_is_refused(railyard):
    railyard.environment["RAILYARD_HOME"] = str(railyard.home / ("long" * 20))
    done = railyard.run("up", *SMALL)
    assert done.returncode == 2
    assert "set RAILYARD_HOME to a shorter folder" in done.stderr


def test_only_one_cluster_is_left_running(cluster):
    done = cluster.run("up", *SMALL)
    assert done.returncode == 2
    assert "a cluster is up already" in done.stderr
    assert len(cluster.run_folders()) == 1


def test_status_shows_daemons_slots_files_and_refusals(cluster):
    said = cluster.ok("status")
    for words in ("nodemanager-r1", "refused", "0 of 4 slots busy", "block store: 0 files"):
        assert words in said


def test_another_cluster_than_the_one_that_is_up_is_refused(cluster):
    done = cluster.run("run", "terasort", "--topology", "flat-4x4")
    assert done.returncode == 2
    assert "--topology flat-4x4: the cluster that is up has unlimited-2x2" in done.stderr
    done = cluster.run("run", "terasort", "--durability", "fast")
    assert done.returncode == 2
    assert "--durability fast: the cluster that is up has safe" in done.stderr


def test_a_killed_supervisor_takes_its_cluster_along(cluster):
    folder = cluster.current()
    supervisor = next(p for p in cluster.processes() if p.ppid() == 1 or _is_supervisor(p))
    supervisor.kill()
    wait_for(lambda: not cluster.processes(), why="daemons die with their parent")
    assert cluster.run("status").returncode == 2
    cluster.ok("up", *SMALL)
    assert not folder.exists()
    assert len(cluster.run_folders()) == 1


#: Starts a child in a session of its own, and one that is forked and does nothing else.
LEAVES_CHILDREN = """
import os, subprocess, time
from pathlib import Path
from railyard import Job, Lines

class Leaves(Job):
    input = Lines()
    here: str = ""
    def map(self, line):
        pids = [subprocess.Popen(["sleep", "600"], start_new_session=True).pid, os.fork()]
        if pids[1] == 0:
            os.setsid()
            time.sleep(600)
        Path(self.here, "unfinished").write_text(" ".join(map(str, pids)))
        Path(self.here, "unfinished").rename(Path(self.here, "pids"))
        time.sleep(600)
        yield line, 1
"""


@pytest.fixture
def leaving(cluster, tmp_path):
    """What user code on the cluster has started."""
    (tmp_path / "leaves.py").write_text(LEAVES_CHILDREN)
    (tmp_path / "input").write_text("one line")
    job = (tmp_path / "leaves.py", "--input", tmp_path / "input", "--param", f"here={tmp_path}")
    command = cluster.start("run", *job)
    wait_for((tmp_path / "pids").exists, 40, "the map runs")
    children = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    yield children
    command.kill()
    command.communicate()


@pytest.mark.parametrize("command", ["down", "up"])
def test_what_outlives_a_killed_supervisor_is_ended(cluster, leaving, command):
    kill(cluster, "Supervisor")
    if command == "down":
        assert "it had ended already" in cluster.ok("down")
        assert cluster.nothing_left()
    else:
        cluster.ok("up", *SMALL)
        assert len(cluster.run_folders()) == 1
    assert all(map(gone, leaving))


def kill(line, role):
    [pid] = [row["pid"] for row in _processes(line) if row["role"] == role]
    os.kill(pid, signal.SIGKILL)


def test_down_ends_a_supervisor_that_hears_nothing(cluster, leaving, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(cluster.home))
    monkeypatch.setattr(clusters, "STOP_TIMEOUT_S", 0.1)
    [pid] = [row["pid"] for row in _processes(cluster) if row["role"] == "Supervisor"]
    os.kill(pid, signal.SIGSTOP)
    clusters.stop_running(clusters.current_folder())
    assert cluster.nothing_left()
    assert all(map(gone, leaving))


def test_down_signals_nobody_who_has_the_supervisors_number_by_now(railyard, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(railyard.home))
    monkeypatch.setattr(clusters, "STOP_TIMEOUT_S", 0.1)
    folder, alive = clusters.new_folder(current=True)
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    folder.record_process("Supervisor", "supervisor", stranger.pid)
    with pytest.raises(RailyardError, match=r"does not end: kill whoever has locked .*/alive"):
        clusters.stop_running(folder)
    assert stranger.poll() is None
    os.close(alive)
    clusters.stop_running(folder)
    assert stranger.poll() is None
    assert railyard.nothing_left()
    stranger.kill()
    stranger.wait()


def _is_supervisor(process):
    return process.parent() is None or "cluster_main" not in " ".join(process.parent().cmdline())


def test_status_after_a_central_daemon_died_says_which(railyard):
    railyard.ok("up", *SMALL, "--restart", "never")
    [pid] = [row for row in _processes(railyard) if row["name"] == "namenode"]
    os.kill(pid["pid"], signal.SIGKILL)
    wait_for(lambda: not railyard.processes(), why="the cluster ends without its NameNode")
    done = railyard.run("status")
    assert done.returncode == 2
    assert "ended when its NameNode died: signal 9" in done.stderr
    railyard.ok("down")


def _processes(line):
    from railyard.cluster.runfolder import RunFolder

    return RunFolder(line.current()).processes()


@pytest.mark.parametrize("after_ms", [0, 50, 100, 150, 200, 250, 300, 400, 500])
def test_interrupted_start_leaves_nothing(railyard, after_ms):
    process = railyard.start("up", *SMALL)
    time.sleep(after_ms / 1000)  # the moment is what is tested
    status, said = interrupt(process)
    if status == 0:
        railyard.ok("down")
    else:
        # Python itself may not have come to our first line yet
        assert status in (130, -signal.SIGINT, 1), said
    wait_for(railyard.nothing_left, why="interrupted start")


@pytest.mark.parametrize("processes", [1, 4])
def test_a_supervisor_that_is_killed_during_the_start_leaves_nothing(railyard, processes):
    starting = railyard.start("up", *SMALL)

    def has_begun():
        return railyard.current() and len(_processes(railyard)) >= processes

    wait_for(has_begun, why="it is being started")
    kill(railyard, "Supervisor")
    _, errors = starting.communicate(timeout=60)
    if starting.returncode == 0:  # this machine is busy: it was up already
        railyard.ok("down")
    else:
        assert "railyard: the cluster did not start: its supervisor ended" in errors
    wait_for(railyard.nothing_left, why="its daemons die with it")
    railyard.ok("up", *SMALL)
    railyard.ok("down")


def test_a_killed_command_leaves_nothing(railyard):
    process = railyard.start("run", "terasort", *SMALL, "--size", "200MB")
    wait_for(lambda: len(railyard.processes()) > 5, why="cluster started")
    process.kill()
    process.communicate()
    wait_for(railyard.nothing_left, why="the lifeline closed")


def test_links_of_the_cluster_that_is_up_can_be_seen_and_changed(cluster):
    assert "r1.down unlimited unlimited" in " ".join(cluster.ok("network", "show").split())
    said = cluster.ok("network", "set", "r1.up", "1Gbps")
    assert "r1.up carries 1 Gbps, stated unlimited" in said
    assert "r1.up carries unlimited" in cluster.ok("network", "set", "r1.up", "default")
    for arguments, words in (
        (("set", "r9.up", "1Gbps"), 'unknown link "r9.up": did you mean "r'),
        (("set", "r1.up", "fast"), "r1.up = 'fast': need a rate such as 10Gbps"),
        (("sett", "r1.up", "1Gbps"), 'unknown network command "sett": did you mean "set"?'),
    ):
        done = cluster.run("network", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_what_killed_processes_left_in_the_home_folder_is_removed(railyard, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(railyard.home))
    dead, alive = clusters.new_folder(current=False)
    os.close(alive)
    unfinished = RunFolder.create(dead.path.parent)  # by who was killed before it could lock it
    lives, alive = clusters.new_folder(current=False)
    try:
        assert not dead.path.exists()
        assert not unfinished.path.exists()
        railyard.ok("up", *SMALL)
        railyard.ok("down")
        assert railyard.run_folders() == [lives.path]
    finally:
        os.close(alive)
        lives.remove()


def test_too_few_descriptors_are_reported_before_anything_starts(railyard):
    limited = [
        "bash",
        "-c",
        'ulimit -n 24; exec "$@"',
        "bash",
        sys.executable,
        "-m",
        "railyard.cli.main",
    ]
    done = subprocess.run(
        [*limited, "up", "--topology", "unlimited-2x2"],
        env=railyard.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 4
    assert "need at least 76 open files a process, not 24 (ulimit -n)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert railyard.nothing_left()


def test_a_disk_that_is_full_at_the_start_is_named(railyard):
    with small_disk(railyard.home, 2**21) as disk:
        for room in (0, 4096, 16384):
            disk.free()
            disk.fill(but_bytes=room)
            done = railyard.run("up", "--topology", "unlimited-2x2")
            assert done.returncode in (3, 4), done.stderr
            assert f"no space left on {disk.path}" in done.stderr
            assert "Traceback" not in done.stderr
            assert not list(disk.path.glob("clusters/c-*"))


# What ``railyard status`` says of a daemon.


def described(**more):
    return Description(name="d", pid=2, requests=5, refused=0, **more)


def death(pid, next_="it is started again"):
    return {"role": "DataNode", "name": "d", "pid": pid, "how": "exit 1", "next": next_}


@pytest.mark.parametrize(
    ("answer", "deaths", "words"),
    [
        pytest.param(described(), [], "", id="well"),
        pytest.param(None, [], "does not answer", id="silent"),
        pytest.param(None, [death(2)], "died: exit 1; it is started again", id="dead"),
        pytest.param(
            None,
            [death(1), death(2, "it is not started again, having died 8 times within 60 s")],
            "died: exit 1; it is not started again, having died 8 times within 60 s",
            id="given up",
        ),
        pytest.param(described(), [death(1)], "started again; died 1 time: exit 1", id="came back"),
        pytest.param(
            described(unreachable=("network",)),
            [death(0), death(1)],
            "waits for a connection to network; started again; died 2 times: exit 1",
            id="waits",
        ),
    ],
)
def test_state_of_a_daemon(answer, deaths, words):
    said = _daemon_state(answer, deaths, pid=2)
    assert said.plain == words


def test_safe_mode_is_told_with_what_it_waits_for():
    said = str(SafeModeStatus(on=True, reported=3, needed=8, blocks=8))
    assert said == (
        "the NameNode is in safe mode: 3 of 8 blocks have been reported, 8 are needed; changes wait"
    )


# ``railyard fs`` does what people know from shells and from HDFS.


@pytest.fixture
def store(railyard, tmp_path):
    """Runs an fs command in a local folder with one file."""
    railyard.ok("up", "--topology", "unlimited-2x2")
    (tmp_path / "one.txt").write_text("1")

    def fs(*arguments, stdin=None):
        done = railyard.run("fs", *arguments, cwd=tmp_path, stdin=stdin)
        return done.returncode, (done.stdout + done.stderr).strip()

    yield fs
    railyard.ok("down")


def test_a_folder_as_target_takes_things_in(store, tmp_path):
    assert store("mkdir", "/in", "/old") == (0, "")
    assert store("put", "one.txt", "/in") == (0, "/in/one.txt: 1 byte in 1 block")
    assert store("put", "one.txt", "/in/") == (2, "railyard: /in/one.txt: exists already")
    assert store("put", "-", "/in", stdin=b"2")[0] == 2
    assert store("mv", "/in/one.txt", "/old") == (0, "")
    assert store("mv", "/old", "/in") == (0, "")
    assert store("cat", "/in/old/one.txt") == (0, "1")
    (tmp_path / "here").mkdir()
    assert store("get", "/in/old", "here") == (0, "")
    assert (tmp_path / "here" / "old" / "one.txt").read_text() == "1"
    assert store("get", "/in/old/one.txt", "-") == (0, "1")


def test_names_of_any_bytes_are_shown_escaped(store, tmp_path):
    (tmp_path / "\udcff\x1b.txt").write_text("1")
    assert store("mkdir", "/in") == (0, "")
    name = r"/in/\xff\x1b.txt"
    assert store("put", "\udcff\x1b.txt", "/in") == (0, f"{name}: 1 byte in 1 block")
    assert store("put", "one.txt", "/in/\u202etxt.exe")[0] == 0
    assert r"/in/\u202etxt.exe" in store("ls", "/in")[1]
    assert store("ls", "/\udcff") == (2, r"railyard: /\xff: need a path that is UTF-8")


def test_what_fails_though_it_was_asked_for_rightly_exits_with_4(store, tmp_path):
    (tmp_path / "big").write_bytes(bytes(100_000))
    assert store("put", "big", "/big")[0] == 0
    with files_of_at_most(50_000):
        status, said = store("get", "/big", "back")
    assert (status, said.count("\n")) == (4, 0)
    assert "a file would be larger than the limit (ulimit -f)" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "one.txt"]


def test_one_bad_path_does_not_keep_the_others_back(store):
    assert store("put", "-", "/a b/ü", stdin=b"2")[0] == 0
    assert store("cat", "/none", "/a b/ü") == (2, "2railyard: /none: no such file or folder")
    status, said = store("rm", "-r", "/none", "/a b", "/")
    assert status == 2
    assert said.splitlines() == [
        "railyard: /none: no such file or folder",
        "railyard: /: cannot be removed: need a path of what is in it",
    ]
    assert store("ls") == (0, "")


def test_a_file_that_is_damaged_while_it_is_read_is_no_success(store, railyard, tmp_path):
    data = random.Random(1).randbytes(40_000_000)  # two blocks
    (tmp_path / "big").write_bytes(data)
    assert store("put", "one.txt", "/")[0] == 0
    for path, how in [("/a", "overwritten"), ("/b", "cut short")]:
        assert store("put", "big", path)[0] == 0
        with railyard.start("fs", "cat", path) as reading:
            got = reading.stdout.buffer.read(1_000_000)
            for file in railyard.current().glob("nodes/*/blocks/b*"):
                change(file, how)
            got += reading.stdout.buffer.read()
            said = reading.stderr.read()
        assert reading.returncode == 1
        assert 1_000_000 <= len(got) < len(data)
        assert data.startswith(got)
        assert said.startswith(f"railyard: {path}: bytes {len(got)} to ")
        assert "wrong checksum" in said or "not that of a block" in said
        assert len(said.splitlines()) == 1
    assert store("cat", "/one.txt") == (0, "1")  # nobody died of it


def change(file, how):
    """Spoil the file of a block, but for short ones."""
    size = file.stat().st_size
    if size > 1000 and how == "cut short":
        os.truncate(file, size // 2)
    elif size > 1000:
        with file.open("r+b") as opened:
            opened.write(bytes(size - 1000))
