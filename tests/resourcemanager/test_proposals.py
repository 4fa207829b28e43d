"""Slots are answered, everything else is proposed: asked in rounds, checked, carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import pytest

from railyard.cluster.ids import JobId, NodeId
from railyard.resourcemanager.core.proposals import ROUNDS_MAX
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    InvalidDecision,
    Pass,
    Place,
    Proposal,
)
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.policies import CopyPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import tiny_cluster
from tests.resourcemanager.toys import CopyEach, copying

Propose = Callable[[ClusterView], Iterable[Proposal]]


def proposing(propose: Propose) -> Recipe:
    class Copies(CopyPolicy):
        def propose(self) -> Iterable[Proposal]:
            return propose(self.cluster)

    return copying(Copies)


def at(when_s: float, propose: Propose) -> Propose:
    """Propose at one time only."""
    return lambda cluster: propose(cluster) if cluster.now_s == when_s else ()


def map_of(cluster: ClusterView, job: str, index: int = 0):
    return cluster.jobs[JobId(job)].stages["m"].tasks[index]


# Copies ------------------------------------------------------------------------------------------
def test_the_first_of_two_copies_counts_and_the_other_is_killed():
    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(CopyEach))
    c.submit("j9", maps=1, map_s=1)
    c.run(until_s=0.5)
    c.submit("j0", maps=1, reduces=1, map_s=5)
    run = c.run()
    assert run.ended == {"j9": "", "j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.copies, record.succeeded, record.killed) == (1, 2, 1)


class CopyReduces(CopyEach):
    stage = "r"


class ReducesOnTheSecond(TaskPolicy):
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        reduce = job.next_pending_reduce()
        if reduce is not None and slot.id == "r0n1":
            return Place(reduce)
        task, _ = job.closest_pending_map(slot)
        return Place(task) if task else Pass("nothing to run here")


@pytest.mark.parametrize(
    ("copied_s", "lost_s"),
    [
        pytest.param(4.0, 3.0, id="before the copy is launched"),
        pytest.param(3.0, 4.0, id="while the copy fetches it"),
    ],
)
def test_a_copy_gets_what_the_other_attempt_had_fetched_before_it_was_lost(
    copied_s: float, lost_s: float
):
    recipe = replace(copying(CopyReduces), tasks=ReducesOnTheSecond)
    c = tiny_cluster(nodes=3, slots=1, scheduler=recipe, flow_s=1.5)
    c.failure = lambda attempt, node: "boom" if attempt == "j0.r0.0" else None
    c.lose("r0n2")
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=20)
    c.at(copied_s, lambda: c.join("r0n2"))
    c.at(lost_s, lambda: c.lose("r0n0"))
    assert c.run().ended == {"j0": ""}
    assert c.core.records[JobId("j0")].copies_chosen == 1


def test_jobs_take_slots_before_copies():
    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(CopyEach))
    c.submit("j1", maps=3, map_s=1)
    c.run(until_s=0.5)
    c.submit("j0", maps=1, map_s=5)
    run = c.run()
    assert run.placements[:4] == [
        ("j1.m0", "r0n0", 0.0),
        ("j1.m1", "r0n1", 0.0),
        ("j0.m0", "r0n0", 1.0),
        ("j1.m2", "r0n1", 1.0),
    ]
    assert run.placements[4:] == [("j0.m0", "r0n1", 2.0)]  # nobody else takes the slot


def move(cluster: ClusterView) -> Iterable[Proposal]:
    """j0's first map to the second node, once."""
    task = map_of(cluster, "j0")
    return [Copy(task, NodeId("r0n1"), task.live[0])] if len(task.live) == 1 else []


def test_a_task_moves_when_its_copy_is_instead_of_its_attempt():
    c = tiny_cluster(nodes=3, slots=1, scheduler=proposing(at(1.0, move)), kill_s=0.5)
    c.submit("j0", maps=1, map_s=3)
    c.at(1.0, lambda: c.lose("r0n2"))
    c.at(1.2, lambda: c.submit("j1", maps=1, map_s=1))  # the slot left is free at 1.5
    run = c.run()
    assert run.placements[1:] == [("j0.m0", "r0n1", 1.0), ("j1.m0", "r0n0", 1.5)]
    assert run.ended_s["j0"] == 4.0


def in_place_of(cluster: ClusterView) -> Iterable[Proposal]:
    """A copy of j0's first map in the slot of j1's."""
    task, others = map_of(cluster, "j0"), map_of(cluster, "j1").live
    return [Copy(task, each.node.id, each) for each in others if not each.killing]


@pytest.mark.parametrize("kill_s", [0.0, 0.5])
def test_a_copy_starts_in_the_slot_that_another_attempt_gives_up_once_its_end_is_known(
    kill_s: float,
):
    c = tiny_cluster(nodes=2, slots=1, scheduler=proposing(at(1.0, in_place_of)), kill_s=kill_s)
    c.submit("j0", maps=1, map_s=4)
    c.submit("j1", maps=2, map_s=2)
    c.at(1.0, lambda: c.submit("j2", maps=1, map_s=1))  # it waits for that slot, too
    run = c.run()
    assert run.placements[:3] == [
        ("j0.m0", "r0n0", 0.0),
        ("j1.m0", "r0n1", 0.0),
        ("j0.m0", "r0n1", 1.0 + kill_s),
    ]
    assert run.ended == {"j0": "", "j1": "", "j2": ""}
    assert c.core.records[JobId("j1")].killed == 1


def test_a_slot_given_up_for_a_copy_that_is_not_needed_any_more_goes_to_a_job():
    c = tiny_cluster(nodes=2, slots=1, scheduler=proposing(at(1.0, in_place_of)), kill_s=5.0)
    c.submit("j0", maps=1, map_s=3)
    c.submit("j1", maps=1, map_s=9)
    c.at(1.0, lambda: c.submit("j2", maps=2, map_s=10))
    run = c.run()
    assert run.placements[:3] == [
        ("j0.m0", "r0n0", 0.0),
        ("j1.m0", "r0n1", 0.0),
        ("j2.m0", "r0n0", 3.0),
    ]
    assert run.placements[3][1:] == ("r0n1", 6.0)
    assert c.core.records[JobId("j0")].copies == 0


def test_a_slot_given_up_is_forgotten_with_its_node():
    c = tiny_cluster(nodes=2, slots=1, scheduler=proposing(at(1.0, in_place_of)), kill_s=5.0)
    c.submit("j0", maps=1, map_s=9)
    c.submit("j1", maps=1, map_s=9)
    c.at(1.0, lambda: c.submit("j2", maps=1, map_s=10))
    c.at(2.0, lambda: c.lose("r0n1"))
    c.at(3.0, lambda: c.join("r0n1"))
    run = c.run()
    assert run.placements[2][1:] == ("r0n1", 3.0)
    assert c.core.records[JobId("j0")].copies == 0


# What can't be -----------------------------------------------------------------------------------
def on(node: str, job: str = "j0", index: int = 0, instead_of: str = "") -> Propose:
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        jobs = cluster.jobs.values()
        live = {a.id: a for job in jobs for task in job.stages["m"].tasks for a in task.live}
        ending = next((attempt for name, attempt in live.items() if name == instead_of), None)
        return [Copy(map_of(cluster, job, index), NodeId(node), ending)]

    return propose


@pytest.mark.parametrize(
    ("propose", "error"),
    [
        pytest.param(
            on("r7n7"),
            "copying/copies proposed a copy of j0.m0 on r7n7 at 1.000 s, but there is no such node",
            id="no node",
        ),
        pytest.param(on("r0n0"), "but j0.m0.0 runs there", id="beside its attempt"),
        pytest.param(
            on("r0n2", "j2"), "but j2.m was submitted without copies: StageView", id="no copies"
        ),
        pytest.param(on("r0n2", "j3"), "but j3.m0 is pending, not running", id="not running"),
        pytest.param(on("r0n3"), r"but r0n3 is lost \(no heartbeat\)", id="a lost node"),
        pytest.param(
            on("r0n1"), r"but r0n1 has no free slot \(1 of 1: j1.m0.0\)", id="no free slot"
        ),
        pytest.param(
            on("r0n2", instead_of="j1.m0.0"),
            "but not instead of j1.m0.0: it is on another node, and of another task",
            id="a slot elsewhere",
        ),
        pytest.param(
            on("r0n1", instead_of="j0.m0.0"), "r0n1 has no free slot", id="a move to a full node"
        ),
        pytest.param(lambda cluster: ["please"], "but need a Copy", id="no proposal"),
        pytest.param(lambda cluster: None, "'NoneType' object is not iterable", id="nothing"),
        pytest.param(
            lambda cluster: (1 / 0 for _ in "x"),
            "failed at 1.000 s, called with nothing: ZeroDivisionError",
            id="a bug in a generator",
        ),
    ],
)
def test_an_impossible_proposal_is_refused(propose: Propose, error: str):
    c = tiny_cluster(nodes=4, slots=1, scheduler=proposing(at(1.0, propose)))
    c.lose("r0n3")
    for job in ("j0", "j1", "j2"):
        c.submit(job, maps=1, map_s=9, may_copy=job != "j2")
    c.submit("j3", maps=1)
    c.at(1.0, lambda: c.submit("j4", maps=1))
    with pytest.raises(InvalidDecision, match=error):
        c.run()


def test_a_copy_is_not_copied_nor_is_a_task_that_is_done():
    """Each error has what led there."""

    def of_a_copy(cluster: ClusterView) -> Iterable[Proposal]:
        task = map_of(cluster, "j0")
        yield Copy(task, NodeId("r0n4"))
        yield Copy(task.live[-1], NodeId("r0n5"))  # type: ignore[arg-type]

    def of_what_is_done(cluster: ClusterView) -> Iterable[Proposal]:
        yield Copy(map_of(cluster, "j0", 1), NodeId("r0n5"))

    for propose, error, led_there in (
        (
            of_a_copy,
            "proposed a copy of j0.m0.1 on r0n5 at 2.000 s, but that is an attempt: "
            "a copy is of a task, here j0.m0",
            "LaunchAttempt attempt=j0.m0.1",
        ),
        (
            of_what_is_done,
            "proposed a copy of j0.m1 on r0n5 at 2.000 s, but j0.m1 is done, not running",
            "1.000  AttemptSucceeded attempt=j0.m1.0",
        ),
    ):
        c = tiny_cluster(nodes=6, slots=1, scheduler=proposing(at(2.0, propose)))
        durations_s = iter([9.0, 1.0])
        c.stretch = lambda rest=durations_s: next(rest, 1.0)
        c.submit("j0", maps=2)
        c.at(2.0, lambda c=c: c.submit("j1", maps=1))
        with pytest.raises(InvalidDecision) as refused:
            c.run()
        first, *events = str(refused.value).split("\n")
        assert first == f"copying/copies {error}"
        assert any(led_there in line for line in events), events


def test_what_is_promised_twice_is_refused():
    def twice(cluster: ClusterView) -> Iterable[Proposal]:
        yield from in_place_of(cluster)
        yield Copy(map_of(cluster, "j0"), NodeId("r0n1"))

    c = tiny_cluster(nodes=2, slots=1, scheduler=proposing(at(1.0, twice)), kill_s=1.0)
    c.submit("j0", maps=1, map_s=9)
    c.submit("j1", maps=1, map_s=9)
    c.at(1.0, lambda: c.submit("j2", maps=1))
    with pytest.raises(InvalidDecision, match="but it gets a copy there already"):
        c.run()


def test_an_attempt_is_asked_to_end_once():
    def twice(cluster: ClusterView) -> Iterable[Proposal]:
        (ending,) = map_of(cluster, "j1").live
        for job in ("j0", "j2"):
            yield Copy(map_of(cluster, job), NodeId("r0n1"), ending)

    c = tiny_cluster(nodes=3, slots=1, scheduler=proposing(at(1.0, twice)), kill_s=1.0)
    for job in ("j0", "j1", "j2"):
        c.submit(job, maps=1, map_s=9)
    c.at(1.0, lambda: c.submit("j3", maps=1))
    with pytest.raises(InvalidDecision, match=r"instead of j1\.m0\.0: it was asked to end already"):
        c.run()


def test_a_kind_of_proposal_belongs_to_a_role():
    class Tasks(ClosestTasks):
        def propose(self) -> Iterable[Proposal]:
            return on("r0n1")(self.cluster) if self.cluster.now_s else ()

    recipe = Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)
    c = tiny_cluster(scheduler=recipe)
    c.submit("j0", maps=1)
    with pytest.raises(InvalidDecision, match=r"mine/tasks proposed a Copy .* the copies policy's"):
        c.run()


def test_a_part_of_a_policy_proposes_in_its_owners_role():
    class Owner(CopyPolicy):
        def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
            super().__init__(config, cluster)
            self.parts = (CopyEach(config, cluster),)

    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(Owner))
    c.submit("j0", maps=1)
    c.run()
    assert c.core.records[JobId("j0")].copies == 1


def test_a_quiet_policy_is_asked_only_once_it_was_notified_of_something():
    asked_s: list[float] = []

    class Copies(CopyPolicy):
        quiet = True

        def job_ended(self, job: JobView) -> None:
            self.quiet = False

        def propose(self) -> Iterable[Proposal]:
            self.quiet = True
            asked_s.append(self.cluster.now_s)
            return ()

    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(Copies))
    c.submit("j0", maps=1, map_s=1)
    c.submit("j1", maps=2, map_s=3)
    c.run()
    assert asked_s == [1.0, 4.0]


def test_rounds_of_proposals_come_to_an_end():
    def endless(cluster: ClusterView) -> Iterable[Proposal]:
        node = next(iter(cluster.free_nodes()))
        return [Copy(map_of(cluster, "j0"), node.id)]

    c = tiny_cluster(
        nodes=ROUNDS_MAX + 2, slots=1, scheduler=proposing(at(1.0, endless)), kill_s=1.0
    )
    c.submit("j0", maps=1, map_s=9)
    c.at(1.0, lambda: c.submit("j1", maps=1))
    with pytest.raises(InvalidDecision, match=f"in each of {ROUNDS_MAX} rounds at 1.000 s"):
        c.run()


def test_whoever_does_not_propose_is_not_asked():
    c = tiny_cluster(scheduler="fair")
    assert c.core.state.policies.hooks["propose"] == ()


# Pass everywhere ---------------------------------------------------------------------------------
@pytest.mark.parametrize(("everywhere", "offers"), [(False, 7), (True, 1)])
def test_an_answer_to_every_slot_is_asked_for_once(everywhere: bool, offers: int):
    asked = []

    class Tasks(TaskPolicy):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            asked.append((now_s, job.id, slot.id))
            return Pass("not now", everywhere=everywhere)

    recipe = Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)
    c = tiny_cluster(nodes=7, slots=1, scheduler=recipe)
    c.submit("j0", maps=1)
    c.run()
    assert len(asked) == offers


def test_an_answer_to_every_slot_holds_until_a_task_is_placed():
    asked = []

    class Tasks(ClosestTasks):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            asked.append((job.id, slot.id))
            if job.id == "j0" and self.cluster.free > 2:
                return Pass("while there are others", everywhere=True)
            return super().offer(job, slot, now_s)

        def reconsider(self) -> Iterable[JobView]:
            return self.cluster.jobs.values() if self.cluster.now_s == 1.0 else ()

    recipe = Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)
    c = tiny_cluster(nodes=4, slots=1, scheduler=recipe)
    c.submit("j0", maps=1)
    assert asked == [("j0", "r0n0")]
    c.at(1.0, lambda: c.submit("j1", maps=2, map_s=5))
    run = c.run(until_s=1.0)
    assert run.nodes_of("j0") == ["r0n2"]  # once j1 has two
    assert run.nodes_of("j1") == ["r0n0", "r0n1"]
