"""Reservations: what a task reads gets to a node before the task has a slot there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, NodeId
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptSucceeded,
    BeginAttempt,
    FlowFailed,
    KillAttempt,
    LaunchAttempt,
)
from railyard.resourcemanager.interface.decisions import (
    Decision,
    InvalidDecision,
    Pass,
    Place,
    Proposal,
    Reserve,
    Take,
    Withdraw,
)
from railyard.resourcemanager.interface.defaults import ClosestTasks, SlowStart
from railyard.resourcemanager.interface.events import StagePlan, TimerFired
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.toys import ReservesReduces, copying, reserving

Propose = Callable[[ClusterView], Iterable[Proposal]]


def policy_of(c: TinyCluster) -> ReservesReduces:
    tasks = c.core.state.policies.tasks
    assert isinstance(tasks, ReservesReduces)
    return tasks


def proposing(propose: Propose) -> Recipe:
    """Tasks as ever, and these proposals."""

    class Tasks(ClosestTasks):
        def propose(self) -> Iterable[Proposal]:
            return propose(self.cluster)

    return reserving(Tasks)


def sent(c: TinyCluster, *kinds: type) -> list[tuple[float, str, str]]:
    """(Time, kind, attempt) of these commands so far."""
    return [
        (at_s, type(command).__name__, command.attempt)
        for at_s, command in c.commands
        if isinstance(command, kinds)
    ]


def busy_second_node(until_s: float, scheduler: Recipe, **more: float) -> TinyCluster:
    """Two nodes of a slot; j9 holds that of r0n1 until then."""
    c = tiny_cluster(nodes=2, slots=1, scheduler=scheduler, **more)
    c.lose("r0n0")
    c.submit("j9", maps=1, map_s=until_s)
    c.join("r0n0")
    return c


# The ordinary way ----------------------------------------------------------------------------
def test_a_reduce_fetches_before_it_has_a_slot_and_only_computes_in_it():
    c = busy_second_node(6.0, reserving(ReservesReduces), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    run = c.run()
    # Its data travels from 1 to 4 s; with the slot at 6 s it computes at once, and not from 9 s on.
    assert run.placements[1:] == [("j0.m0", "r0n0", 0.0), ("j0.r0", "r0n1", 6.0)]
    assert run.ended_s["j0"] == 8.0
    assert sent(c, LaunchAttempt, BeginAttempt)[1:] == [
        (0.0, "LaunchAttempt", "j0.m0.0"),
        (0.0, "LaunchAttempt", "j0.r0.0"),
        (6.0, "BeginAttempt", "j0.r0.0"),
    ]
    assert [order.begins for order in c.launched()] == [True, True, False]
    assert policy_of(c).heard[2:] == [
        (1.0, "ended", "j0.m0.0"),
        (1.0, "fetch started", "j0.r0.0 from r0n0: 10"),
        (4.0, "fetch ended", "j0.r0.0 from r0n0: 10"),
        (4.0, "ready", "j0.r0.0"),
        (6.0, "ended", "j9.m0.0"),
        (6.0, "launched", "j0.r0.0"),
        (8.0, "ended", "j0.r0.0"),
    ]


def test_waiting_for_a_slot_is_no_time_in_one():
    c = busy_second_node(6.0, reserving(ReservesReduces), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.run()
    record = c.core.records[JobId("j0")]
    assert (record.slot_s, record.reduce_s) == (1 + 2, 2)
    assert (record.launched, record.succeeded, record.killed, record.copies) == (2, 2, 0, 0)


def test_a_task_that_gets_its_slot_before_its_data_computes_when_that_has_come():
    class AtOnce(ReservesReduces):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            for attempt in slot.reserved.values():
                if attempt.task.stage.job is job and attempt.task.stage.open:
                    return Place(attempt.task)
            task, _ = job.closest_pending_map(slot)
            return Place(task) if task else Pass("nothing")

    c = busy_second_node(2.0, reserving(AtOnce), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    run = c.run()
    assert run.placements[-1] == ("j0.r0", "r0n1", 2.0)
    assert run.ended_s["j0"] == 6.0  # fetched from 1 to 4 s
    assert "ready" not in {hook for _, hook, _ in policy_of(c).heard}


def test_a_map_reads_its_block_ahead():
    def ahead(cluster: ClusterView) -> Iterable[Proposal]:
        for job in cluster.jobs.values():
            task = job.stages["m"].tasks[0]
            if job.id == "j0" and task.state == "pending" and task.reserved is None:
                yield Reserve(task, NodeId("r0n1"))

    c = tiny_cluster(nodes=2, slots=1, scheduler=proposing(ahead))
    c.store("in", blocks=[["r0n1"]])
    c.submit("j9", maps=1, map_s=9)
    c.submit("j8", maps=1, map_s=2)
    c.submit("j0", input="in", map_s=1)
    c.run(until_s=1.0)
    [task] = c.core.state.jobs[JobId("j0")].stages["m"].tasks
    assert (task.state, task.reserved.ready) == ("pending", True)
    assert c.explain(task.id, 1.0).endswith("; reserved on r0n1, with all that it reads")
    run = c.run()
    assert c.launched()[-1].task.splits  # its order says what to read
    assert run.placements[-1] == ("j0.m0", "r0n1", 2.0)
    assert c.core.records[JobId("j0")].locality.local == 1


def test_a_free_slot_of_its_node_is_offered_again_when_a_reservation_is_ready():
    c = tiny_cluster(nodes=2, slots=2, scheduler=reserving(ReservesReduces), flow_s=1.5)
    c.submit("j0", maps=2, reduces=2, map_s=1, reduce_s=1)
    assert c.run().launches("j0.r") == [("j0.r0", 2.5), ("j0.r1", 2.5)]


def test_a_free_slot_of_its_node_is_offered_again_when_a_reservation_is_made():
    class Later(ReservesReduces):
        """Reserves a second after the map has ended, and runs nothing elsewhere."""

        def wake_s(self) -> float | None:
            return 2.0 if self.cluster.now_s < 2.0 else None

        def likes(self, job: JobView, node: SlotView) -> bool:
            return self.cluster.now_s >= 2.0

        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            if slot.reserved:
                return Place(next(iter(slot.reserved.values())).task)
            return super().offer(job, slot, now_s)

    c = tiny_cluster(nodes=2, slots=1, scheduler=reserving(Later), flow_s=1.5)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=1)
    assert c.run().placements[-1] == ("j0.r0", "r0n1", 2.0)


def test_reservations_fetch_once_the_shuffle_policy_lets_their_stage():
    class AfterAllMaps(SlowStart):
        def may_fetch(self, stage: StageView) -> bool:
            return all(source.complete for source in stage.reads)

    recipe = replace(reserving(ReservesReduces), shuffle=AfterAllMaps)
    c = busy_second_node(9.0, recipe, flow_s=1.0)
    c.submit("j0", maps=2, reduces=1, map_s=1, reduce_s=2)  # one after the other
    c.run()
    assert [(at_s, flow.reader, len(flow.outputs)) for at_s, flow in c.flows()] == [
        (2.0, "j0.r0.0", 2)
    ]


# Ends --------------------------------------------------------------------------------------------
def reserve_once(at_s: float = 0.0, node: str = "r0n1") -> Propose:
    """A reservation for j0's reduce, made at one time only."""

    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        job = cluster.jobs.get(JobId("j0"))
        if job is not None and cluster.now_s == at_s:
            [task] = job.stages["r"].tasks
            if task.state == "pending" and task.reserved is None:
                yield Reserve(task, NodeId(node))

    return propose


def test_a_task_placed_on_another_node_gives_its_reservation_up():
    c = busy_second_node(9.0, proposing(reserve_once()), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    run = c.run()
    assert run.placements[-1] == ("j0.r0", "r0n0", 1.0)  # as soon as that is free
    assert run.ended_s["j0"] == 1 + 3 + 2
    assert sent(c, KillAttempt)[0] == (1.0, "KillAttempt", "j0.r0.0")
    assert [flow.reader for _, flow in c.flows()] == ["j0.r0.0", "j0.r0.1"]
    assert c.core.records[JobId("j0")].killed == 0  # it never had a slot


def test_a_reservation_is_withdrawn_and_may_be_made_elsewhere():
    def moving(cluster: ClusterView) -> Iterable[Proposal]:
        job = cluster.jobs.get(JobId("j0"))
        if job is None:
            return
        [task] = job.stages["r"].tasks
        if cluster.now_s == 0.0 and task.reserved is None:
            yield Reserve(task, NodeId("r0n1"))
        elif cluster.now_s == 2.0 and task.reserved and task.reserved.node.id == "r0n1":
            yield Withdraw(task.reserved, "by a test")
            yield Reserve(task, NodeId("r0n2"))

    class Tasks(ReservesReduces):
        def propose(self) -> Iterable[Proposal]:
            return moving(self.cluster)

    c = tiny_cluster(nodes=3, slots=1, scheduler=reserving(Tasks), flow_s=3.0, kill_s=1.0)
    c.submit("j9", maps=2, map_s=7)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(2.0, lambda: c.set_slots("r0n0", 1))  # an event of that time
    c.at(2.0, lambda: c.set_slots("r0n0", 0))
    run = c.run()
    assert (2.0, "reservation ended", "j0.r0.0") in policy_of(c).heard
    assert (5.0, "ready", "j0.r0.1") in policy_of(c).heard
    assert run.placements[-1] == ("j0.r0", "r0n2", 5.0)
    assert run.ended["j0"] == ""


def test_a_node_is_lost_with_its_reservations_and_the_task_goes_elsewhere():
    class Tasks(ReservesReduces):
        def likes(self, job: JobView, node: SlotView) -> bool:
            return super().likes(job, node) and self.cluster.now_s < 2.0

        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            task = job.next_pending_reduce()
            if task is not None and task.reserved is None and now_s >= 2.0:
                return Place(task)
            return super().offer(job, slot, now_s)

    c = busy_second_node(9.0, reserving(Tasks), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(2.0, lambda: c.lose("r0n1"))
    run = c.run(until_s=20.0)
    assert (2.0, "reservation ended", "j0.r0.0") in policy_of(c).heard
    assert run.placements[-2:] == [("j0.r0", "r0n0", 2.0), ("j9.m0", "r0n0", 7.0)]
    assert run.ended_s["j0"] == 7.0


def test_the_output_of_a_source_that_is_lost_is_made_again_for_the_reservation():
    c = tiny_cluster(nodes=3, slots=1, scheduler=reserving(ReservesReduces), flow_s=3.0)
    c.submit("j9", maps=1, map_s=0.5)
    c.submit("j8", maps=1, map_s=15)  # on r0n1
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(2.0, lambda: c.lose("r0n2"))  # in the middle of the fetch
    run = c.run()
    assert run.launches("j0.m0") == [("j0.m0", 0.0), ("j0.m0", 2.0)]
    assert (6.0, "ready", "j0.r0.0") in policy_of(c).heard
    assert run.placements[-1] == ("j0.r0", "r0n1", 15.0)


def test_a_fetch_that_breaks_off_is_tried_again():
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=1.0)
    broken = iter([True, True])
    c.flow_failure = lambda flow: (
        FlowFailed(flow=flow.flow, reason="broke off") if next(broken, False) else None
    )
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    assert c.run().ended_s["j0"] == 11.0
    assert (4.0, "ready", "j0.r0.0") in policy_of(c).heard


def test_a_reservation_that_fails_counts_as_a_failure_of_its_task():
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=1.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(3.0, lambda: c.feed(AttemptFailed(attempt=AttemptId("j0.r0.0"), reason="boom")))
    run = c.run()
    assert run.ended == {"j9": "", "j0": ""}
    record = c.core.records[JobId("j0")]
    assert [failure.reason for failure in record.failures] == ["boom"]
    assert sent(c, BeginAttempt) == [(9.0, "BeginAttempt", "j0.r0.1")]


def test_reservations_that_fail_too_often_end_their_job():
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=1.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2, max_attempts=2)
    for number in range(2):
        name = AttemptId(f"j0.r0.{number}")
        c.at(3.0 + number, lambda name=name: c.feed(AttemptFailed(attempt=name, reason="boom")))
    assert c.run().ended["j0"] == "task j0.r0 failed 2 of 2 attempts, the last on r0n1: boom"
    assert not c.core.state.reserved


def test_a_node_that_a_job_comes_to_avoid_has_nothing_reserved_for_it():
    class Tasks(ReservesReduces):
        nodes = ("r0n3", "r0n1", "r0n3")

    c = tiny_cluster(nodes=4, slots=1, scheduler=reserving(Tasks), flow_s=1.0)
    c.submit("j9", maps=4, map_s=20)
    c.submit("j0", maps=1, reduces=3, map_s=1, reduce_s=1, max_attempts=9)
    for number in range(3):
        name = AttemptId(f"j0.r0.{number}")
        c.at(1.0 + number, lambda name=name: c.feed(AttemptFailed(attempt=name, reason="boom")))
    c.run(until_s=5.0)
    job = c.core.state.jobs[JobId("j0")]
    assert list(job.avoid) == ["r0n3"]
    assert [task.reserved and task.reserved.node.id for task in job.stages["r"].tasks] == [
        None,
        "r0n1",
        None,
    ]


@pytest.mark.parametrize("at_s", [0.5, 2.0, 4.5])
def test_a_job_that_is_killed_ends_its_reservations(at_s: float):
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(at_s, lambda: c.kill("j0"))
    run = c.run()
    assert run.ended["j0"] == "killed by its user"
    assert not c.core.state.reserved
    assert not c.core.shuffle.fetches
    assert (at_s, "KillAttempt", "j0.r0.0") in sent(c, KillAttempt)


def test_a_stage_that_others_read_leaves_its_reservations_when_enough_is_done():
    class Tasks(ReservesReduces):
        nodes = ("r0n0", "r0n1")

    stages = (
        StagePlan(name="m", tasks=1),
        StagePlan(name="b", reads=("m",), tasks=2, needed=1),
        StagePlan(name="r", reads=("b",), tasks=1),
    )
    c = busy_second_node(9.0, reserving(Tasks))
    c.submit("j0", stages=stages, durations={"m": 1.0, "b": 2.0, "r": 1.0})
    run = c.run()
    assert (3.0, "KillAttempt", "j0.b1.0") in sent(c, KillAttempt)
    assert run.ended_s["j0"] == 4.0


def test_slots_of_its_node_that_change_leave_a_reservation_alone():
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=1.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.at(3.0, lambda: c.set_slots("r0n1", 0))
    c.at(12.0, lambda: c.set_slots("r0n1", 1))
    run = c.run()
    assert run.placements[-1] == ("j0.r0", "r0n1", 12.0)
    assert run.ended_s["j0"] == 14.0


def test_progress_before_the_slot_counts_from_then_on():
    c = busy_second_node(9.0, reserving(ReservesReduces), flow_s=1.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=4)
    progressed = AttemptProgressed(attempt=AttemptId("j0.r0.0"), progress=0.25)
    c.at(3.0, lambda: c.feed(progressed))
    c.run(until_s=8.0)
    stage = c.core.state.jobs[JobId("j0")].stages["r"]
    assert stage.progress == 0.0
    c.run(until_s=10.0)
    assert stage.progress == 0.25
    assert c.run().ended["j0"] == ""


# What can't be -----------------------------------------------------------------------------------
def twice(cluster: ClusterView) -> Iterable[Proposal]:
    [task] = cluster.jobs[JobId("j0")].stages["r"].tasks
    return [Reserve(task, NodeId("r0n1")), Reserve(task, NodeId("r0n0"))]


def of(stage: str, node: str) -> Propose:
    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        return [Reserve(cluster.jobs[JobId("j0")].stages[stage].tasks[0], NodeId(node))]

    return propose


def withdraw_running(cluster: ClusterView) -> Iterable[Proposal]:
    return [Withdraw(cluster.jobs[JobId("j0")].stages["m"].tasks[0].live[0])]


def take(cluster: ClusterView) -> Iterable[Proposal]:
    return [Take(cluster.jobs[JobId("j0")].stages["m"].tasks[0].live[0])]


@pytest.mark.parametrize(
    ("propose", "error"),
    [
        pytest.param(
            of("r", "r7n7"),
            "reserving/tasks proposed to reserve r7n7 for j0.r0 at 0.000 s, but there is no such",
            id="no node",
        ),
        pytest.param(of("r", "r0n2"), r"but r0n2 is lost \(no heartbeat\)", id="a lost node"),
        pytest.param(of("m", "r0n1"), "but j0.m0 is running, not pending", id="running"),
        pytest.param(twice, "it has a reservation on r0n1: withdraw that first", id="twice"),
        pytest.param(withdraw_running, "that is no reservation", id="no reservation"),
        pytest.param(take, "reserving/tasks proposed a Take .* copies policy's", id="role"),
    ],
)
def test_what_can_not_be_is_an_error_of_the_policy(propose: Propose, error: str):
    c = tiny_cluster(
        nodes=3,
        slots=1,
        scheduler=proposing(lambda cluster: propose(cluster) if cluster.jobs else ()),
    )
    c.lose("r0n2")
    with pytest.raises(InvalidDecision, match=error):
        c.submit("j0", maps=1, reduces=1)


def test_a_reservation_that_has_begun_cannot_be_withdrawn():
    class Tasks(ReservesReduces):
        def propose(self) -> Iterable[Proposal]:
            for job in self.cluster.jobs.values():
                for attempt in job.stages["r"].tasks[0].live if "r" in job.stages else ():
                    return [Withdraw(attempt)]
            return super().propose()

    c = busy_second_node(6.0, reserving(Tasks))
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    with pytest.raises(InvalidDecision) as raised:
        c.run()
    error, *_, led_there = str(raised.value).splitlines()
    right = "but that is no reservation"
    assert error == f"reserving/tasks proposed to withdraw j0.r0.0 at 6.000 s, {right}"
    assert led_there.startswith("    6.000  AttemptSucceeded attempt=j9.m0.0 ")
    assert led_there.endswith(" ->  BeginAttempt attempt=j0.r0.0 node=r0n1")


def test_a_copies_policy_reserves_nothing():
    class Copies(CopyPolicy):
        def propose(self) -> Iterable[Proposal]:
            return reserve_once()(self.cluster)

    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(Copies))
    with pytest.raises(InvalidDecision, match="that is the tasks policy's"):
        c.submit("j0", maps=1, reduces=1)


def test_nothing_succeeds_that_was_not_told_to_begin():
    c = busy_second_node(9.0, reserving(ReservesReduces))
    c.submit("j0", maps=1, reduces=1)
    c.run(until_s=2.0)
    with pytest.raises(PeerError, match=r"j0\.r0\.0 succeeded without an order to begin"):
        c.feed(AttemptSucceeded(attempt=AttemptId("j0.r0.0")))


def test_late_news_of_a_reservation_that_is_gone_does_not_matter():
    c = busy_second_node(9.0, proposing(reserve_once()), flow_s=3.0)
    c.submit("j0", maps=1, reduces=1, map_s=1, reduce_s=2)
    c.run(until_s=2.0)
    for late in (AttemptReady, AttemptKilled):
        c.feed(late(attempt=AttemptId("j0.r0.0")))
    c.feed(AttemptReady(attempt=AttemptId("j0.r0.1")))  # it has a slot
    assert c.run().ended == {"j9": "", "j0": ""}


# Who does not ask for it -------------------------------------------------------------------------
def test_who_has_no_hook_for_fetches_is_not_called():
    c = tiny_cluster(nodes=2, slots=1)
    policies = c.core.state.policies
    assert not policies.hooks["fetch_started"]
    assert not policies.hooks["fetch_ended"]
    recipe = Recipe(name="x", source="a test", order=FairOrder, tasks=ReservesReduces)
    assert tiny_cluster(scheduler=recipe).core.state.policies.hooks["fetch_ended"]


# Reservations at any moment, among anything that can happen: the core's laws hold, jobs end.


NODES = ("r0n0", "r0n1", "r1n0", "r1n1")
STAGES = (
    StagePlan(name="a", tasks=3),
    StagePlan(name="b", reads=("a",), tasks=3, needed=2),
    StagePlan(name="c", reads=("a", "b"), tasks=3),
)
LASTS_S = {"a": 2.0, "b": 1.5, "c": 1.0}
HEALED_S = 30.0  #: from then on nothing goes wrong


class Obedient(ClosestTasks):
    """Reserves and withdraws what a test wants; keeps to its reservations until all is healed."""

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self.wanted: list[tuple[int, str]] = []  #: (number of a task, node; "" = withdraw)

    def propose(self) -> Iterable[Proposal]:
        wanted, self.wanted = self.wanted, []
        for number, name in wanted:
            tasks = [
                t for j in self.cluster.jobs.values() for s in j.stages.values() for t in s.tasks
            ]
            if not tasks:
                return
            task = tasks[number % len(tasks)]
            if not name and task.reserved is not None:
                yield Withdraw(task.reserved)
            elif name and _may(task, self.cluster.nodes[NodeId(name)]):
                yield Reserve(task, NodeId(name))

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        here = [attempt.task for attempt in slot.reserved.values()]
        here = [task for task in here if task.stage.job is job and task.stage.open]
        if here:
            return Place(here[0])
        answer = super().offer(job, slot, now_s)
        strays = isinstance(answer, Place) and answer.task.reserved is not None
        return Pass("it is reserved elsewhere") if strays and now_s < HEALED_S else answer


def _may(task: TaskView, node: SlotView) -> bool:
    avoided = node.id in task.stage.job.avoid
    usable = node.alive and not node.draining and not avoided
    return task.state == "pending" and task.reserved is None and usable


def want(c: TinyCluster, number: int, node: str) -> None:
    policy = c.core.state.policies.tasks
    assert isinstance(policy, Obedient)
    policy.wanted.append((number, node))
    c.feed(TimerFired(timer="nothing"))


def lose(c: TinyCluster, node: str) -> None:
    if c.core.state.nodes[NodeId(node)].alive:
        c.lose(node)


def set_slots(c: TinyCluster, node: str, slots: int) -> None:
    known = c.core.state.nodes[NodeId(node)]
    if known.alive and not known.draining:
        c.set_slots(node, slots)


def drain(c: TinyCluster, node: str, *, kill: bool) -> None:
    if c.core.state.nodes[NodeId(node)].alive:
        c.drain(node, kill=kill)


def activate(c: TinyCluster, node: str) -> None:
    if c.core.state.nodes[NodeId(node)].draining:
        c.activate(node)


def restart(c: TinyCluster, node: str, *, finds: bool) -> None:
    if c.core.state.nodes[NodeId(node)].alive:
        c.restart(node, () if finds else c.outputs_on(node))


def fail(c: TinyCluster, number: int) -> None:
    reserved = list(c.core.state.reserved)
    if reserved:
        c.feed(AttemptFailed(attempt=reserved[number % len(reserved)], reason="boom"))


def kill(c: TinyCluster) -> None:
    job = c.core.state.jobs.get(JobId("j1"))
    if job is not None and job.state == "running":
        c.kill("j1")


times = st.floats(0, HEALED_S, allow_nan=False)
numbers, nodes = st.integers(0, 20), st.sampled_from(NODES)
ACTIONS = st.one_of(
    st.tuples(st.just(want), numbers, nodes),
    st.tuples(st.just(want), numbers, nodes),
    st.tuples(st.just(want), numbers, st.just("")),
    st.tuples(st.just(lose), nodes),
    st.tuples(st.just(TinyCluster.join), nodes),
    st.tuples(st.just(set_slots), nodes, st.integers(0, 2)),
    st.tuples(st.just(partial(drain, kill=True)), nodes),
    st.tuples(st.just(partial(drain, kill=False)), nodes),
    st.tuples(st.just(activate), nodes),
    st.tuples(st.just(partial(restart, finds=True)), nodes),
    st.tuples(st.just(partial(restart, finds=False)), nodes),
    st.tuples(st.just(fail), numbers),
    st.tuples(st.just(kill)),
)


@settings(max_examples=150, deadline=None)
@given(
    actions=st.lists(st.tuples(times, ACTIONS), max_size=25),
    flow_s=st.sampled_from([0.0, 0.5, 4.0]),
    broken=st.sets(st.integers(0, 12)),
)
def test_whatever_happens_to_reservations_jobs_end_and_nothing_is_left(actions, flow_s, broken):
    c = tiny_cluster(racks=2, nodes=2, slots=1, scheduler=reserving(Obedient), flow_s=flow_s)
    flows = iter(range(10**6))
    c.flow_failure = lambda flow: (
        FlowFailed(flow=flow.flow, reason="broke off") if next(flows) in broken else None
    )
    for at_s, (action, *about) in actions:
        c.at(at_s, lambda action=action, about=about: action(c, *about))
    for node in NODES:
        c.at(HEALED_S, lambda node=node: activate(c, node))
        c.at(HEALED_S, lambda node=node: c.join(node))
    for number in range(2):
        common = {"stages": STAGES, "durations": LASTS_S, "max_attempts": 1000}
        c.at(number * 3.0, lambda job=f"j{number}", common=common: c.submit(job, **common))
    run = c.run()  # the laws are checked after each event
    assert run.unfinished == []
    assert run.ended["j0"] == ""
    state = c.core.state
    assert not state.reserved
    assert not state.attempts
    assert not c.core.shuffle.fetches
    assert not any(node.reserved for node in state.nodes.values())
    assert_each_begins_once(c)
    for record in c.core.records.values():
        assert record.launched == record.succeeded + record.failed + record.killed


def assert_each_begins_once(c: TinyCluster) -> None:
    """An attempt without a slot is given one at most once, on its node, and not once it is gone."""
    waiting: dict[str, str] = {}
    for _, command in c.commands:
        if isinstance(command, LaunchAttempt) and not command.begins:
            waiting[command.attempt] = command.node
        elif isinstance(command, BeginAttempt):
            assert waiting.pop(command.attempt) == command.node
        elif isinstance(command, KillAttempt):
            waiting.pop(command.attempt, None)
