"""Slots that people change while a job runs: nothing is killed, and the job goes on."""

import json

import pytest

from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus, SetSlots
from tests.command_line import SMALL, up
from tests.integration.processes import folder_of, restart
from tests.waiting import wait_for


@pytest.fixture
def cluster(railyard):
    yield from up(railyard, "--topology", SMALL, "--network", "compute.map_rate=100MB/s")


class Nodes:
    """What the ResourceManager says of its nodes."""

    def __init__(self, line):
        self.transport = Transport(folder_of(line))
        self.link = self.transport.link("resourcemanager")

    def __call__(self):
        """{node: (slots, attempts that hold them, alive)}"""
        status = self.link.call(GetClusterStatus(), ClusterStatus)
        return {node.node: (node.slots, len(node.attempts), node.alive) for node in status.nodes}


@pytest.fixture
def nodes(cluster):
    asked = Nodes(cluster)
    yield asked
    asked.transport.close()


def test_nodes_and_racks_are_changed_together(cluster, nodes):
    said = cluster.ok("slots", "set", "r1", "r0n1", "r1n0", "0")
    assert said.splitlines() == [f"{n} has 0 slots, stated 1" for n in ("r1n0", "r1n1", "r0n1")]
    assert {name for name, (slots, *_) in nodes().items() if not slots} == {"r0n1", "r1n0", "r1n1"}
    wrong = cluster.run("slots", "set", "r1", "r9", "default")
    assert wrong.returncode == 2
    assert 'unknown node or rack "r9"' in wrong.stderr
    assert nodes()["r1n0"][0] == 0, "nothing is changed if a name is wrong"
    cluster.ok("slots", "set", "r0", "r1", "default")
    assert {slots for slots, *_ in nodes().values()} == {1}


def test_a_job_goes_on_with_other_slots(cluster, nodes, tmp_path):
    report = tmp_path / "t.json"
    said = cluster.ok("slots", "set", "r0n1", "3")
    assert "r0n1 has 3 slots, stated 1" in said
    job = cluster.start("run", "terasort", "--size", "2GB", "--json", report)
    wait_for(lambda: nodes()["r0n1"] == (3, 3, True), 40, "more run at once than are stated")
    nodes.link.call(SetSlots(node="r0n1", slots=0), Done)
    slots, held, _ = nodes()["r0n1"]
    assert slots == 0 < held  # what runs there runs on
    wait_for(lambda: nodes()["r0n1"][1] == 0, 40, "no more tasks are started there")
    assert "r0n1 0 1 0 r1n0 1 " in " ".join(cluster.ok("slots", "show").split())
    assert cluster.ok("slots", "set", "r0n1", "default") == "r0n1 has 1 slot, stated 1\n"
    assert job.wait(90) == 0, job.communicate()
    job.communicate()
    summary = json.loads(report.read_text())
    assert summary["verified"] is True
    assert summary["tasks"]["killed"] == summary["tasks"]["failed"] == 0
    assert len(list(replay(folder_of(cluster).events))) > 50


def test_slots_stay_as_they_were_set_when_a_nodemanager_comes_back(cluster, nodes):
    cluster.ok("slots", "set", "r0n0", "3")
    restart(cluster, "nodemanager-r0")
    log = folder_of(cluster).events
    back = '"type": "node-restarted", "node": "r0n0"'
    wait_for(lambda: back in log.read_text(), 20, "it is back")
    assert nodes()["r0n0"] == (3, 0, True)


def test_slots_that_are_none_are_refused(cluster):
    for arguments, words in (
        (("set", "r0n9", "1"), 'unknown node or rack "r0n9": did you mean "r0n'),
        (("set", "r0n0", "1.5"), "slots 1.5: need a whole number up to 65536, or default"),
        (("set", "r0n0", "-1"), "slots -1: need a whole number up to 65536, or default"),
        (("set", "r0n0", "65537"), "slots 65537: need a whole number up to 65536, or default"),
        (("sett", "r0n0", "1"), 'unknown slots command "sett": did you mean "set"?'),
    ):
        done = cluster.run("slots", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
