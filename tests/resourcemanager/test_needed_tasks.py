"""A stage that needs any K of its M tasks."""

from __future__ import annotations

import random

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import FlowFailed, StartFlow
from railyard.resourcemanager.core.state.jobs import Stage
from railyard.resourcemanager.interface.events import StagePlan
from tests.harness import TinyCluster, tiny_cluster


def stages(tasks: int, needed: int, reduces: int = 1) -> list[StagePlan]:
    maps = StagePlan(name="m", tasks=tasks, needed=needed)
    return [maps, StagePlan(name="r", reads=("m",), tasks=reduces)]


def slow_last(c: TinyCluster) -> None:
    """Each attempt takes a second longer than the one before."""
    numbers = iter(range(1, 1000))
    c.stretch = lambda: next(numbers)


def stage(c: TinyCluster, name: str = "m") -> Stage:
    return c.core.state.jobs[JobId("j0")].stages[name]


def test_what_still_runs_is_killed_once_enough_tasks_are_done():
    c = tiny_cluster(nodes=4, slots=1, options={"shuffle.slowstart": 1.0})
    slow_last(c)
    c.submit("j0", stages=stages(4, needed=2))
    c.run(until_s=2.1)
    assert [task.state for task in stage(c).tasks] == ["done", "done", "left", "left"]
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.succeeded, record.killed) == (5, 3, 2)


def test_pending_tasks_are_left_and_readers_fetch_what_is_needed():
    c = tiny_cluster(nodes=2, slots=1, kill_s=0.25, options={"shuffle.slowstart": 1.0})
    c.submit("j0", stages=stages(9, needed=3, reduces=2), durations={"m": 1.0, "r": 1.0})
    c.run(until_s=1.5)
    assert (stage(c).done, stage(c).running, stage(c).pending.count) == (2, 2, 5)
    assert not stage(c).complete
    c.run(until_s=2.1)
    assert (stage(c).done, stage(c).left, stage(c).pending.count) == (3, 6, 0)
    assert stage(c).complete
    assert [task.state for task in stage(c).tasks] == ["done"] * 3 + ["left"] * 6
    assert stage(c, "r").inputs == 3
    run = c.run()
    assert run.ended == {"j0": ""}
    readers = [launch for launch in c.launched() if launch.task.stage == "r"]
    assert [launch.task.inputs for launch in readers] == [3, 3]
    assert c.core.records[JobId("j0")].shuffled_bytes == 2 * 3 * 10


def test_all_readers_read_the_same_outputs_even_if_one_is_lost():
    """Its task is done again, although others of the stage would be done before."""
    c = tiny_cluster(nodes=5, slots=1, options={"shuffle.slowstart": 1.0})
    slow_last(c)
    c.submit("j0", stages=stages(4, needed=2, reduces=1))
    c.at(1.5, lambda: c.lose("r0n0"))  # the first is done, and needed by all readers
    c.run(until_s=2.5)
    assert [task.state for task in stage(c).tasks] == ["running", "done", "left", "left"]
    run = c.run()
    assert run.ended == {"j0": ""}
    fetched = {output for _, flow in c.flows() for output in flow.outputs}
    assert {name.split(".")[1] for name in fetched} == {"m0", "m1"}


@pytest.mark.parametrize("seed", range(30))
def test_the_same_outputs_for_all_whatever_fails(seed: int):
    dice = random.Random(seed)
    c = tiny_cluster(racks=2, nodes=3, slots=2, flow_s=0.3, kill_s=dice.choice([0.0, 0.4]))
    c.stretch = lambda: dice.uniform(0.5, 3.0)
    c.failure = lambda attempt, node: "boom" if c.now_s < 20 and dice.random() < 0.2 else None

    def flow_failure(flow: StartFlow) -> FlowFailed | None:
        lost = flow.outputs[: dice.randint(0, 1)]
        failed = FlowFailed(flow=flow.flow, reason="broke off", lost=lost)
        return failed if c.now_s < 20 and dice.random() < 0.2 else None

    c.flow_failure = flow_failure
    plan = [
        StagePlan(name="a", tasks=6, needed=dice.randint(1, 6)),
        StagePlan(name="b", reads=("a",), tasks=5, needed=dice.randint(1, 5)),
        StagePlan(name="c", reads=("b",), tasks=4),
    ]
    c.submit("j0", stages=plan, durations=dict.fromkeys("abc", 1.0), max_attempts=1000)
    for node in ("r0n0", "r1n1"):
        lost_s = dice.uniform(0, 10)
        c.at(lost_s, lambda node=node: c.lose(node))
        c.at(lost_s + dice.uniform(0, 5), lambda node=node: c.join(node))
    assert c.run(until_s=2000.0).ended == {"j0": ""}
    for name, (plan_of, reader) in {"a": plan[:2], "b": plan[1:]}.items():
        read: dict[str, set[str]] = {}
        for _, flow in c.flows():
            if flow.reader.split(".")[1][0] == reader.name:
                read.setdefault(flow.reader, set()).update(o.split(".")[1] for o in flow.outputs)
        assert len(set.union(*read.values())) <= plan_of.needed, name


def test_no_more_can_be_needed_than_there_are():
    c = tiny_cluster()
    with pytest.raises(UsageError, match=r'j0: stage "m": needed = 3: need at most its 2 tasks'):
        c.submit("j0", stages=stages(2, needed=3))


def test_a_last_stage_needs_all_of_its_tasks():
    c = tiny_cluster()
    plan = [StagePlan(name="m", tasks=1), StagePlan(name="r", reads=("m",), tasks=3, needed=2)]
    with pytest.raises(UsageError, match=r'stage "r": needed = 2: need all of its 3 tasks, since'):
        c.submit("j0", stages=plan)
    plan[1] = StagePlan(name="r", reads=("m",), tasks=3, needed=3)
    c.submit("j0", stages=plan)
    assert c.run().ended == {"j0": ""}
