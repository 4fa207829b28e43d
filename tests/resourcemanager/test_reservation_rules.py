"""Reservations at any moment, among anything that can happen: the core's laws hold, jobs end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages.execution import (
    AttemptFailed,
    BeginAttempt,
    FlowFailed,
    KillAttempt,
    LaunchAttempt,
)
from railyard.resourcemanager.interface.decisions import (
    Decision,
    Pass,
    Place,
    Proposal,
    Reserve,
    Withdraw,
)
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.events import StagePlan, TimerFired
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView, TaskView
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.toys import reserving

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
    assert not c.core.fetches
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
