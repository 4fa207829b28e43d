"""Policies propose, the core disposes: wrong answers never change the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import JobId, NodeId, RackId
from railyard.cluster.messages import NodeJoined
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.core import History
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.decisions import (
    Decision,
    InvalidDecision,
    Pass,
    Place,
    Wait,
)
from railyard.resourcemanager.interface.defaults import SlowStart
from railyard.resourcemanager.interface.policies import TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, SlotView
from railyard.resourcemanager.schedulers.delay import DelayTasks
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import tiny_cluster

Offer = Callable[[JobView, SlotView, float], Decision]


def recipe(offer: Offer) -> Recipe:
    class Tasks(TaskPolicy):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            return offer(job, slot, now_s)

    return Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)


def first_map(job: JobView):
    return job.stages["m"].tasks[0]


@pytest.mark.parametrize(
    ("offer", "error"),
    [
        pytest.param(
            lambda job, slot, now_s: Place(first_map(job)),
            "mine/tasks placed j0.m0 on r0n1 at 0.000 s, but j0.m0 is running, not pending",
            id="a task that runs already",
        ),
        pytest.param(
            lambda job, slot, now_s: Place(first_map(job), node=NodeId("r7n7")),
            "placed j0.m0 on r7n7 at 0.000 s, but there is no such node",
            id="a node that is not there",
        ),
        pytest.param(
            lambda job, slot, now_s: Place(
                job.stages["m"].tasks[job.stages["m"].running], node=NodeId("r0n0")
            ),
            "placed j0.m1 on r0n0 at 0.000 s, but r0n0 has no free slot (1 of 1: j0.m0.0)",
            id="a node without a free slot",
        ),
        pytest.param(
            lambda job, slot, now_s: Place(job.stages["r"].tasks[0]),
            "but its stage r may not have slots yet",
            id="a reduce before the slow start",
        ),
        pytest.param(
            lambda job, slot, now_s: Wait("just because", until_s=now_s),
            "mine/tasks let j0 wait until 0.000 s at 0.000 s, but that is not in the future",
            id="a wait until now",
        ),
        pytest.param(
            lambda job, slot, now_s: Wait("just because", until_s=math.nan),
            "mine/tasks let j0 wait until nan s at 0.000 s, but that is not in the future",
            id="a wait until no time",
        ),
        pytest.param(
            lambda job, slot, now_s: None,
            "mine/tasks answered None at 0.000 s, but need Place, Wait or Pass",
            id="no answer",
        ),
        pytest.param(
            lambda job, slot, now_s: Place(job.stages["x"].tasks[0]),
            "mine/tasks failed at 0.000 s, offering r0n0 to j0: KeyError: 'x'",
            id="an exception",
        ),
    ],
)
def test_invalid_decisions_name_the_policy_and_what_is_wrong(offer: Offer, error: str):
    c = tiny_cluster(nodes=2, scheduler=recipe(offer))
    with pytest.raises(InvalidDecision) as caught:
        c.submit("j0", maps=3, reduces=1)
    assert error in str(caught.value)


def test_an_invalid_decision_shows_what_led_there():
    seen: list[float] = []

    def offer(job: JobView, slot: SlotView, now_s: float) -> Decision:
        seen.append(now_s)
        node = NodeId("r0n0")
        return Place(job.stages["m"].tasks[len(seen) - 1], node=node)

    c = tiny_cluster(nodes=2, scheduler=recipe(offer))
    with pytest.raises(InvalidDecision) as caught:
        c.submit("j0", maps=3)
    lines = str(caught.value).splitlines()
    assert "r0n0 has no free slot" in lines[0]
    assert lines[1].startswith("    0.000  NodeJoined node=r0n0 rack=r0")
    assert "LaunchAttempt attempt=j0.m0.0 node=r0n0" in lines[-1]


def test_a_policy_may_place_a_task_elsewhere_than_offered():
    def offer(job: JobView, slot: SlotView, now_s: float) -> Decision:
        task, _ = job.closest_pending_map(slot)
        return Place(task, node=NodeId("r0n1")) if task else Pass("nothing to run")

    c = tiny_cluster(nodes=2, slots=1, scheduler=recipe(offer))
    c.submit("j0", maps=1)
    assert c.run().placements == [("j0.m0", "r0n1", 0.0)]


def test_an_answer_stands_until_something_changes():
    asked: list[tuple[str, str, float]] = []

    def offer(job: JobView, slot: SlotView, now_s: float) -> Decision:
        asked.append((job.id, slot.id, now_s))
        task, _ = job.closest_pending_map(slot)
        if job.id == "j0":
            return Wait("for later", until_s=7.0) if now_s < 7 else Place(task)
        return Place(task) if task else Pass("nothing to run")

    c = tiny_cluster(nodes=3, slots=1, scheduler=recipe(offer))
    c.submit("j0", maps=1)
    c.submit("j1", maps=1, map_s=2)
    c.run()
    # Once for each slot; again for the slot that j1's map freed; again when the wait is over.
    assert [(slot, when) for job, slot, when in asked if job == "j0"] == [
        ("r0n0", 0.0),
        ("r0n1", 0.0),
        ("r0n2", 0.0),
        ("r0n0", 2.0),
        ("r0n1", 7.0),
    ]


def test_a_wait_for_a_level_stands_for_all_slots_as_near():
    asked: list[tuple[str, float]] = []

    def offer(job: JobView, slot: SlotView, now_s: float) -> Decision:
        asked.append((slot.id, now_s))
        task, level = job.closest_pending_map(slot)
        assert task is not None
        if level == "node-local" or now_s >= 3:
            return Place(task)
        return Wait(f"only {level}", until_s=3.0, level=level)

    c = tiny_cluster(racks=3, nodes=3, slots=1, scheduler=recipe(offer))
    c.store("in", blocks=[["r0n0"], ["r2n2"], ["r0n0"]])
    c.submit("j0", input="in")
    # Both node-local slots; of the others once each distance, and again once a slot was taken.
    assert asked == [(node, 0) for node in ("r0n0", "r1n0", "r2n0", "r2n2", "r1n0", "r0n1")]
    assert c.why_waiting("j0.m2") == "only remote"  # the last slot of the round


def test_the_last_of_jobs_that_ask_at_once_refuses_by_its_own_input():
    asked: list[tuple[str, str]] = []

    class Tasks(TaskPolicy):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            if now_s < 1:
                return Pass("too early")
            asked.append((job.id, slot.id))
            task, level = job.closest_pending_map(slot)
            assert task is not None
            if job.id == "j0" or level == "node-local":
                return Place(task)
            return Wait(f"only {level}", until_s=9.0, level=level)

        def reconsider(self) -> Iterable[JobView]:
            return self.cluster.jobs.values() if self.cluster.now_s == 1 and not asked else ()

        def wake_s(self) -> float | None:
            return 1.0 if self.cluster.now_s < 1 else None

    mine = Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)
    c = tiny_cluster(racks=3, nodes=3, slots=1, scheduler=mine)
    c.store("in", blocks=[["r2n2"]])
    c.submit("j0", maps=1)
    c.submit("j1", input="in")
    c.run(until_s=1.0)
    # j0 has what it wants; j1 is asked once for each distance, and where its input is.
    assert asked == [("j0", "r0n0"), ("j1", "r1n0"), ("j1", "r2n0"), ("j1", "r2n2")]


@given(data=st.data())
def test_waits_for_levels_place_as_those_for_single_slots(data: st.DataObject):
    class Asked(DelayTasks):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            answer = super().offer(job, slot, now_s)
            if isinstance(answer, Wait):
                return Wait(answer.reason, answer.until_s)
            return answer

    nodes = [f"r{rack}n{node}" for rack in range(3) for node in range(3)]
    replicas = st.lists(st.sampled_from(nodes), max_size=2, unique=True)
    files = data.draw(st.lists(st.lists(replicas, min_size=1, max_size=8), max_size=4))
    runs = []
    for tasks in (DelayTasks, Asked):
        mine = Recipe(name="mine", source="a test", order=FairOrder, tasks=tasks)
        c = tiny_cluster(racks=3, nodes=3, slots=1, scheduler=mine)
        for number, blocks in enumerate(files):
            c.store(f"in{number}", blocks=blocks)
            c.at(1.5 * number, partial(c.submit, f"j{number}", input=f"in{number}", reduces=1))
        c.run()
        runs.append((c.events, c.commands))
    assert runs[0] == runs[1]


def test_a_wait_that_is_over_is_not_put_off_by_an_offer_at_the_same_moment():
    def offer(job: JobView, slot: SlotView, now_s: float) -> Decision:
        task, _ = job.closest_pending_map(slot)
        if job.id == "j0" and slot.id == "r0n1":
            return Wait("not here", until_s=now_s + 50)
        if job.id == "j0" and now_s < 5:
            return Wait("for later", until_s=5.0)
        return Place(task) if task else Pass("nothing to run")

    c = tiny_cluster(nodes=2, slots=1, scheduler=recipe(offer))
    c.at(5.0, lambda: c.join("r0n1"))  # before the timer of the same moment
    c.submit("j0", maps=1)
    assert c.run().placements == [("j0.m0", "r0n0", 5.0)]


def test_a_policy_is_notified_of_what_happens():
    heard: list[str] = []

    class Tasks(TaskPolicy):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            task, _ = job.closest_pending_map(slot)
            return Place(task) if task else Pass("nothing to run")

        def job_submitted(self, job):
            heard.append(f"{job.id} submitted")

        def attempt_launched(self, attempt):
            heard.append(f"{attempt.id} launched")

        def attempt_ended(self, attempt):
            heard.append(f"{attempt.id} ended")

        def task_done(self, task):
            heard.append(f"{task.id} done")

        def job_ended(self, job):
            heard.append(f"{job.id} {job.state}")

        def node_lost(self, node):
            heard.append(f"{node.id} lost")

    c = tiny_cluster(
        nodes=2, scheduler=Recipe(name="mine", source="a test", order=FairOrder, tasks=Tasks)
    )
    c.submit("j0", maps=1)
    c.run()
    c.lose("r0n0")
    assert heard == [
        "j0 submitted",
        "j0.m0.0 launched",
        "j0.m0.0 ended",
        "j0.m0 done",
        "j0 succeeded",
        "r0n0 lost",
    ]


def test_a_policy_that_breaks_when_notified_is_named():
    class Forgetful(FairOrder):
        def job_wants(self, job):
            self._nothing[job.id] = job

    c = tiny_cluster(scheduler=Recipe(name="mine", source="a test", order=Forgetful))
    with pytest.raises(InvalidDecision, match=r"mine/Forgetful\.job_wants failed at 0.000 s, c"):
        c.submit("j0")


def breaking(question: str, answer: object) -> Recipe:
    """A scheduler whose shuffle policy answers one question so once there is a job."""

    def method(policy: SlowStart, *about: object) -> object:
        if not policy.cluster.jobs:
            return getattr(super(type(policy), policy), question)(*about)
        if isinstance(answer, Exception):
            raise answer
        return answer

    method.__name__ = question
    broken = type("Broken", (SlowStart,), {question: method})
    return Recipe(name="mine", source="a test", order=FairOrder, shuffle=broken)


@pytest.mark.parametrize(
    ("question", "answer", "error"),
    [
        ("limit", KeyError("j0"), "limit failed at 0.000 s, called with j0.r: KeyError: 'j0'"),
        ("limit", None, "limit answered None at 0.000 s, but need a number"),
        ("may_fetch", KeyError("j0"), "may_fetch failed at 1.000 s, called with j0.r: KeyError"),
        ("reconsider", KeyError("x"), "reconsider failed at 0.000 s, called with nothing: KeyErr"),
        ("wake_s", KeyError("j0"), "wake_s failed at 0.000 s, called with nothing: KeyError"),
    ],
)
def test_a_policy_that_breaks_is_named_with_the_events_that_led_there(
    question: str, answer: object, error: str
):
    c = tiny_cluster(nodes=1, slots=2, scheduler=breaking(question, answer))
    c.at(0.0, partial(c.submit, "j0", maps=2, reduces=1))
    with pytest.raises(InvalidDecision) as caught:
        c.run()
    first, *events = str(caught.value).splitlines()
    assert first.startswith(f"mine/Broken.{error}")
    assert "JobSubmitted job=j0" in "".join(events)
    assert len(events) <= 8


def test_a_broken_invariant_shows_the_events_that_touched_what_it_is_about():
    c = tiny_cluster(nodes=2, scheduler="fair")
    c.submit("j0", maps=1)
    c.submit("j1", maps=1)
    c.core.state.jobs[JobId("j1")].held += 1
    with pytest.raises(InvariantError, match="j1 holds 2 slots, its stages 1") as caught:
        check_core(c.core)
    (event,) = str(caught.value).splitlines()[1:]
    assert "JobSubmitted job=j1" in event
    assert "LaunchAttempt attempt=j1.m0.0" in event


def test_history_tells_names_apart_that_begin_alike():
    history = History()
    for node in ("r0n1", "r0n10"):
        history.add((0.0, NodeJoined(node=NodeId(node), rack=RackId("r0"), slots=1), []))
    assert [line.split()[2] for line in history.about(["r0n1"])] == ["node=r0n1"]
    assert len(history.about([])) == 2


class Alarm(TaskPolicy):
    """Starts nothing before 3 s, although it answered nobody with ``Wait``."""

    at_s = 3.0

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        return Place(first_map(job)) if now_s >= 3 else Pass("too early")

    def reconsider(self):
        return self.cluster.jobs.values() if self.cluster.now_s == 3 else ()

    def wake_s(self) -> float | None:
        return self.at_s if self.cluster.now_s < 3 else None


def test_a_policy_can_be_woken_to_think_again():
    c = tiny_cluster(scheduler=Recipe(name="mine", source="a test", order=FairOrder, tasks=Alarm))
    c.submit("j0")
    assert c.run(until_s=2.9).placements == []
    assert c.run().placements == [("j0.m0", "r0n0", 3.0)]


def test_a_policy_cannot_be_woken_in_the_past():
    class Late(Alarm):
        at_s = 0.0

    with pytest.raises(InvalidDecision, match=r"mine/wake_s wanted to be woken at 0.000 s at 0.00"):
        tiny_cluster(scheduler=Recipe(name="mine", source="a test", order=FairOrder, tasks=Late))


def test_a_wait_for_ever_sets_no_timer():
    c = tiny_cluster(scheduler=recipe(lambda job, slot, now_s: Wait("for ever", until_s=math.inf)))
    c.submit("j0", maps=1)
    c.run()
    assert c.why_waiting("j0.m0") == "for ever"
    assert not any(isinstance(order, SetTimer) for _, order in c.commands)
