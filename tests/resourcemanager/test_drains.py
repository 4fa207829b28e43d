"""The ResourceManager drains nodes: what it asks of whom, what it says of them."""

from __future__ import annotations

from typing import Any

import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.messages.execution import (
    AttemptKilled,
    AttemptSucceeded,
    KillAttempt,
    LaunchAttempt,
    NodeManagerHeartbeat,
)
from railyard.cluster.messaging.wire import Done
from railyard.dfs.messages.draining import DrainNodes
from railyard.resourcemanager.process.messages import (
    ActivateNode,
    ClusterStatus,
    DrainNode,
    GetClusterStatus,
    JobEnded,
    SetSlots,
    WatchJob,
)
from tests.resourcemanager.standins import Office, Rack


def states(office: Office) -> dict[str, tuple[int, str, str]]:
    nodes = office.client.call(GetClusterStatus(), ClusterStatus).nodes
    return {node.node: (node.slots, node.drain, node.left) for node in nodes}


def asked(office: Office) -> list[DrainNodes]:
    return [said for said in office.namenode_said if isinstance(said, DrainNodes)]


def drain(office: Office, node: str, **how: Any) -> None:
    office.client.call(DrainNode(node=node, **how), Done)


def test_a_node_is_drained_once_its_attempts_output_and_blocks_are_elsewhere(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.replicas["r1n0"] = 5
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    job = office.submit()
    (other,) = racks[0].wait_for(LaunchAttempt)
    (read,) = racks[1].wait_for(LaunchAttempt)
    drain(office, "r1n0")
    assert asked(office)[0] == DrainNodes(nodes=("r1n0",), new="r1n0")
    assert states(office)["r1n0"] == (0, "draining", "1 attempt, 5 blocks")
    racks[1].say(AttemptSucceeded(attempt=read.attempt, partition_bytes=(90,)))
    racks[0].say(AttemptSucceeded(attempt=other.attempt, partition_bytes=(90,)))
    reduce = racks[0].wait_for(LaunchAttempt, 2)[1]
    assert states(office)["r1n0"] == (0, "draining", f"map output of {job}, 5 blocks")
    office.replicas["r1n0"] = 0
    office.wait(lambda: states(office)["r1n0"][2] == f"map output of {job}")
    office.client.call(WatchJob(job=job), Done)
    racks[0].say(AttemptSucceeded(attempt=reduce.attempt, output_bytes=1))
    office.wait(lambda: any(isinstance(said, JobEnded) for said in office.received))
    assert states(office) == {"r0n0": (2, "", ""), "r1n0": (0, "drained", "")}
    with pytest.raises(Refused, match="r1n0 is drained: activate it first"):
        office.client.call(SetSlots(node="r1n0", slots=1), Done)
    for _ in range(2):  # once more, as a client sends it again whose connection broke
        office.client.call(ActivateNode(node="r1n0"), Done)
        assert states(office)["r1n0"] == (2, "", "")
    office.wait(lambda: asked(office)[-1] == DrainNodes(nodes=()))


def test_what_runs_is_killed_if_asked(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.submit()
    (launch,) = racks[1].wait_for(LaunchAttempt)
    drain(office, "r1n0", now=True)
    assert racks[1].wait_for(KillAttempt)[0].attempt == launch.attempt
    racks[1].say(AttemptKilled(attempt=launch.attempt))
    again = f"{launch.attempt[:-1]}1"
    assert racks[0].wait_for(LaunchAttempt, 2)[1].attempt == again


def test_what_cannot_be_drained_is_refused(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1", nodes=2)]
    racks[1].say(NodeManagerHeartbeat(rack="r1", nodes=("r1n0",)))
    office.wait(lambda: len(states(office)) == 3)
    office.wait(lambda: not office.manager._driver.core.state.nodes["r1n1"].alive)
    office.refuses_drains = "r1n0 can't be drained: blocks have 2 replicas, on 1 other node"
    for node, why in (
        ("r7n7", "r7n7 has not joined: there is nothing to drain"),
        ("r1n1", "r1n1 is lost .* there is nothing to drain"),
        ("r1n0", "blocks have 2 replicas"),
    ):
        with pytest.raises(Refused, match=why):
            drain(office, node)
    assert {slots for slots, *_ in states(office).values()} == {2}
    office.refuses_drains = ""
    drain(office, "r1n0")
    drain(office, "r1n0")
    with pytest.raises(Refused, match="it is the last node that takes attempts"):
        drain(office, "r0n0")
    with pytest.raises(Refused, match="r7n7 is no node of this topology"):
        office.client.call(ActivateNode(node="r7n7"), Done)


def test_drained_nodes_stay_so_over_restarts(office: Office):
    Rack(office, "r0")
    rack = Rack(office, "r1")
    drain(office, "r1n0")
    office.namenode_said.clear()
    office.restart()
    office.wait(lambda: asked(office))
    assert asked(office)[0] == DrainNodes(nodes=("r1n0",))
    rack.go_on()
    Rack(office, "r1")
    assert states(office)["r1n0"] == (0, "drained", "")
    office.client.call(ActivateNode(node="r1n0"), Done)
    assert states(office)["r1n0"] == (2, "", "")
