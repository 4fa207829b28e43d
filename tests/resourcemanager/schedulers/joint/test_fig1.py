"""The example of the paper's Fig. 1: 7 on paper, 8 with shared links, 8 without overlap, 7 in turn.

The paper's task graph is lost; this one meets all four numbers and the text: a task a of 3 units,
then b of 4, c of 3 and d of 1, each of which a sends what takes one unit; three machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import NodeId
from railyard.cluster.topologies.tables import Links, RackShape, Storage, SwitchTree
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import Recurrence, Workload, WorkloadJob, WorkStage
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.policies import FlowPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView, JobView, SlotView
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.cluster import Simulation

TIMES = {"a": 3.0, "b": 4.0, "c": 3.0, "d": 1.0}
AFTER = "bcd"
#: tasks that are sent their data -> {task: when it has it, after a has ended}
Network = Callable[[Sequence[str]], Iterator[dict[str, float]]]


def static(remote: Sequence[str]) -> Iterator[dict[str, float]]:
    yield dict.fromkeys(remote, 1.0)


def shared(remote: Sequence[str]) -> Iterator[dict[str, float]]:
    yield dict.fromkeys(remote, float(len(remote)))


def alone(remote: Sequence[str]) -> Iterator[dict[str, float]]:
    if len(remote) < 2:
        yield dict.fromkeys(remote, 1.0)


def in_turn(remote: Sequence[str]) -> Iterator[dict[str, float]]:
    for order in itertools.permutations(remote):
        yield {task: place + 1.0 for place, task in enumerate(order)}


def best_of_all(network: Network) -> float:
    """The least completion time of all schedules: machines, and orders of tasks on each."""
    return min(
        completion(dict(zip(AFTER, machines, strict=True)), order, arrive)
        for machines in itertools.product(range(3), repeat=3)
        for order in itertools.permutations(AFTER)
        for arrive in network([t for t, m in zip(AFTER, machines, strict=True) if m])
    )


def completion(machine: dict[str, int], order: Sequence[str], arrive: dict[str, float]) -> float:
    free = {0: TIMES["a"], 1: 0.0, 2: 0.0}  # a runs on machine 0
    for task in order:
        begin = max(free[machine[task]], TIMES["a"] + arrive.get(task, 0.0))
        free[machine[task]] = begin + TIMES[task]
    return max(free.values())


@pytest.mark.parametrize(
    ("network", "least"), [(static, 7.0), (shared, 8.0), (alone, 8.0), (in_turn, 7.0)]
)
def test_the_best_of_all_schedules(network: Network, least: float):
    assert best_of_all(network) == least


# Through core and fabric -------------------------------------------------------------------------
MB = 10**6
THREE = Topology(
    name="three",
    racks=RackShape(count=1, nodes=3, slots=1),
    links=Links(nic=float("inf")),
    tree=SwitchTree(tor=100e6, aggregation=1e12, root=1e12, racks_per_aggregation=1),
    storage=Storage(block=100 * MB, replication=1),
)


class AsOnPaper(TaskPolicy):
    """The schedule that is best on paper: a and b on one machine, c and d each on its own."""

    where = {"a": "r0n0", "b": "r0n0", "c": "r0n1", "d": "r0n2"}

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        for stage in job.stages.values():
            if stage.pending.count and stage.open and self.where[stage.name] == slot.id:
                return Place(stage.tasks[0])
        return Pass("nothing is for this machine")


class CFirst(FlowPolicy):
    """The flow to c goes before that to d."""

    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        return (float(reader.task.stage.name == "d"),)


ON_PAPER = Recipe(name="paper", source="a test", order=FairOrder, tasks=AsOnPaper, flows=CFirst)


def completion_of(recipe: Recipe, flows: str) -> tuple[float, dict[str, NodeId]]:
    """When the job is done, and where its tasks ran."""
    stages = [WorkStage(name="a", tasks=1, output_bytes=100 * MB, task_s=3.0)]
    stages += [
        WorkStage(
            name=name,
            reads=("a",),
            tasks=1,
            output_bytes=0,
            task_s=TIMES[name],
            rate_bytes_per_s=float("inf"),
        )
        for name in AFTER
    ]
    job = WorkloadJob(
        name="fig1",
        user="u",
        queue="default",
        submit_s=0.0,
        stages=tuple(stages),
        recurrence=Recurrence(name="fig1"),
    )
    config = ClusterConfig(topology=THREE, flow_scheduler=flows, seed=1)
    run = Simulation(config, Workload(name="w", source="", jobs=(job,)), recipe=recipe)
    where: dict[str, NodeId] = {}

    def look(run: Simulation) -> None:
        for attempt in run.core.state.attempts.values():
            where[attempt.task.stage.name] = attempt.node.id

    run.run(look)
    [record] = run.core.records.values()
    assert record.ok
    assert record.finished_s is not None
    return record.finished_s, where


@pytest.mark.parametrize(("flows", "ends_s"), [("maxmin", 8.0), ("afap", 7.0)])
def test_the_schedule_on_paper_with_flows_that_share_and_in_turn(flows: str, ends_s: float):
    assert completion_of(ON_PAPER, flows)[0] == pytest.approx(ends_s)


def test_heft_finds_it_too_and_does_not_see_that_flows_share():
    ends_s, where = completion_of(recipe_named("heft"), "maxmin")
    assert ends_s == pytest.approx(8.0)
    assert where["a"] == where["b"]
    assert len({where[name] for name in "acd"}) == 3


def test_joint_finds_the_best_schedule():
    ends_s, where = completion_of(recipe_named("joint"), "afap")
    assert ends_s == pytest.approx(7.0)
    assert where["a"] == where["b"]
    assert len({where[name] for name in "acd"}) == 3


def test_without_virtual_flows_d_stays_with_a():
    """When a ends, the flow to c takes all bandwidth; d is put beside a, behind b."""
    ends_s, where = completion_of(recipe_named("joint:no-virtual"), "afap")
    assert ends_s == pytest.approx(8.0)
    assert where["d"] == where["a"]
