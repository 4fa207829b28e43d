"""Outputs that are kept until the copies policy takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import AttemptFailed, CancelFlow, FlowFailed, KillAttempt, StartFlow
from railyard.resourcemanager.core.jobs import Stage, Task
from railyard.resourcemanager.core.shuffling import loops
from railyard.resourcemanager.core.shuffling.shuffle import TRIES_MAX
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.interface.decisions import Copy, InvalidDecision, Proposal, Take
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, TaskView
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.toys import copying

Propose = Callable[[ClusterView], Iterable[Proposal]]


def keeping(propose: Propose = lambda cluster: (), *, also_copies: bool = True) -> Recipe:
    """Keeps the output of each map; of its copies, too, unless these count at once."""

    class Copies(CopyPolicy):
        def first_counts(self, task: TaskView) -> bool:
            return task.stage.name != "m" or bool(task.kept and not also_copies)

        def propose(self) -> Iterable[Proposal]:
            return propose(self.cluster)

    return copying(Copies)


def stage(c: TinyCluster, name: str = "m") -> Stage:
    return c.core.state.jobs[JobId("j0")].stages[name]


def task(c: TinyCluster, index: int = 0) -> Task:
    return stage(c).tasks[index]


def times(c: TinyCluster, *durations_s: float) -> None:
    """How long the attempts take, in the order of their launches; later ones take 1 s."""
    rest = iter(durations_s)
    c.stretch = lambda: next(rest, 1.0)


def copy_first(node: str, when_s: float) -> Propose:
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        if cluster.now_s == when_s and cluster.jobs:
            first = cluster.jobs[JobId("j0")].stages["m"].tasks[0]
            if all(attempt.node.id != node for attempt in first.live):
                yield Copy(first, NodeId(node))

    return propose


def wake(c: TinyCluster, when_s: float) -> None:
    """Something happens, so that policies are asked: a job of another stage name comes."""
    c.at(
        when_s,
        lambda: c.submit(
            f"j{when_s:g}", stages=[StagePlan(name="x", tasks=1)], durations={"x": 0.01}
        ),
    )


def test_a_kept_output_holds_no_slot_and_is_not_fetched():
    c = tiny_cluster(nodes=2, slots=1, scheduler=keeping())
    times(c, 1.0, 3.0)
    c.submit("j0", maps=2, reduces=1)
    c.run(until_s=2.0)
    assert task(c).state == "kept"
    assert [attempt.id for attempt in task(c).kept] == ["j0.m0.0"]
    assert task(c).kept[0].shuffle_bytes == 10
    assert (stage(c).kept, stage(c).running, stage(c).done, stage(c).progress) == (1, 1, 0, 0.5)
    assert c.core.state.free == 1
    assert c.flows() == []
    assert c.core.records[JobId("j0")].succeeded == 0
    run = c.run()  # nobody takes them: at 3 s they are taken
    assert run.ended == {"j0": ""}
    assert {at_s for at_s, _ in c.flows()} == {3.0}
    assert c.core.records[JobId("j0")].succeeded == 3


def take_at(when_s: float, *attempts: str) -> Propose:
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        if cluster.now_s == when_s:
            job = cluster.jobs[JobId("j0")]
            for each in job.stages["m"].tasks:
                yield from (Take(kept) for kept in each.kept if kept.id in attempts)

    return propose


def test_what_is_taken_is_fetched_and_the_others_are_ended():
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        yield from copy_first("r0n2", 0.0)(cluster)
        yield from take_at(2.0, "j0.m0.0")(cluster)

    c = tiny_cluster(nodes=4, slots=1, scheduler=keeping(propose), kill_s=0.5)
    times(c, 1.0, 5.0, 5.0)
    c.submit("j0", maps=2, reduces=1)
    wake(c, 2.0)
    c.run(until_s=1.5)
    assert (task(c).state, len(task(c).kept), len(task(c).live)) == ("running", 1, 1)
    c.run(until_s=2.1)
    assert (task(c).state, task(c).kept, task(c).winner.id) == ("done", (), "j0.m0.0")
    assert [attempt.killing for attempt in task(c).live] == ["j0.m0.0 was faster"]
    assert c.run().ended["j0"] == ""
    record = c.core.records[JobId("j0")]
    assert (record.copies, record.copies_chosen, record.killed) == (1, 0, 1)


def test_the_copy_may_count_although_the_first_is_kept():
    recipe = keeping(copy_first("r0n2", 0.0), also_copies=False)
    c = tiny_cluster(nodes=3, slots=1, scheduler=recipe)
    times(c, 1.0, 5.0, 2.0)
    c.submit("j0", maps=2, reduces=1)
    c.run(until_s=2.5)
    assert (task(c).state, task(c).winner.id, task(c).kept) == ("done", "j0.m0.1", ())
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.succeeded, record.killed, record.copies_chosen) == (3, 1, 1)


@pytest.mark.parametrize("how", ["fails", "is lost with its node"])
def test_a_task_takes_what_it_has_kept_when_its_last_attempt_is_gone(how: str):
    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping(copy_first("r0n2", 0.0)))
    times(c, 1.0, 9.0, 2.0)
    if how == "fails":
        c.failure = lambda attempt, node: "boom" if attempt == "j0.m0.1" else None
    else:
        c.at(1.5, lambda: c.lose("r0n2"))
    c.submit("j0", maps=2, reduces=1)
    c.run(until_s=2.5)
    assert (task(c).state, task(c).winner.id) == ("done", "j0.m0.0")
    assert c.run().ended == {"j0": ""}


def test_a_kept_output_is_lost_with_its_node_and_its_task_runs_again():
    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping())
    times(c, 1.0, 9.0)
    c.submit("j0", maps=2, reduces=1)
    c.at(2.0, lambda: c.lose("r0n0"))
    c.run(until_s=2.5)
    assert (task(c).state, task(c).kept, stage(c).kept) == ("running", (), 0)
    assert c.run().ended == {"j0": ""}
    assert c.core.records[JobId("j0")].killed == 1


@pytest.mark.parametrize("lost", [(), ("j0.m0.0",)])
def test_a_kept_output_outlives_a_nodemanager_if_it_is_found_again(lost: tuple[str, ...]):
    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping())
    times(c, 1.0, 9.0)
    c.submit("j0", maps=2, reduces=1)
    c.at(2.0, lambda: c.restart("r0n0", lost))
    c.run(until_s=2.5)
    assert task(c).state == ("running" if lost else "kept")
    assert c.run().ended == {"j0": ""}
    assert c.core.records[JobId("j0")].killed == len(lost)


def test_a_kept_output_in_the_block_store_outlives_its_node():
    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping())
    times(c, 1.0, 9.0)
    c.submit("j0", maps=2)
    c.at(2.0, lambda: c.lose("r0n0"))
    c.run(until_s=2.5)
    assert task(c).state == "kept"
    run = c.run()
    assert run.ended_s == {"j0": 9.0}


def test_another_output_that_is_kept_elsewhere_is_enough():
    c = tiny_cluster(nodes=4, slots=1, scheduler=keeping(copy_first("r0n2", 0.0)))
    times(c, 1.0, 9.0, 2.0)
    c.submit("j0", maps=2, reduces=1)
    c.at(3.0, lambda: c.lose("r0n0"))
    c.run(until_s=3.5)
    assert (task(c).state, [kept.id for kept in task(c).kept]) == ("kept", ["j0.m0.1"])
    assert c.run().ended == {"j0": ""}


def test_a_kept_task_may_have_a_copy():
    c = tiny_cluster(nodes=4, slots=1, scheduler=keeping(copy_first("r0n3", 2.0)))
    times(c, 1.0, 9.0)
    c.submit("j0", maps=2, reduces=1)
    wake(c, 2.0)
    c.run(until_s=2.5)
    assert (task(c).state, len(task(c).kept), task(c).live[0].copy) == ("running", 1, True)
    assert c.run().ended["j0"] == ""


def test_the_trace_tells_what_was_taken_of_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        yield from copy_first("r0n2", 0.0)(cluster)
        yield from take_at(3.0, "j0.m0.1")(cluster)

    recipe = keeping(propose)
    c = tiny_cluster(nodes=3, slots=1, scheduler=recipe, kill_s=2.0)
    times(c, 1.0, 3.5, 2.0)
    c.submit("j0", maps=2, reduces=1)
    wake(c, 3.0)
    c.at(3.4, lambda: c.kill("j0"))  # j0.m1.0 succeeds on its way out
    c.run()
    path = tmp_path / "events.jsonl"
    log = EventLog(path, ClusterConfig(topology=c.topology))
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.coredriver.recipe_named", lambda _: recipe
    )
    rows = chrome_trace(replay(path))["traceEvents"]
    slices = [row["args"] for row in rows if row.get("cat") == "attempt"]
    outcomes = {args["attempt"]: args["outcome"] for args in slices}
    assert outcomes == {
        "j0.m0.0": "kept, then not taken",
        "j0.m0.1": "kept, then taken",
        "j0.m1.0": "too late",
        "j0.r0.0": "killed",
        "j3.x0.0": "succeeded",
    }


def test_a_policy_chooses_which_of_its_tasks_count():
    """K of M by load, say: all are kept, then the last two are taken and the others left."""

    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        for job in cluster.jobs.values():
            tasks = job.stages["m"].tasks
            if all(each.state == "kept" for each in tasks):
                yield from (Take(each.kept[0], "it lies well") for each in tasks[2:])

    c = tiny_cluster(nodes=4, slots=1, scheduler=keeping(propose))
    plan = [
        StagePlan(name="m", tasks=4, needed=2),
        StagePlan(name="r", reads=("m",), tasks=1),
    ]
    c.submit("j0", stages=plan)
    c.run(until_s=1.5)
    assert [each.state for each in stage(c).tasks] == ["left", "left", "done", "done"]
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.succeeded, record.killed) == (5, 3, 2)


def test_a_job_that_is_killed_drops_what_it_has_kept():
    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping())
    times(c, 1.0, 9.0)
    c.submit("j0", maps=2, reduces=1)
    c.at(2.0, lambda: c.kill("j0"))
    c.run()
    assert c.core.records[JobId("j0")].killed == 2
    assert c.core.state.keeping == {}


def take_the_running(cluster: ClusterView) -> Iterable[Proposal]:
    for job in cluster.jobs.values():
        for each in job.stages["m"].tasks:
            yield from map(Take, each.live)


def test_only_what_is_kept_can_be_taken():
    c = tiny_cluster(scheduler=keeping(take_the_running))
    with pytest.raises(
        InvalidDecision,
        match=r"copying/copies took the output of j0.m0.0 at 0.000 s, but nothing of j0.m0.0 is "
        r"kept: it is running",
    ):
        c.submit("j0", maps=1)


@pytest.mark.parametrize(
    ("what", "state", "led_there"),
    [
        ("fails", "failed", "1.000  AttemptFailed attempt=j0.m0.0"),
        ("is lost while it runs", "killed", "0.500  NodeLost node=r0n0"),
        ("is lost while it is kept", "killed", "1.500  NodeLost node=r0n0"),
    ],
)
def test_what_failed_or_was_lost_cannot_be_taken(what: str, state: str, led_there: str):
    seen = []

    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        if JobId("j0") in cluster.jobs:
            seen.extend(cluster.jobs[JobId("j0")].stages["m"].tasks[0].live)
        yield from (Take(seen[0]) for _ in "x" if cluster.now_s == 2.0)

    c = tiny_cluster(nodes=3, slots=1, scheduler=keeping(propose))
    times(c, 1.0, 9.0, 9.0)
    if what == "fails":
        c.failure = lambda attempt, node: "boom" if attempt == "j0.m0.0" else None
    else:
        c.at(0.5 if "runs" in what else 1.5, lambda: c.lose("r0n0"))
    c.submit("j0", maps=2, reduces=1)
    wake(c, 2.0)
    with pytest.raises(InvalidDecision) as refused:
        c.run()
    first, *events = str(refused.value).split("\n")
    assert first == (
        "copying/copies took the output of j0.m0.0 at 2.000 s, but nothing of j0.m0.0 is kept: "
        f"it is {state}"
    )
    assert any(led_there in line for line in events), events


# Nodes, outputs and fetches that are lost: what is done again, and what is not.


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


def test_the_compiled_loop_is_loaded_once_in_a_process():
    assert loops.compiled() is loops.compiled()
