"""The supervisor is killed while a job commits and a file is put: what its run folder has then.

The next start removes the folder.  Here its daemons are started again on it, to see what it has.
"""

import fcntl
import os
import signal
import subprocess

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.transport import Transport
from railyard.dfs.client import DfsClient
from railyard.scripts.clusters.launch import StartedCluster
from tests.command_line import SMALL
from tests.integration.processes import attempts_of, folder_of, pid_of, rows_of
from tests.integration.test_restarted_daemons import output_of, state_of
from tests.waiting import gone, wait_for

DATA = bytes(range(256)) * 40_000  # 40 blocks


@pytest.fixture
def line(railyard):
    railyard.ok("up", "--topology", SMALL)
    return railyard


@pytest.fixture
def folder(line):
    return folder_of(line)


@pytest.fixture
def put(line, folder):
    """``fs put`` of /half, which has stored blocks and waits for the rest of its input."""
    process = line.start("fs", "put", "-", "/half", stdin=subprocess.PIPE)
    process.stdin.buffer.write(DATA)
    process.stdin.buffer.flush()
    wait_for(lambda: len(blocks(folder)) > 20, why="it has stored some")
    yield process
    process.kill()
    process.communicate()


def blocks(folder):
    return list(folder.path.glob("nodes/*/blocks/b*"))


def open_again(folder):
    """Start all daemons on the run folder of a cluster that died."""
    alive = os.open(folder.path / "alive", os.O_RDWR)
    fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    cluster = StartedCluster(folder, ClusterConfig.load(folder))
    cluster.spawn(alive, leave_running=True)
    cluster.wait_until_ready()
    return cluster


def commit_unheard(line, transport):
    """Have j1 commit: the NameNode does it, which the ResourceManager does not hear."""
    wait_for(lambda: len(attempts_of(line, "j1.m")) == 2, 40, "both maps run")
    manager, namenode = pid_of(line, "resourcemanager"), pid_of(line, "namenode")
    os.kill(manager, signal.SIGSTOP)
    maps = [row["pid"] for row in attempts_of(line, "j1.m")]
    wait_for(lambda: all(map(gone, maps)), 40, "they end, which nobody hears")
    os.kill(namenode, signal.SIGSTOP)
    os.kill(manager, signal.SIGCONT)
    wait_for(lambda: state_of(transport, "j1") == "committing", 20, "the commit")
    os.kill(manager, signal.SIGSTOP)
    os.kill(namenode, signal.SIGCONT)


def test_a_commit_that_nobody_heard_of_is_whole_and_a_half_put_file_is_absent(line, folder, put):
    transport = Transport(folder)
    topology = ClusterConfig.load(folder).topology
    client = DfsClient(transport, topology)
    client.write("/kept", [DATA])
    sort = line.start("run", "terasort", "--size", "500MB")
    commit_unheard(line, transport)
    output = output_of(folder, "j1")
    wait_for(lambda: client.exists(f"{output}/_SUCCESS"), why="the NameNode has done it")
    client.close()
    transport.close()
    assert put.poll() is None, "it is under way"

    os.kill(rows_of(line, "Supervisor")[0]["pid"], signal.SIGKILL)
    for command in (sort, put):
        _, errors = command.communicate(timeout=30)
        assert command.returncode == 3
        assert "railyard: the cluster's supervisor died" in errors
    wait_for(lambda: not line.processes(), why="all processes end with it")

    cluster = open_again(folder)
    transport = Transport(folder)
    client = DfsClient(transport, topology)
    wait_for(lambda: state_of(transport, "j1") == "succeeded", why="the commit is asked for again")
    names = [entry.path.rpartition("/")[2] for entry in client.list(output)]
    assert names == ["_SUCCESS", "part-m-00000", "part-m-00001"]
    assert client.usage(output).stored_bytes == 500_000
    assert b"".join(client.read("/kept")) == DATA
    assert not client.exists("/half")
    assert client.check().healthy
    client.close()
    transport.close()
    cluster.stop()
    assert line.nothing_left()
