"""kill -9 of each kind of process while a job runs."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.transport import Transport
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import BlocksLocated, LocateBlocks
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.runs.clusters import StartedCluster
from tests.command_line import SMALL, command_line, interrupt, up
from tests.integration.processes import attempts_of, folder_of, pid_of, restart, rows_of
from tests.integration.test_restarts import output_of, state_of
from tests.waiting import gone, wait_for


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


# The supervisor is killed while a job commits and a file is put: what its run folder has then.
#
# The next start removes the folder.  Here its daemons are started again on it, to see what it has.


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


# Workers that are killed find what they had on their disks; nodes are drained under a job.


@pytest.fixture(scope="module")
def worker_cluster(tmp_path_factory):
    """The command line of a cluster that all tests of this file use.

    A NodeManager that was killed has long to come back, on a busy machine too.
    """
    file = tmp_path_factory.mktemp("patient") / "small.toml"
    file.write_text(SMALL.read_text().replace('expiry_s = "2s"', 'expiry_s = "30s"'))
    for line in command_line():
        yield from up(line, "--topology", file)


class Asked:
    """What the cluster's daemons say."""

    def __init__(self, line):
        self.transport = Transport(folder_of(line))
        # One connection each, as polling with hundreds would have them cut.
        self.resourcemanager = self.transport.link("resourcemanager")
        self.namenode = self.transport.link("namenode")

    def status(self):
        return self.resourcemanager.call(GetClusterStatus(), ClusterStatus)

    def job(self, name):
        return next((job for job in self.status().jobs if job.name == name), None)

    def node(self, name):
        return next(node for node in self.status().nodes if node.node == name)

    def replicas(self, path):
        """The nodes of each block of a file, or of a folder's files."""
        located = self.namenode.call(LocateBlocks(path=path), BlocksLocated)
        return [block.nodes for file in located.files for block in file.blocks]


@pytest.fixture
def asked(worker_cluster):
    said = Asked(worker_cluster)
    yield said
    said.transport.close()


def test_maps_whose_output_is_on_the_disk_are_not_run_again(worker_cluster, asked, tmp_path):
    sort = worker_cluster.start(
        "run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json"
    )
    wait_for(lambda: (job := asked.job("terasort")) and job.maps_done == job.maps, 60, "maps")
    job = asked.job("terasort")
    wait_for(lambda: attempts_of(worker_cluster, f"{job.job}.r"), 40, "its reduces run")
    for rack in ("r0", "r1"):
        restart(worker_cluster, f"nodemanager-{rack}")
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    maps = [row["name"] for row in attempts_of(worker_cluster, f"{job.job}.m")]
    assert sorted(maps) == [f"{job.job}.m{number}.0" for number in range(job.maps)]
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0
    log = folder_of(worker_cluster).log("resourcemanager").read_text()
    assert "the NodeManager of r0n0 was started again" in log
    events = folder_of(worker_cluster).events
    assert sum(step.event.tag() == "node-restarted" for step in replay(events)) == 4


def test_a_put_goes_on_while_datanodes_are_killed_and_nothing_is_copied_in_vain(
    worker_cluster, asked, tmp_path
):
    (tmp_path / "file").write_bytes(os.urandom(6_000_000))
    put = worker_cluster.start("fs", "put", tmp_path / "file", "/killed")
    restart(worker_cluster, "datanode-r0")
    assert put.wait(90) == 0, put.communicate()
    put.communicate()
    wait_for(lambda: "healthy" in worker_cluster.call("fs", "fsck").stdout, 40, "all is replicated")
    before = asked.replicas("/killed")
    get = worker_cluster.start("fs", "get", "/killed", tmp_path / "copy")
    restart(worker_cluster, "datanode-r1")
    assert get.wait(90) == 0, get.communicate()
    get.communicate()
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    wait_for(lambda: asked.replicas("/killed") == before, 40, "its blocks are where they were")
    assert worker_cluster.call("fs", "rm", "/killed").returncode == 0


def test_a_node_is_drained_while_a_job_runs_and_taken_back(worker_cluster, asked, tmp_path):
    sort = worker_cluster.start(
        "run", "terasort", "--size", "1500MB", "--output", "/sorted", "--json", tmp_path / "t.json"
    )
    wait_for(lambda: asked.node("r1n0").attempts, 60, "a map")
    said = worker_cluster.call("nodes", "drain", "r1n0", "--wait")
    assert said.stdout == "r1n0 is drained\n"
    out, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in out
    node = asked.node("r1n0")
    assert (node.slots, node.attempts, node.drain) == (0, (), "drained")
    for nodes in asked.replicas("/sorted"):
        assert "r1n0" not in nodes
        assert len(nodes) == 3
        assert len({rack_of(each) for each in nodes}) >= 2
    assert "healthy" in worker_cluster.call("fs", "fsck").stdout
    listed = worker_cluster.call("nodes").stdout.splitlines()
    assert [line.split()[-1] for line in listed if line.split()[:1] == ["r1n0"]] == ["drained"]
    names = [line.split()[0] for line in listed[1:]]
    assert names == sorted(names), "in the order of the topology"
    refused = worker_cluster.call("nodes", "drain", "r1n9")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert 'unknown node "r1n9": did you mean "r1n' in refused.stderr
    assert worker_cluster.call("nodes", "activate", "r1n0").stdout == "r1n0 is active\n"
    assert asked.node("r1n0").slots == 1
