"""Nodes, outputs and fetches that are lost: what is done again, and what is not."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import (
    AttemptFailed,
    CancelFlow,
    FlowFailed,
    KillAttempt,
    StartFlow,
)
from railyard.resourcemanager.core.shuffling.shuffle import TRIES_MAX
from tests.harness import TinyCluster, tiny_cluster


def flows(c: TinyCluster) -> list[tuple[float, StartFlow]]:
    return [(when, command) for when, command in c.commands if isinstance(command, StartFlow)]


def test_running_attempts_of_a_lost_node_are_run_again_and_did_not_fail():
    c = tiny_cluster(nodes=2)
    c.submit("j0", maps=2, map_s=4, max_attempts=1)
    c.at(1.0, lambda: c.lose("r0n0"))
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.placements == [
        ("j0.m0", "r0n0", 0.0),
        ("j0.m1", "r0n1", 0.0),
        ("j0.m0", "r0n1", 4.0),
    ]
    record = c.core.records[JobId("j0")]
    assert (record.failed, record.killed) == (0, 1)


def test_lost_output_is_made_again_and_what_was_fetched_is_kept():
    # 2 maps on each of 2 nodes, the reduce runs on a third; r0n0 dies after its output was fetched
    # and before r0n1's second map is done.
    c = tiny_cluster(racks=1, nodes=3, slots=1, options={"shuffle.slowstart": 0.5})
    c.store("in", blocks=[["r0n0"], ["r0n1"], ["r0n2"]])
    c.submit("j0", input="in", reduces=2, map_s=1, reduce_s=5)
    c.at(2.0, lambda: c.lose("r0n0"))
    run = c.run()
    assert run.ended == {"j0": ""}
    # r0n0 ran j0.m0 and then a reduce; the other reduces had fetched all: no map runs again
    # until the reduce of r0n0 starts again and needs it.
    assert [task for task, _ in run.launches("j0.m")] == ["j0.m0", "j0.m1", "j0.m2", "j0.m0"]
    fetched_by_r1 = [o.outputs for _, o in flows(c) if o.reader == "j0.r1.0"]
    assert sorted(a for outputs in fetched_by_r1 for a in outputs) == [
        "j0.m0.0",
        "j0.m1.0",
        "j0.m2.0",
    ]


def test_output_that_nobody_needs_is_not_made_again():
    c = tiny_cluster(nodes=2, slots=2)
    c.store("in", blocks=[["r0n0"], ["r0n1"]])
    c.submit("j0", input="in", reduces=1, map_s=1, reduce_s=5)
    c.run(until_s=2.0)
    reader = c.run().nodes_of("j0.r0")[0]
    other = "r0n1" if reader == "r0n0" else "r0n0"
    d = tiny_cluster(nodes=2, slots=2)
    d.store("in", blocks=[["r0n0"], ["r0n1"]])
    d.submit("j0", input="in", reduces=1, map_s=1, reduce_s=5)
    d.at(3.0, lambda: d.lose(other))
    run = d.run()
    assert run.ended == {"j0": ""}
    assert [task for task, _ in run.launches("j0.m")] == ["j0.m0", "j0.m1"]
    assert run.ended_s["j0"] == 6.0


def test_flows_from_and_to_a_lost_node_are_cancelled():
    c = tiny_cluster(racks=1, nodes=3, slots=1, flow_s=10.0)
    c.store("in", blocks=[["r0n0"], ["r0n1"]])
    c.submit("j0", input="in", reduces=1, map_s=1)
    c.run(until_s=2.0)
    reader = c.core.state.jobs[JobId("j0")].stages["r"].tasks[0]
    (attempt,) = reader.live
    source = "r0n0" if attempt.node.id != "r0n0" else "r0n1"
    c.lose(source)
    cancelled = [o for _, o in c.commands if isinstance(o, CancelFlow)]
    assert [(o.flow.split(":")[1], o.dst) for o in cancelled] == [(source, attempt.node.id)]
    c.lose(attempt.node.id)
    c.join(source)
    assert c.run().ended == {"j0": ""}


def test_a_fetch_that_breaks_off_is_tried_again():
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=1.0)
    broken: list[str] = []

    def once(flow: StartFlow) -> FlowFailed | None:
        if len(broken) < TRIES_MAX - 1:
            broken.append(flow.flow)
            return FlowFailed(flow=flow.flow, reason="reset")
        return None

    c.flow_failure = once
    c.submit("j0", maps=1, reduces=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert len(run.launches("j0.m")) == 1


def test_output_that_cannot_be_fetched_is_made_again():
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=1.0)
    c.flow_failure = lambda flow: (
        FlowFailed(flow=flow.flow, reason="no route") if "j0.m0.0" in flow.outputs else None
    )
    c.submit("j0", maps=2, reduces=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert [task for task, _ in run.launches("j0.m")] == ["j0.m0", "j0.m1", "j0.m0"]
    assert len([o for _, o in flows(c) if "j0.m0.0" in o.outputs]) == TRIES_MAX
    failure = c.core.records[JobId("j0")].failures[0]
    assert "could not be fetched by j0.r0.0: no route" in failure.reason


def test_output_that_is_said_to_be_lost_is_made_again_at_once():
    c = tiny_cluster(racks=1, nodes=2, slots=2, flow_s=1.0)
    c.flow_failure = lambda flow: (
        FlowFailed(flow=flow.flow, reason="bad checksum", lost=("j0.m0.0",))
        if "j0.m0.0" in flow.outputs
        else None
    )
    c.submit("j0", maps=4, reduces=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert [t for t, _ in run.launches("j0.m")] == ["j0.m0", "j0.m1", "j0.m2", "j0.m3", "j0.m0"]


def gone(flow):
    reason = "nodemanager-r0 is gone"
    return FlowFailed(flow=flow.flow, reason=reason, lost=flow.outputs, gone=True)


def test_nobody_is_blamed_for_output_whose_nodemanager_is_gone():
    c = tiny_cluster(racks=1, nodes=2, slots=2)
    c.flow_failure = lambda flow: gone(flow) if len(c.flows()) < 3 else None
    c.submit("j0", maps=1, reduces=1, max_attempts=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert len(run.launches("j0.m")) == 3
    assert c.core.records[JobId("j0")].failures == []


def test_a_nodemanager_that_is_always_gone_ends_the_job():
    c = tiny_cluster(racks=1, nodes=2, slots=2)
    c.flow_failure = gone
    c.submit("j0", maps=1, reduces=1)
    assert c.run().ended["j0"].startswith("task j0.m0 failed 4 of 4 attempts")


def test_output_that_is_always_lost_ends_the_job():
    c = tiny_cluster(racks=1, nodes=2, slots=2)
    c.flow_failure = lambda flow: FlowFailed(flow=flow.flow, reason="bad", lost=flow.outputs)
    c.submit("j0", maps=1, reduces=1)
    assert c.run().ended["j0"].startswith("task j0.m0 failed 4 of 4 attempts")


def test_reduces_that_hold_all_slots_make_room_for_a_map_that_must_run_again():
    # The map's node dies before the reduce on the other one, which is all that is left, has its
    # output; after 2 s of patience that reduce gives up its slot.
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=3.0, options={"shuffle.patience_s": 2.0})
    c.submit("j0", maps=1, reduces=2, map_s=1, reduce_s=50)
    c.run(until_s=2.0)
    c.lose("r0n0")
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.placements[3:] == [
        ("j0.m0", "r0n1", 4.0),
        ("j0.r0", "r0n1", 5.0),
        ("j0.r1", "r0n1", 58.0),
    ]
    killed = [(when, o.reason) for when, o in c.commands if isinstance(o, KillAttempt)]
    assert killed == [(4.0, "gives its slot to a task that it waits for")]


def test_the_slot_that_a_reduce_gave_up_goes_to_no_other_job():
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=3.0, options={"shuffle.patience_s": 2.0})
    c.submit("j0", maps=1, reduces=2, map_s=1, reduce_s=50)
    c.run(until_s=2.0)
    c.lose("r0n0")
    c.submit("j1", maps=4, map_s=1)
    run = c.run()
    assert run.ended == {"j0": "", "j1": ""}
    assert run.placements[3] == ("j0.m0", "r0n1", 4.0)


def test_a_node_that_starts_anew_has_lost_what_it_ran():
    c = tiny_cluster(nodes=1, slots=1)
    c.submit("j0", maps=1, map_s=5)
    c.run(until_s=1.0)
    c._workers.clear()
    c.join("r0n0")
    run = c.run()
    assert run.launches("j0") == [("j0.m0", 0.0), ("j0.m0", 1.0)]
    assert run.ended == {"j0": ""}


def test_output_is_fetched_on_from_a_nodemanager_that_was_started_again():
    # m1 is on r0n1; the reduce on r0n0 fetches it from 1 s on, once more from 2 s on.
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=3.0)
    c.submit("j0", maps=2, reduces=1, map_s=1, reduce_s=5, max_attempts=1)
    c.at(2.0, lambda: c.restart("r0n1"))
    run = c.run()
    assert run.ended_s == {"j0": 10.0}
    assert [task for task, _ in run.launches("j0")] == ["j0.m0", "j0.m1", "j0.r0"]
    fetched = [(when, o.flow, o.outputs) for when, o in flows(c) if o.src == "r0n1"]
    again = [(1.0, "j0.r0.0:r0n1:1", ("j0.m1.0",)), (2.0, "j0.r0.0:r0n1:2", ("j0.m1.0",))]
    assert fetched == again
    assert [o.flow for _, o in c.commands if isinstance(o, CancelFlow)] == ["j0.r0.0:r0n1:1"]


def test_output_that_was_not_found_again_is_made_again_and_nobody_is_blamed():
    c = tiny_cluster(racks=1, nodes=2, slots=2, flow_s=3.0)
    c.submit("j0", maps=4, reduces=1, map_s=1, reduce_s=5, max_attempts=1)
    c.run(until_s=2.0)
    (reader,) = c.core.state.jobs[JobId("j0")].stages["r"].tasks[0].live
    other = "r0n1" if reader.node.id == "r0n0" else "r0n0"
    lost, kept = [t for t, node, _ in c.run(until_s=2.0).placements if node == other]
    c.restart(other, lost=[f"{lost}.0"])
    run = c.run()
    assert run.ended == {"j0": ""}
    assert sorted(task for task, _ in run.launches("j0.m")).count(lost) == 2
    assert len(run.launches(kept)) == 1
    assert (c.core.records[JobId("j0")].failed, c.core.records[JobId("j0")].failures) == (0, [])


def test_what_ran_is_run_again_when_its_nodemanager_is_started_again():
    c = tiny_cluster(nodes=2, slots=1)
    c.submit("j0", maps=3, map_s=4, max_attempts=1)
    c.at(5.0, lambda: c.restart("r0n0"))
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.launches("j0") == [("j0.m0", 0), ("j0.m1", 0), ("j0.m2", 4), ("j0.m2", 5)]
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.failed, record.killed) == (4, 0, 1)
    with pytest.raises(PeerError, match="there is no living node r0n7"):
        c.restart("r0n7")


def test_a_job_avoids_a_node_on_which_it_keeps_failing():
    c = tiny_cluster(racks=1, nodes=6, slots=1)
    c.failure = lambda attempt, node: "bad disk" if node == "r0n0" else None
    c.submit("j0", maps=40, map_s=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert len([node for node in run.nodes_of("j0") if node == "r0n0"]) == 3


def test_a_job_is_not_left_with_none_but_nodes_that_it_avoids():
    c = tiny_cluster(racks=1, nodes=6, slots=1)
    c.failure = lambda attempt, node: "bad disk" if node in ("r0n0", "r0n1") else None
    c.submit("j0", maps=40, map_s=1, max_attempts=100)
    c.run(until_s=5.0)
    assert list(c.core.state.jobs[JobId("j0")].avoid) == ["r0n0", "r0n1"]
    for node in ("r0n2", "r0n3", "r0n4", "r0n5"):
        c.lose(node)
    c.failure = lambda attempt, node: None  # the disks are repaired
    assert c.run().ended == {"j0": ""}


def test_an_attempt_that_breaks_while_it_is_being_killed_did_not_fail():
    c = tiny_cluster(racks=1, nodes=2, slots=1, flow_s=3.0, kill_s=0.5)
    c.submit("j0", maps=1, reduces=2, map_s=1, reduce_s=50, max_attempts=1)
    c.run(until_s=2.0)
    c.lose("r0n0")
    c.run(until_s=7.1)
    (killed,) = [o.attempt for _, o in c.commands if isinstance(o, KillAttempt)]
    c.feed(AttemptFailed(attempt=killed, reason="its fetch was cancelled"))
    del c._workers[killed]
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.failed, record.failures) == (0, [])
