"""Daemons that are killed come back, and do what they did before."""

from __future__ import annotations

import json
import os
import re
import signal

import psutil
import pytest

from railyard.cluster.messaging.transport import Transport
from railyard.cluster.runfolder import RunFolder
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from tests.command_line import command_line, up
from tests.integration.processes import (
    attempts_of,
    folder_of,
    kill_all,
    pid_of,
    restart,
    wait_until_back,
)
from tests.waiting import gone, wait_for


def state_of(transport, job):
    link = transport.link("resourcemanager")
    jobs = link.call(GetClusterStatus(), ClusterStatus).jobs
    link.close()
    return next(one.state for one in jobs if one.job == job)


def output_of(folder, job):
    rows = map(json.loads, folder.events.read_text().splitlines())
    return next(row["output_path"] for row in rows if row.get("job") == job and "stages" in row)


def test_job_goes_on_after_all_nodemanagers_were_killed(cluster, tmp_path):
    sort = cluster.start("run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json")
    for prefix in ("j2.m", "j2.r"):
        wait_for(lambda prefix=prefix: attempts_of(cluster, prefix), 40, f"{prefix} runs")
        killed = kill_all(cluster, "NodeManager")
        left = [row["pid"] for row in attempts_of(cluster, "j")]
        wait_until_back(cluster, "NodeManager", killed)
        assert not [pid for pid in left if psutil.pid_exists(pid)]
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    summary = json.loads((tmp_path / "sort.json").read_text())
    assert summary["tasks"]["failed"] == 0
    assert len(summary["deaths"]) == 6
    assert "started again; died 2 times: signal 9" in cluster.ok("status")


def test_attempts_run_on_while_the_resourcemanager_is_killed(cluster, tmp_path):
    sort = cluster.start("run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json")
    for prefix in ("j2.m", "j2.r"):
        wait_for(lambda prefix=prefix: attempts_of(cluster, prefix), 40, f"{prefix} runs")
        [pid] = kill_all(cluster, "ResourceManager")
        wait_until_back(cluster, "ResourceManager", [pid])
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    assert "the ResourceManager was restarted: " in errors
    summary = json.loads((tmp_path / "sort.json").read_text())
    tasks = summary["tasks"]
    assert (tasks["launched"], tasks["succeeded"]) == (6 + 3, 6 + 3)
    names = [row["name"] for row in attempts_of(cluster, "j2.")]
    assert len(names) == len(set(names)) == 9  # each ran once, in one process
    assert "started again; died 2 times: signal 9" in cluster.ok("status")


def test_a_resourcemanager_that_cannot_open_its_journal_is_tried_again(cluster):
    sort = cluster.start("run", "terasort", "--size", "1500MB")
    folder = folder_of(cluster)
    wait_for(lambda: attempts_of(cluster, "j2.m"), 40, "maps run")
    aside, manager_log = folder.events.with_suffix(".aside"), folder.log("resourcemanager")
    folder.events.rename(aside)
    folder.events.mkdir()
    kill_all(cluster, "ResourceManager")
    wait_for(lambda: "Is a directory" in manager_log.read_text(), 20, "its successor says why")
    folder.events.rmdir()
    aside.rename(folder.events)
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    [why] = {
        line.split(": ", 1)[1]
        for line in manager_log.read_text().splitlines()
        if "Is a directory" in line
    }
    assert why.startswith(f"{folder.events}: ")
    assert "Traceback" not in manager_log.read_text()


def test_a_commit_is_done_once_whenever_the_resourcemanager_is_killed(cluster):
    """Killed after the NameNode has renamed the files, and before it has."""
    folder = folder_of(cluster)
    transport = Transport(folder)
    for job, is_done in (("j1", True), ("j5", False)):
        sort = cluster.start("run", "terasort", "--size", "500MB")
        wait_for(lambda job=job: len(attempts_of(cluster, f"{job}.m")) == 2, 40, "both maps run")
        manager = pid_of(cluster, "resourcemanager")
        os.kill(manager, signal.SIGSTOP)
        maps = [row["pid"] for row in attempts_of(cluster, f"{job}.m")]
        wait_for(lambda maps=maps: all(map(gone, maps)), 40, "they end, which nobody hears")
        namenode = pid_of(cluster, "namenode")
        os.kill(namenode, signal.SIGSTOP)
        os.kill(manager, signal.SIGCONT)
        wait_for(lambda job=job: state_of(transport, job) == "committing", 20, "the commit")
        if is_done:
            os.kill(manager, signal.SIGSTOP)
            os.kill(namenode, signal.SIGCONT)
            output = output_of(folder, job)
            wait_for(lambda output=output: "_SUCCESS" in cluster.ok("fs", "ls", output), 20)
        os.kill(manager, signal.SIGKILL)
        os.kill(namenode, signal.SIGCONT)
        said, errors = sort.communicate(timeout=90)
        assert sort.returncode == 0, errors
        assert "5000 records in order" in said
        names = [row["name"] for row in attempts_of(cluster, f"{job}.")]
        assert sorted(names) == [f"{job}.m0.0", f"{job}.m1.0"]
    transport.close()


def test_datanode_comes_back_with_its_blocks(cluster, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(2_000_000))
    cluster.ok("fs", "put", tmp_path / "file", "/file")
    healthy = cluster.ok("fs", "fsck")
    killed = kill_all(cluster, "DataNode")
    wait_until_back(cluster, "DataNode", killed)
    wait_for(lambda: cluster.ok("fs", "fsck") == healthy, why="the file is whole again")
    cluster.ok("fs", "get", "/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()


# The NameNode is killed while files are put, read, written and committed: no byte is missing.


def successes(line, prefix):
    whole, _, _ = folder_of(line).events.read_text().rpartition("\n")
    events = [json.loads(each) for each in whole.splitlines()]
    ended = [each["attempt"] for each in events if each.get("type") == "attempt-succeeded"]
    return sum(each.startswith(prefix) for each in ended)


def test_nothing_is_lost_with_the_namenode(cluster, tmp_path):
    data = os.urandom(40_000_000)
    (tmp_path / "file").write_bytes(data)
    put = cluster.start("fs", "put", tmp_path / "file", "/file")
    blocks = folder_of(cluster).path.glob
    wait_for(lambda: len(list(blocks("nodes/*/blocks/b*"))) > 20, why="blocks of the file")
    assert put.poll() is None, "it is under way"
    restart(cluster, "namenode")
    _, errors = put.communicate(timeout=60)
    assert put.returncode == 0, errors

    sort = cluster.start("run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json")
    for prefix in ("j2.m", "j2.r"):  # they read, and they write
        wait_for(lambda prefix=prefix: attempts_of(cluster, prefix), 40, f"{prefix} runs")
        restart(cluster, "namenode")
    wait_for(lambda: successes(cluster, "j2.r") == 3, 60, "all that is left is the commit")
    restart(cluster, "namenode")
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0

    cluster.ok("fs", "get", "/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    wait_for(lambda: "healthy" in cluster.run("fs", "fsck").stdout, why="all replicas")
    status = cluster.ok("status")
    assert "started again; died 4 times: signal 9" in status
    assert "safe mode" not in status


# The network emulator is killed and comes back: transfers go on, and nothing is done twice.


#: With circuits for all that a reduce fetches, and a link of clients, so that a put takes its time.
SHAPE = (
    "racks.count=3,racks.nodes=2,racks.slots=2,ocs.elephant_bytes=10MB,ocs.port_bytes_per_s=4Gbps"
)
TOPOLOGY = f"hybrid-8x4,{SHAPE},client.uplink=10Gbps"


@pytest.fixture(scope="module")
def slow_cluster():
    for line in command_line():
        yield from up(line, "--topology", TOPOLOGY, "--scheduler", "co-scheduler")


def test_a_put_goes_on(slow_cluster, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(3_000_000))
    slow_cluster.ok("network", "set", "r2.up", "5Gbps")
    put = slow_cluster.start("fs", "put", tmp_path / "file", "/file")
    blocks = folder_of(slow_cluster).path / "nodes"
    wait_for(lambda: any(blocks.glob("*/blocks/*")), why="the first bytes are there")
    restart(slow_cluster, "network")
    _, errors = put.communicate(timeout=60)
    assert put.returncode == 0, errors
    slow_cluster.ok("fs", "get", "/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    [shown] = [
        row.split() for row in slow_cluster.ok("network", "show").splitlines() if "r2.up" in row
    ]
    assert shown[:3] == ["r2.up", "5.00", "10.0"]


def test_a_shuffle_goes_on(slow_cluster, tmp_path):
    sort = slow_cluster.start("run", "terasort", "--size", "2GB", "--json", tmp_path / "sort.json")
    wait_for(lambda: attempts_of(slow_cluster, "j2.r"), 40, "the shuffle has begun")
    log, was_away = folder_of(slow_cluster).log("resourcemanager"), "the network was away for "
    before = log.read_text().count(was_away)
    restart(slow_cluster, "network")
    wait_for(lambda: log.read_text().count(was_away) > before, why="it is back")
    restart(slow_cluster, "resourcemanager")  # the next one knows for how long it was away, too
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "20000 records in order" in said
    assert "; the network was away for " in said
    summary = json.loads((tmp_path / "sort.json").read_text())
    assert summary["bytes"]["ocs"] > 0
    assert 0 < summary["fidelity"]["network_away_s"] < summary["jobs"][0]["jct_s"]
    tasks = summary["tasks"]
    assert tasks["launched"] == tasks["succeeded"]
    names = [row["name"] for row in attempts_of(slow_cluster, "j2.")]
    assert len(names) == len(set(names)) == tasks["launched"]
    assert re.search(r"started again; died \d times?: signal 9", slow_cluster.ok("status"))
    assert len(list(replay(folder_of(slow_cluster).events))) > 0


# An emulator that is stopped (SIGSTOP) and goes on later: it is waited for, and nobody is blamed.
#
# How long others are waited for is not the point here: that the emulator is waited for longer is
# tested in ``tests/netemu``, with a patience that is short.


def test_jobs_wait_for_a_stopped_emulator_and_status_says_so(cluster, tmp_path):
    folder = RunFolder(cluster.current())
    [emulator] = [row["pid"] for row in folder.processes() if row["name"] == "network"]
    os.kill(emulator, signal.SIGSTOP)  # before others have connected to it
    sort = cluster.start("run", "terasort", "--size", "1GB", "--json", tmp_path / "sort.json")
    wait_for(lambda: any(row["name"] == "j1.m1.0" for row in folder.processes()), 20, "a map runs")
    shown = [""]

    def status_says_so():
        shown[0] = cluster.ok("status")
        return "waits for a connection to network" in shown[0]

    wait_for(status_says_so, 30, "it is seen")
    [line] = [line for line in shown[0].splitlines() if line.split()[:1] == ["network"]]
    assert f"does not answer: it is stopped, until kill -CONT {emulator}" in " ".join(line.split())
    os.kill(emulator, signal.SIGCONT)
    said, errors = sort.communicate(timeout=60)
    assert sort.returncode == 0, errors
    assert "10000 records in order" in said
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0
    assert "10000 records in order" in cluster.ok("run", "terasort", "--size", "1GB")
    after = cluster.ok("status")
    assert "does not answer" not in after
    assert "waits for a connection" not in after
