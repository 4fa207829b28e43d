"""Joint in the core: AEAP, queues, the dispatcher, priorities, jobs without forecasts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import NodeId, task_of
from railyard.cluster.messages import BeginAttempt, LaunchAttempt
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import Links, RackShape, Storage, SwitchTree
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Recurrence, Workload, WorkloadJob, WorkStage
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.interface.policies import FlowPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView, JobView, SlotView
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.joint.scheduler import Joint
from railyard.resourcemanager.schedulers.joint.switches import Promise, Switches
from railyard.simulator.simulation import Simulation
from tests.harness import TinyCluster, tiny_cluster

JOIN = (
    StagePlan(name="a", tasks=1),
    StagePlan(name="b", tasks=1),
    StagePlan(name="c", reads=("a", "b"), tasks=1),
)
TIMES = {"a": 1.0, "b": 5.0, "c": 2.0}
TABLE = {"a": (), "b": (), "c": ("a", "b")}


def predicted(times: dict[str, float], reads: dict[str, tuple[str, ...]]) -> Forecast:
    return Forecast(
        name="job",
        stages=tuple(
            StageForecast(
                name=name,
                reads=reads[name],
                tasks=1,
                input_bytes=0,
                output_bytes=10,
                task_s=task_s,
                rate_bytes_per_s=1e18,
            )
            for name, task_s in times.items()
        ),
    )


def policy(c: TinyCluster) -> Joint:
    found = c.core.state.policies.tasks
    assert isinstance(found, Joint)
    return found


def reserved(c: TinyCluster) -> list[tuple[float, str, str]]:
    return [
        (at_s, task_of(order.attempt), order.node)
        for at_s, order in c.commands
        if isinstance(order, LaunchAttempt) and not order.begins
    ]


# As early as possible (IV-C.2) -------------------------------------------------------------------
@pytest.mark.parametrize(("scheduler", "known_s"), [("joint", 1.0), ("joint:no-aeap", 5.0)])
def test_a_task_has_a_server_once_those_of_its_predecessors_are_known(scheduler, known_s):
    c = tiny_cluster(nodes=3, scheduler=scheduler, flow_s=0.5)
    forecast = predicted(TIMES, TABLE)
    c.submit("j0", stages=JOIN, durations=TIMES, forecast=forecast)
    run = c.run()
    [(at_s, task, server)] = reserved(c)
    assert (at_s, task) == (known_s, "j0.c0")
    assert run.placements[-1] == ("j0.c0", server, 5.5)  # the flow from b takes half a second
    flows = [(at_s, flow.src) for at_s, flow in c.flows()]
    assert flows == [(known_s, run.nodes_of("j0.a")[0]), (5.0, run.nodes_of("j0.b")[0])]
    assert run.ended_s == {"j0": 7.5}


def state_of(c: TinyCluster, task: Any) -> str:
    """Which of the five states of Fig. 5 a task is in."""
    begun = {"running": "in execution", "kept": "completed", "done": "completed"}
    entry = policy(c).servers.tasks.get(task.id)
    return begun.get(task.state) or (entry.state if entry else "unscheduled")


def test_the_states_of_a_task():
    c = tiny_cluster(nodes=3, scheduler="joint", flow_s=0.5)
    c.submit("j0", stages=JOIN, durations=TIMES, forecast=predicted(TIMES, TABLE))
    seen = []
    for at_s in (0.5, 1.5, 6.0):
        c.run(until_s=at_s)
        stages = c.core.state.jobs["j0"].stages
        seen.append([state_of(c, stages[name].tasks[0]) for name in "abc"])
    assert seen == [
        ["in execution", "in execution", "unscheduled"],
        ["completed", "in execution", "scheduled"],
        ["completed", "completed", "in execution"],
    ]


# Virtual flows (IV-C.1, IV-C.5) ------------------------------------------------------------------
CHAIN = (StagePlan(name="a", tasks=1), StagePlan(name="b", reads=("a",), tasks=2))
CHAIN_TIMES = {"a": 1.0, "b": 4.0}


def test_tasks_stay_beside_their_predecessor_until_bandwidth_is_free():
    c = tiny_cluster(racks=2, nodes=1, scheduler="joint", flow_s=0.5)

    def publish(free: float) -> None:
        names = ("r0.up", "r0.down", "r1.up", "r1.down")
        link = LinkState(capacity_bytes_per_s=1e9, free_bytes_per_s=free)
        c.feed(LinksObserved(links=dict.fromkeys(names, link)))

    publish(0.0)
    forecast = predicted(CHAIN_TIMES, {"a": (), "b": ("a",)})
    c.submit("j0", stages=CHAIN, durations=CHAIN_TIMES, forecast=forecast)
    c.run(until_s=2.0)
    tasks = c.core.state.jobs["j0"].stages["b"].tasks
    states = [state_of(c, task) for task in tasks]
    assert states == ["in execution", "pre-scheduled"]
    c.at(2.0, lambda: publish(1e9))
    c.run(until_s=2.0)
    assert state_of(c, tasks[1]) == "scheduled"
    run = c.run()
    assert run.placements[1:] == [("j0.b0", "r0n0", 1.0), ("j0.b1", "r1n0", 2.5)]
    figures = policy(c).figures()
    assert (figures["pre_scheduled"], figures["moved"]) == (2, 1)


# t_AVL -------------------------------------------------------------------------------------------
def test_short_reduces_of_long_maps_are_spread_and_leave_their_servers_to_maps_till_then():
    c = tiny_cluster(nodes=4, scheduler="joint")
    times = {"m": 10.0, "r": 1.0}
    forecast = predicted(times, {"m": (), "r": ("m",)})
    c.submit("j0", maps=2, reduces=4, map_s=10, reduce_s=1, forecast=forecast)
    c.at(2.0, lambda: c.submit("j1", maps=2, map_s=5, forecast=predicted({"m": 5.0}, {"m": ()})))
    begun = dict(c.run().launches("j"))
    assert [begun[f"j1.m{at}"] for at in range(2)] == [2.0, 2.0]
    assert {begun[f"j0.r{at}"] for at in range(4)} == {10.0}


# The dispatcher ----------------------------------------------------------------------------------
def test_a_cap_on_running_jobs_keeps_the_rest_in_the_queue():
    c = tiny_cluster(nodes=2, scheduler="joint", running_max=1)
    c.submit("j0", maps=1, map_s=3)
    c.submit("j1", maps=1, map_s=1)
    c.run(until_s=1.0)
    assert c.why_waiting("j1.m0").startswith("0 jobs ahead")
    assert c.run().launches("j") == [("j0.m0", 0.0), ("j1.m0", 3.0)]


def test_the_shorter_of_two_jobs_that_wait_for_a_server_is_next():
    c = tiny_cluster(nodes=1, scheduler="joint", wait_max_s=0.0)
    for name, map_s in (("j0", 3), ("j1", 5), ("j2", 2)):
        forecast = predicted({"m": float(map_s)}, {"m": ()})
        c.submit(name, maps=1, map_s=map_s, forecast=forecast)
    assert c.run().launches("j") == [("j0.m0", 0.0), ("j2.m0", 3.0), ("j1.m0", 5.0)]


# Flow list (IV-C) --------------------------------------------------------------------------------
def test_flows_go_by_their_job_s_start_then_by_the_path_that_is_left():
    stages = (
        StagePlan(name="a", tasks=1),
        StagePlan(name="b", reads=("a",), tasks=1),
        StagePlan(name="c", reads=("a",), tasks=1),
    )
    times = {"a": 1.0, "b": 2.0, "c": 7.0}
    c = tiny_cluster(nodes=6, scheduler="joint", flow_s=0.5)
    forecast = predicted(times, {"a": (), "b": ("a",), "c": ("a",)})
    c.submit("j0", stages=stages, durations=times, forecast=forecast)
    c.at(0.5, lambda: c.submit("j1", stages=stages, durations=times, forecast=forecast))
    c.run()
    asked = {task_of(flow.reader): flow.priority for _, flow in c.flows()}
    assert sorted(asked, key=lambda task: asked[task]) == ["j0.c0", "j0.b0", "j1.c0", "j1.b0"]
    assert asked["j0.c0"] == (0.0, pytest.approx(-7.0))
    assert asked["j1.b0"] == (0.5, pytest.approx(-2.0))


# What is predicted --------------------------------------------------------------------------------
def test_a_forecast_of_other_stages_is_left_aside_and_counted():
    c = tiny_cluster(nodes=2, scheduler="joint")
    c.submit("j0", stages=CHAIN, durations=CHAIN_TIMES, forecast=predicted(TIMES, TABLE))
    assert c.run().ended == {"j0": ""}
    assert policy(c).figures()["forecasts_not_fitting"] == 1


def test_tasks_and_edges_of_nothing():
    c = tiny_cluster(nodes=2, scheduler="joint")
    c.submit("j0", maps=3, reduces=3, map_s=0, reduce_s=0, partition_bytes=0)
    assert c.run().ended == {"j0": ""}


# A workload --------------------------------------------------------------------------------------
def test_no_task_moves_after_it_has_started_and_a_run_replays(tmp_path: Path):
    path, begun = tmp_path / "events.jsonl", Counter[str]()
    topology = load_topology("joint-16x6", (("racks.count", "4"),))
    config = ClusterConfig(topology=topology, scheduler="joint", flow_scheduler="afap", seed=1)
    log = EventLog(path, config)
    run = Simulation(config, workload("joint,jobs=2", 1), log=log)
    run.run()
    log.close()
    assert all(record.ok for record in run.core.records.values())
    steps = list(replay(path))
    for step in steps:
        for order in step.commands:
            if isinstance(order, BeginAttempt) or (
                isinstance(order, LaunchAttempt) and order.begins
            ):
                begun[task_of(order.attempt)] += 1
    assert set(begun.values()) == {1}
    joint = run.core.state.policies.tasks
    assert isinstance(joint, Joint)
    assert joint.figures()["pre_scheduled"] > 0
    left = joint
    assert (left.flows.real, left.flows.virtual, left.servers.tasks) == ({}, {}, {})


# Replicas (IV-C.4) -------------------------------------------------------------------------------
def publish(c: TinyCluster, **free: float) -> None:
    """The rates that racks' links have free, in bytes/s."""
    names = [f"r{rack}.{way}" for rack in range(3) for way in ("up", "down")]
    links = {
        name: LinkState(capacity_bytes_per_s=2e9, free_bytes_per_s=free[name[:2]]) for name in names
    }
    c.feed(LinksObserved(links=links))


def two_replicas(**free: float) -> TinyCluster:
    """The block of a map is on r0n0 and r1n0, which compute for 9 s, and r2n0 computes nothing."""
    c = tiny_cluster(racks=3, nodes=1, scheduler="joint")
    publish(c, **free)
    c.submit("j0", maps=2, map_s=9, forecast=predicted({"m": 9.0}, {"m": ()}))
    assert c.run(until_s=0.0).placements == [("j0.m0", "r0n0", 0.0), ("j0.m1", "r1n0", 0.0)]
    c.store("in", blocks={"b0": ["r0n0", "r1n0"]}, block_bytes=10**9)
    c.submit("j1", input="in", map_s=9, forecast=predicted({"m": 9.0}, {"m": ()}))
    return c


@pytest.fixture(name="promises")
def _promises(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """(rack, rack, bytes/s) of each flow that was promised its path."""
    made, promise = list[tuple[int, int, float]](), Switches.promise

    def noted(self: Switches, near: int, far: int) -> Promise:
        found = promise(self, near, far)
        made.append((near, far, found.bytes_per_s))
        return found

    monkeypatch.setattr(Switches, "promise", noted)
    return made


def test_the_replica_that_counts_is_the_one_that_is_promised_its_path(promises):
    c = two_replicas(r0=1e8, r1=1e9, r2=2e9)
    assert reserved(c) == [(0.0, "j1.m0", "r2n0")]
    assert promises == [(1, 2, 1e9)]  # from r1n0 it takes 1 s, from r0n0 10 s


def test_a_task_moves_as_bandwidth_is_free_from_a_replica_that_is_not_on_its_server(promises):
    c = two_replicas(r0=0.0, r1=0.0, r2=2e9)
    assert policy(c).figures()["pre_scheduled"] == 1  # on r0n0
    c.at(1.0, lambda: publish(c, r0=0.0, r1=1e9, r2=2e9))
    c.run(until_s=1.0)
    assert policy(c).figures()["moved"] == 1
    assert reserved(c) == [(1.0, "j1.m0", "r2n0")]
    assert promises == [(1, 2, 1e9)]


# The example of the paper's Fig. 1: 7 on paper, 8 with shared links, 8 without overlap, 7 in turn.
#
# The paper's task graph is lost; this one meets all four numbers and the text: a task a of 3 units,
# then b of 4, c of 3 and d of 1, each of which a sends what takes one unit; three machines.


FIG1_TIMES = {"a": 3.0, "b": 4.0, "c": 3.0, "d": 1.0}
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
    free = {0: FIG1_TIMES["a"], 1: 0.0, 2: 0.0}  # a runs on machine 0
    for task in order:
        begin = max(free[machine[task]], FIG1_TIMES["a"] + arrive.get(task, 0.0))
        free[machine[task]] = begin + FIG1_TIMES[task]
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
            task_s=FIG1_TIMES[name],
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
    run = Simulation(config, Workload(name="w", jobs=(job,)), recipe=recipe)
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
