"""Nodes that are drained: no new attempts, what runs ends, output stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError, Refused
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import (
    AttemptKilled,
    AttemptSucceeded,
    KillAttempt,
    LaunchAttempt,
    NodeManagerHeartbeat,
)
from railyard.cluster.messaging.wire import Done
from railyard.dfs.messages import DrainNodes
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.process.messages import (
    ActivateNode,
    ClusterStatus,
    DrainNode,
    GetClusterStatus,
    JobEnded,
    SetSlots,
    WatchJob,
)
from railyard.resourcemanager.process.progress import what_is_left
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.standins import Office, Rack
from tests.resourcemanager.toys import ReservesReduces, reserving


def left(c: TinyCluster, node: str, replicas: int | None = 0) -> str:
    return what_is_left(c.core.state, c.core.state.nodes[NodeId(node)], replicas)


def test_what_runs_on_a_drained_node_runs_on_and_nothing_follows():
    c = tiny_cluster(nodes=2, slots=1)
    c.submit("j0", maps=4, map_s=2)
    c.at(1.0, lambda: c.drain("r0n1"))
    c.run(until_s=1.0)
    assert left(c, "r0n1") == "1 attempt"
    run = c.run()
    assert run.nodes_of("j0") == ["r0n0", "r0n1", "r0n0", "r0n0"]
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.killed, record.failed) == (4, 0, 0)
    assert left(c, "r0n1") == ""
    assert c.core.state.slots == 1


def test_what_runs_there_is_killed_and_run_again_if_asked():
    c = tiny_cluster(nodes=2, slots=1, kill_s=0.5)
    c.submit("j0", maps=2, map_s=2, max_attempts=1)
    c.at(1.0, lambda: c.drain("r0n1"))
    c.at(1.2, lambda: c.drain("r0n1", kill=True))
    run = c.run()
    killed = [(at_s, o.attempt, o.reason) for at_s, o in c.commands if isinstance(o, KillAttempt)]
    assert killed == [(1.2, "j0.m1.0", "r0n1 is drained")]
    assert run.placements[2:] == [("j0.m1", "r0n0", 2.0)]
    assert run.ended == {"j0": ""}


def test_map_output_is_served_from_a_drained_node_until_its_job_has_ended():
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=3.0)
    c.submit("j0", maps=2, reduces=1, map_s=1, reduce_s=5, max_attempts=1)
    c.at(1.0, lambda: c.drain("r0n1"))
    c.run(until_s=2.0)
    assert left(c, "r0n1", None) == "map output of j0, blocks, as the NameNode has not answered"
    assert left(c, "r0n1", 7) == "map output of j0, 7 blocks"
    run = c.run()
    assert [task for task, _ in run.launches("j0")] == ["j0.m0", "j0.m1", "j0.r0"]
    assert run.nodes_of("j0.r") == ["r0n0"]
    assert run.ended == {"j0": ""}
    assert left(c, "r0n1") == ""


def test_the_output_of_many_jobs_is_named_in_part():
    c = tiny_cluster(nodes=2, slots=6)
    for number in range(5):
        c.submit(f"j{number}", maps=2, reduces=1, reduce_s=9)
    c.run(until_s=2.0)
    c.drain("r0n0")
    assert "map output of j0 j1 j2 and 2 more" in left(c, "r0n0")


def test_a_node_stays_drained_when_it_is_lost_and_comes_back():
    c = tiny_cluster(nodes=2, slots=2)
    c.drain("r0n1")
    c.lose("r0n1")
    c.join("r0n1")
    assert c.core.state.slots == 2
    with pytest.raises(PeerError, match="r0n1 is drained: it has no slots until it is activated"):
        c.set_slots("r0n1", 1)
    c.restart("r0n1")
    c.submit("j0", maps=4, map_s=2)
    c.at(1.0, lambda: c.activate("r0n1"))
    run = c.run()
    assert run.nodes_of("j0") == ["r0n0", "r0n0", "r0n1", "r0n1"]
    with pytest.raises(PeerError, match="r0n1 is not drained"):
        c.activate("r0n1")
    with pytest.raises(PeerError, match="r0n7 is not drained"):
        c.activate("r0n7")


def test_a_node_that_is_activated_while_it_is_lost_joins_with_its_slots():
    c = tiny_cluster(nodes=2, slots=2)
    c.drain("r0n1")
    c.lose("r0n1")
    c.activate("r0n1")
    c.join("r0n1")
    assert c.core.state.slots == 4
    with pytest.raises(PeerError, match="there is no living node r0n7"):
        c.drain("r0n7")


def test_reservations_end_when_their_node_is_drained():
    c = tiny_cluster(nodes=2, slots=1, scheduler=reserving(ReservesReduces), flow_s=1.0)
    c.submit("j0", maps=3, reduces=1, map_s=4)
    c.run(until_s=1.0)
    assert [attempt.node.id for attempt in c.core.state.reserved.values()] == ["r0n1"]
    c.drain("r0n1")
    assert not c.core.state.reserved
    c.at(20.0, lambda: c.activate("r0n1"))
    assert c.run().ended == {"j0": ""}


def test_a_job_is_not_left_with_none_but_drained_nodes_and_those_that_it_avoids():
    c = tiny_cluster(racks=1, nodes=4, slots=1)
    c.failure = lambda attempt, node: "bad disk" if node == "r0n0" and c.now_s < 9 else None
    c.submit("j0", maps=20, map_s=1, max_attempts=100)
    c.run(until_s=5.0)
    assert list(c.core.state.jobs[JobId("j0")].avoid) == ["r0n0"]
    for node in ("r0n1", "r0n2", "r0n3"):
        c.drain(node)
    assert c.run().ended == {"j0": ""}


def test_a_log_with_drained_nodes_is_replayed_and_drawn(tmp_path: Path):
    c = tiny_cluster(nodes=2, slots=2)
    c.submit("j0", maps=6, reduces=1, map_s=2)
    c.at(1.0, lambda: c.drain("r0n1", kill=True))
    c.at(3.0, lambda: c.activate("r0n1"))
    c.at(4.0, lambda: c.restart("r0n0"))
    assert c.run().ended == {"j0": ""}
    log = EventLog(tmp_path / "events.jsonl", ClusterConfig(topology=c.topology, scheduler="fair"))
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    steps = list(replay(tmp_path / "events.jsonl"))
    assert len(steps) == len(c.events)
    rows = chrome_trace(replay(tmp_path / "events.jsonl"))["traceEvents"]
    assert "lost with its node" in {row.get("args", {}).get("outcome") for row in rows}


# The ResourceManager drains nodes: what it asks of whom, what it says of them.


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


def test_two_asked_for_at_once_are_decided_one_after_the_other(office: Office):
    for rack in ("r0", "r1", "r2"):
        Rack(office, rack)
    answers: list[object] = []
    for node in ("r1n0", "r2n0"):
        office.client.request(DrainNode(node=node), Done, lambda got, _: answers.append(got))
    office.wait(lambda: len(answers) == 2)
    assert [said.nodes for said in asked(office) if said.new] == [("r1n0",), ("r1n0", "r2n0")]
    assert answers == [Done(), Done()]


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
