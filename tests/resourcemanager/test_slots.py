"""Slots of a living node that change: nothing is killed, and all that counts slots follows."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import NodeJoined, NodeLost
from railyard.cluster.topologyfile import RackShape
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.report import report
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.interface.decisions import Decision, InvalidDecision, Pass, Place
from railyard.resourcemanager.interface.policies import Policy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, SlotView
from railyard.resourcemanager.schedulers.co_scheduler.scheduler import LateStart
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.toys import CopyEach, copying


def free(c: TinyCluster, node: str) -> tuple[int, int, int]:
    known = c.core.state.nodes[node]
    return known.slots, known.held, known.free


# The core ----------------------------------------------------------------------------------------
def test_what_runs_on_slots_that_are_taken_away_runs_on():
    c = tiny_cluster(nodes=1, slots=3)
    c.submit("j0", maps=3, durations={"m": 2.0})
    c.submit("j1", maps=3, durations={"m": 2.0})
    c.at(1.0, lambda: c.set_slots("r0n0", 1))
    run = c.run(until_s=1.0)
    assert free(c, "r0n0") == (1, 3, 0)
    assert c.core.state.slots == 1
    assert c.core.state.free == 0
    run = c.run()
    assert [at_s for _, at_s in run.launches("j1.")] == [2.0, 4.0, 6.0]  # one after the other
    assert run.ended == {"j0": "", "j1": ""}
    assert sum(record.killed for record in c.core.records.values()) == 0


def test_slots_that_are_added_are_offered_at_once():
    c = tiny_cluster(nodes=1, slots=1)
    c.submit("j0", maps=3, map_s=2)
    c.at(1.0, lambda: c.set_slots("r0n0", 3))
    assert [at_s for _, at_s in c.run().launches("j0.")] == [0.0, 1.0, 1.0]


def test_a_node_without_slots_gets_no_task_until_it_has_some():
    c = tiny_cluster(nodes=2, slots=1)
    c.set_slots("r0n1", 0)
    assert [node.id for node in c.core.state.free_nodes()] == ["r0n0"]
    c.submit("j0", maps=3, map_s=1)
    c.at(1.0, lambda: c.set_slots("r0n1", 1))
    assert c.run().placements == [
        ("j0.m0", "r0n0", 0.0),
        ("j0.m1", "r0n0", 1.0),
        ("j0.m2", "r0n1", 1.0),
    ]


def test_a_node_that_is_lost_comes_back_with_the_slots_it_has_then():
    c = tiny_cluster(nodes=1, slots=2)
    c.submit("j0", maps=2, map_s=5)
    c.run(until_s=1.0)
    c.set_slots("r0n0", 1)
    c.lose("r0n0")
    assert (c.core.state.slots, c.core.state.free) == (0, 0)
    c.join("r0n0")
    assert free(c, "r0n0") == (2, 2, 0)


@pytest.mark.parametrize("node", ["r9n9", "r0n1"])
def test_slots_of_a_node_that_is_not_there_do_not_change(node: str):
    c = tiny_cluster(nodes=2)
    c.lose("r0n1")
    with pytest.raises(PeerError, match=f"there is no living node {node}"):
        c.set_slots(node, 2)


def test_policies_are_heard_once_and_only_of_a_change():
    heard = []

    class Hears(FairOrder):
        def slots_changed(self, node: SlotView, before: int) -> None:
            heard.append((node.id, before, node.slots, self.cluster.slots))

    c = tiny_cluster(nodes=2, scheduler=Recipe(name="heard", source="a test", order=Hears))
    for slots in (3, 3, 0):
        c.set_slots("r0n1", slots)
    assert heard == [("r0n1", 1, 3, 4), ("r0n1", 3, 0, 1)]
    assert Policy.slots_changed(FairOrder, c.core.state.nodes["r0n1"], 1) is None


def test_a_reduce_gives_way_where_that_frees_a_slot():
    """Their map's output is lost.  The younger reduce's node has no slot that would be free."""
    c = tiny_cluster(racks=3, nodes=1, flow_s=100.0)
    c.submit("j0", maps=1, reduces=2, map_s=1)
    c.run(until_s=0.5)
    c.set_slots("r0n0", 0)
    assert c.run(until_s=2.0).placements[1:] == [("j0.r0", "r1n0", 1.0), ("j0.r1", "r2n0", 1.0)]
    c.set_slots("r2n0", 0)
    c.lose("r0n0")
    assert c.run(until_s=2.0 + 5.0).placements[-1] == ("j0.m0", "r1n0", 7.0)
    assert c.core.records["j0"].killed == 1


# Those who count slots ---------------------------------------------------------------------------
def test_a_queues_maximum_is_of_the_slots_there_are_now():
    options = {
        "capacity.guaranteed.a": 0.5,
        "capacity.guaranteed.b": 0.5,
        "capacity.maximum.a": 0.5,
    }
    c = tiny_cluster(nodes=4, scheduler="capacity", options=options)
    c.submit("j0", maps=9, map_s=10, queue="a")
    assert len(c.run(until_s=1.0).launches("j0.")) == 2
    assert "queue a is at its maximum: 2 slots" in c.why_waiting("j0.m5")
    for node in ("r0n2", "r0n3"):
        c.set_slots(node, 3)
    assert len(c.run(until_s=2.0).launches("j0.")) == 4
    for node in ("r0n0", "r0n1", "r0n2", "r0n3"):
        c.set_slots(node, 1)
    assert len(c.run(until_s=9.0).launches("j0.")) == 4
    assert len(c.run(until_s=19.0).launches("j0.")) == 6  # two once more, of four slots


def test_reduces_that_hold_all_slots_that_are_left_begin():
    late = Recipe(name="late", source="a test", order=FairOrder, shuffle=LateStart)
    patient = {"shuffle.stall_factor": 1e12}  # the tiny reduces should run for no time at all
    c = tiny_cluster(nodes=4, scheduler=late, options=patient)
    c.submit("j9", maps=1, map_s=30)
    c.submit("j0", maps=2, reduces=4)
    c.run(until_s=5.0)
    assert not c.flows()  # it waits for the slot that j9 holds
    held = next(a.node.id for a in c.core.state.attempts.values() if a.id.startswith("j9"))
    c.set_slots(held, 0)
    c.run(until_s=29.9)
    assert not c.flows()  # as long as others hold a slot
    c.run(until_s=30.0)
    assert {at_s for at_s, _ in c.flows()} == {30.0}


def test_a_rack_without_slots_is_as_good_as_lost():
    """ShuffleWatcher's racks: the job's own; once these have no slots, it runs anywhere."""
    c = tiny_cluster(racks=2, nodes=2, scheduler="shufflewatcher")
    c.store("in", blocks=[["r0n0"], ["r0n1"], ["r0n0"], ["r0n1"]])
    c.submit("j0", input="in", map_s=10)
    assert set(c.run(until_s=1.0).nodes_of("j0")) == {"r0n0", "r0n1"}
    for node in ("r0n0", "r0n1"):
        c.set_slots(node, 0)
    assert set(c.run(until_s=30.0).nodes_of("j0")) == {"r0n0", "r0n1", "r1n0", "r1n1"}


def test_a_rack_with_slots_again_is_kept_to():
    c = tiny_cluster(racks=2, nodes=1, slots=2, scheduler="shufflewatcher")
    c.set_slots("r0n0", 0)
    c.set_slots("r0n0", 1)
    c.store("in", blocks=[["r0n0"], ["r0n0"], ["r0n0"]])
    c.submit("j0", input="in", map_s=10)
    assert c.run().placements == [
        ("j0.m0", "r0n0", 0),
        ("j0.m1", "r0n0", 10),
        ("j0.m2", "r0n0", 20),
    ]


# What is written down ----------------------------------------------------------------------------
def eventful() -> TinyCluster:
    c = tiny_cluster(nodes=2, slots=2)
    c.submit("j0", maps=8, map_s=2)
    c.at(1.0, lambda: c.set_slots("r0n0", 0))
    c.at(3.0, lambda: c.set_slots("r0n1", 4))
    c.run()
    return c


def test_a_log_with_changes_of_slots_is_replayed(tmp_path: Path):
    c = eventful()
    path = tmp_path / "events.jsonl"
    log = EventLog(path, ClusterConfig(topology=c.topology))
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    assert '"type": "slots-changed", "node": "r0n0", "slots": 0' in path.read_text()
    assert len(list(replay(path))) == len(c.events)
    rows = chrome_trace(replay(path))["traceEvents"]
    lanes = [row for row in rows if row["name"] == "thread_name"]
    assert len(lanes) == 2 + 4


def test_the_share_of_slots_used_is_of_those_there_were():
    """4 slots for a second, then 2 for two seconds, then 4; 8 maps of 2 s hold 16."""
    c = eventful()
    records = list(c.core.records.values())
    summary = report(records, c.core.state.slot_history, now_s=c.now_s)
    assert summary["makespan_s"] == 5.0
    slot_s = 4 * 1.0 + 2 * 2.0 + 4 * 2.0
    assert summary["slot_utilization"] == pytest.approx(16 / slot_s)


# Nodes that are assigned several maps at once, in an order of their own, as in Hadoop 1.


def filled(c: TinyCluster, prefix: str = "j0.m") -> list[tuple[str, int]]:
    """(Node, how many tasks in a row it was given), in the order of their launches."""
    nodes = [node for task, node, _ in c.run().placements if task.startswith(prefix)]
    return [(node, len(list(row))) for node, row in groupby(nodes)]


def order(seed: int) -> list[str]:
    """The nodes in the order in which they are given maps."""
    c = tiny_cluster(racks=4, nodes=3, slots=2, seed=seed, assign_multiple=True)
    c.submit("j0", maps=24, map_s=1)
    nodes = [node for node, count in filled(c) if count == 2]
    assert len(nodes) == 12
    return nodes


def test_a_node_is_filled_before_the_next_one_is_given_a_map():
    c = tiny_cluster(racks=2, nodes=2, slots=3, assign_multiple=True)
    c.submit("j0", maps=7, map_s=1)
    assert [count for _, count in filled(c)] == [3, 3, 1]


def test_otherwise_each_node_is_given_one_in_turn():
    c = tiny_cluster(racks=2, nodes=2, slots=3)
    c.submit("j0", maps=7, map_s=1)
    assert [node for node, _ in filled(c)] == [
        *("r0n0", "r1n0", "r0n1", "r1n1"),
        *("r0n0", "r1n0", "r0n1"),
    ]


def test_the_order_is_the_seed_s_and_no_rack_s():
    orders = [order(seed) for seed in range(20)]
    assert orders[0] == order(0)
    assert len({tuple(each) for each in orders}) == 20
    first_half = [sum(node.startswith("r0") for node in each[:6]) for each in orders]
    assert {0, 3} & set(first_half)  # by rounds over racks it would always be 1 or 2
    assert 20 <= sum(first_half) <= 40


def test_a_node_that_comes_back_is_where_it_was():
    c = tiny_cluster(racks=2, nodes=2, slots=2, seed=5, assign_multiple=True)
    c.submit("j0", maps=8, map_s=1)
    before = [node for node, _ in filled(c)]
    c.feed(NodeLost(node=before[0], reason="gone"))
    c.feed(NodeJoined(node=before[0], rack=before[0][:2], slots=2))
    c.submit("j1", maps=8, map_s=1)
    assert [node for node, _ in filled(c, "j1.m")] == before


def test_a_node_is_given_one_reduce_at_a_time():
    c = tiny_cluster(racks=2, nodes=2, slots=4, assign_multiple=True)
    c.submit("j0", maps=1, reduces=8, map_s=1, reduce_s=1)
    assert {count for _, count in filled(c, "j0.r")} == {1}
    nodes = c.run().nodes_of("j0.r")
    assert {nodes.count(node) for node in nodes} == {2}


# Slots of two kinds, as in Hadoop 1.


def most_held(c: TinyCluster) -> dict[str, int]:
    """{"m" or "r": how many slots of a node such tasks held at most}, over a run."""
    most = Counter[str]()

    def look() -> None:
        for node in c.core.state.nodes.values():
            here = Counter(each.task.stage.name for each in node.attempts.values())
            most.update({name: max(0, count - most[name]) for name, count in here.items()})

    for quarter in range(200):
        c.at(quarter / 4 + 0.1, look)
    c.run()
    return dict(most)


@pytest.mark.parametrize("assign_multiple", [False, True])
def test_maps_and_reduces_have_slots_of_their_own(assign_multiple):
    shape = {"slots": 4, "reduce_slots": 1, "assign_multiple": assign_multiple}
    c = tiny_cluster(racks=2, nodes=2, options={"shuffle.slowstart": 0.1}, **shape)
    c.submit("j0", maps=30, reduces=6, map_s=1, reduce_s=1)
    assert most_held(c) == {"m": 3, "r": 1}
    assert c.core.records[JobId("j0")].ok


def test_a_node_is_given_as_many_reduces_as_it_has_slots_for_them():
    c = tiny_cluster(racks=2, nodes=2, slots=5, assign_multiple=True, reduce_slots=3)
    c.submit("j0", maps=1, reduces=8, map_s=1, reduce_s=1)
    # one in the slot that the map had, then turns
    assert [count for _, count in filled(c, "j0.r")] == [1, 3, 3, 1]


def test_a_reduce_that_has_no_slot_does_not_keep_maps_from_theirs():
    options = {"shuffle.slowstart": 0.1, "shuffle.ramp_up": 1.0}
    c = tiny_cluster(nodes=1, slots=4, reduce_slots=1, options=options)
    c.submit("j0", maps=30, reduces=3, map_s=1, reduce_s=99)
    assert c.run(until_s=9.5).launches("j0.m")[-1] == ("j0.m29", 9.0)


class PassesEverywhere(TaskPolicy):
    """Says of every slot what it says of the first that is left free."""

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        task = job.next_pending_reduce() or job.closest_pending_map(slot)[0]
        return Place(task) if task else Pass("nothing is pending", everywhere=True)


def test_a_wait_for_a_nearer_slot_for_maps_is_no_wait_for_one_for_reduces():
    options = {"shuffle.slowstart": 0.1, "shuffle.ramp_up": 1.0, "delay.node_wait_s": 99.0}
    c = tiny_cluster(nodes=4, slots=2, scheduler="delay", reduce_slots=1, options=options)
    c.store("f", [["r0n3"]] * 3)
    c.submit("j0", maps=1, reduces=2, map_s=1, reduce_s=99)
    c.run(until_s=2.0)
    c.submit("j1", input="f", reduces=2, map_s=1, reduce_s=1)
    assert [at_s for _, at_s in c.run(until_s=8.0).launches("j1.r")] == [3.0, 3.0]


def test_what_is_said_of_all_slots_is_not_said_of_those_of_the_other_kind():
    """j0's reduces have those of three nodes, which are asked before that of the last."""
    toy = Recipe(name="toy", source="", order=FairOrder, tasks=PassesEverywhere)
    options = {"shuffle.slowstart": 1.0}
    c = tiny_cluster(nodes=5, slots=2, scheduler=toy, reduce_slots=1, options=options)
    c.submit("j0", maps=1, reduces=3, map_s=1, reduce_s=99)
    c.run(until_s=2.0)
    c.submit("j1", maps=2, reduces=2, map_s=1, reduce_s=9)
    assert [at_s for _, at_s in c.run(until_s=8.0).launches("j1.r")] == [3.0, 3.0]


def test_reduces_keep_slots_that_maps_cannot_have():
    """j0's last map waits for j1's, and its reduce for that."""
    options = {"shuffle.slowstart": 0.1, "shuffle.ramp_up": 1.0}
    c = tiny_cluster(nodes=1, slots=2, reduce_slots=1, options=options)
    c.submit("j0", maps=4, reduces=1, map_s=1, reduce_s=1)
    c.at(2.5, lambda: c.submit("j1", maps=1, map_s=60))
    run = c.run()
    assert run.launches("j0.")[-1][1] > 60
    assert c.core.records[JobId("j0")].killed == 0


def test_a_node_whose_slots_for_maps_are_held_has_no_map_closest_to_it():
    c = tiny_cluster(nodes=1, slots=2, reduce_slots=1)
    c.submit("j0", maps=2, map_s=1)
    c.run(until_s=0.5)
    state = c.core.state
    assert state.jobs[JobId("j0")].closest_pending_map(state.nodes[NodeId("r0n0")])[0] is None


@pytest.mark.parametrize("scheduler", ["fair", "delay", "even", "kmn", "shadow"])
def test_every_scheduler_s_tasks_take_slots_of_their_kind(scheduler):
    c = tiny_cluster(*(2, 2, 3, scheduler), reduce_slots=1, options={"shuffle.slowstart": 0.1})
    c.submit("j0", maps=20, reduces=9, map_s=1, reduce_s=1)
    assert most_held(c) == {"m": 2, "r": 1}
    assert c.core.records[JobId("j0")].ok


def test_a_duplicate_takes_a_slot_for_maps():
    c = tiny_cluster(*(2, 2, 3, "shadow"), reduce_slots=1, duplicates_max=0.5)
    c.store("busy", [["r1n0"]] * 3)
    c.store("f", [["r0n0"], ["r0n1"]] * 2)
    c.submit("j9", input="busy", map_s=99)
    c.submit("j0", input="f", reduces=1, map_s=9)
    copies = [at for at in c.run(until_s=5.0).placements if at[0].startswith("j0.m")][4:]
    assert {node for _, node, _ in copies} == {"r1n1"}


def test_a_copy_of_a_slow_map_waits_for_a_slot_for_maps():
    options = {"speculation.on": True, "speculation.after_s": 2.0}
    c = tiny_cluster(nodes=10, slots=2, reduce_slots=1, options=options)
    rest = iter([1.0] * 8 + [5.0])
    c.stretch = lambda: next(rest, 1.0)
    c.submit("j0", maps=10, map_s=10)
    c.report_progress(every_s=0.5, until_s=30.0)
    assert [(task, at_s) for task, _, at_s in c.run(until_s=30.0).placements[10:]] == [
        ("j0.m8", 10.0)
    ]


def test_a_copy_that_is_proposed_for_a_slot_of_the_other_kind_is_refused():
    c = tiny_cluster(nodes=2, slots=2, reduce_slots=1, scheduler=copying(CopyEach))
    with pytest.raises(InvalidDecision, match=r"r0n[01] has none of its kind"):
        c.submit("j0", maps=2, map_s=1)


def test_a_node_with_no_more_slots_than_for_reduces_takes_either():
    c = tiny_cluster(nodes=1, slots=3, reduce_slots=2)
    c.core.state.resize_node(c.core.state.nodes["r0n0"], 2)
    c.submit("j0", maps=2, reduces=1, map_s=1, reduce_s=1)
    assert c.run().placements[:2] == [("j0.m0", "r0n0", 0.0), ("j0.m1", "r0n0", 0.0)]


@pytest.mark.parametrize("reduce_slots", [-1, 2, 3])
def test_a_node_has_slots_for_maps(reduce_slots):
    with pytest.raises(UsageError, match=r"racks\.reduce_slots"):
        RackShape(count=1, nodes=1, slots=2, reduce_slots=reduce_slots)
