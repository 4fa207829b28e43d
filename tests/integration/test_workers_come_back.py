"""Workers that are killed find what they had on their disks; nodes are drained under a job."""

import json
import os

import pytest

from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.transport import Transport
from railyard.dfs.messages.files import BlocksLocated, LocateBlocks
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from tests.command_line import SMALL, command_line, up
from tests.integration.processes import attempts_of, folder_of, restart
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
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

    def status(self):
        return self.transport.link("resourcemanager").call(GetClusterStatus(), ClusterStatus)

    def job(self, name):
        return next((job for job in self.status().jobs if job.name == name), None)

    def node(self, name):
        return next(node for node in self.status().nodes if node.node == name)

    def replicas(self, path):
        """The nodes of each block of a file, or of a folder's files."""
        located = self.transport.link("namenode").call(LocateBlocks(path=path), BlocksLocated)
        return [block.nodes for file in located.files for block in file.blocks]


@pytest.fixture
def asked(cluster):
    said = Asked(cluster)
    yield said
    said.transport.close()


def test_maps_whose_output_is_on_the_disk_are_not_run_again(cluster, asked, tmp_path):
    sort = cluster.start("run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json")
    wait_for(lambda: (job := asked.job("terasort")) and job.maps_done == job.maps, 60, "maps")
    job = asked.job("terasort")
    wait_for(lambda: attempts_of(cluster, f"{job.job}.r"), 40, "its reduces run")
    for rack in ("r0", "r1"):
        restart(cluster, f"nodemanager-{rack}")
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    maps = [row["name"] for row in attempts_of(cluster, f"{job.job}.m")]
    assert sorted(maps) == [f"{job.job}.m{number}.0" for number in range(job.maps)]
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0
    log = folder_of(cluster).log("resourcemanager").read_text()
    assert "the NodeManager of r0n0 was started again" in log
    events = folder_of(cluster).events
    assert sum(step.event.tag() == "node-restarted" for step in replay(events)) == 4


def test_a_put_goes_on_while_datanodes_are_killed_and_nothing_is_copied_in_vain(
    cluster, asked, tmp_path
):
    (tmp_path / "file").write_bytes(os.urandom(6_000_000))
    put = cluster.start("fs", "put", tmp_path / "file", "/killed")
    restart(cluster, "datanode-r0")
    assert put.wait(90) == 0, put.communicate()
    put.communicate()
    wait_for(lambda: "healthy" in cluster.call("fs", "fsck").stdout, 40, "all is replicated")
    before = asked.replicas("/killed")
    get = cluster.start("fs", "get", "/killed", tmp_path / "copy")
    restart(cluster, "datanode-r1")
    assert get.wait(90) == 0, get.communicate()
    get.communicate()
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    wait_for(lambda: asked.replicas("/killed") == before, 40, "its blocks are where they were")
    assert cluster.call("fs", "rm", "/killed").returncode == 0


def test_a_node_is_drained_while_a_job_runs_and_taken_back(cluster, asked, tmp_path):
    sort = cluster.start(
        "run", "terasort", "--size", "1500MB", "--output", "/sorted", "--json", tmp_path / "t.json"
    )
    wait_for(lambda: asked.node("r1n0").attempts, 60, "a map")
    said = cluster.call("nodes", "drain", "r1n0", "--wait")
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
    assert "healthy" in cluster.call("fs", "fsck").stdout
    listed = cluster.call("nodes").stdout.splitlines()
    assert [line.split()[-1] for line in listed if line.split()[:1] == ["r1n0"]] == ["drained"]
    names = [line.split()[0] for line in listed[1:]]
    assert names == sorted(names), "in the order of the topology"
    refused = cluster.call("nodes", "drain", "r1n9")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert 'unknown node "r1n9": did you mean "r1n' in refused.stderr
    assert cluster.call("nodes", "activate", "r1n0").stdout == "r1n0 is active\n"
    assert asked.node("r1n0").slots == 1
