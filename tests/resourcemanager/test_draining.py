"""Nodes that are drained: no new attempts, what runs ends, output stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages.execution import KillAttempt
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.process.draining.left import what_is_left
from tests.harness import TinyCluster, tiny_cluster
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
    rows = chrome_trace(steps)["traceEvents"]
    assert "lost with its node" in {row.get("args", {}).get("outcome") for row in rows}
