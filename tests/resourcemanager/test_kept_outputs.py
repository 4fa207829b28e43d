"""Outputs that are kept until the copies policy takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import JobId, NodeId
from railyard.resourcemanager.core.state.jobs import Stage, Task
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
    monkeypatch.setattr("railyard.resourcemanager.driving.makecore.recipe_named", lambda _: recipe)
    rows = chrome_trace(list(replay(path)))["traceEvents"]
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
