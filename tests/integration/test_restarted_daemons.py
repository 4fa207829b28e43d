"""Daemons that are killed come back, and do what they did before."""

import json
import os
import signal

import psutil

from railyard.cluster.messaging.transport import Transport
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from tests.integration.processes import (
    attempts_of,
    folder_of,
    kill_all,
    pid_of,
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
