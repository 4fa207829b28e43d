"""For how long simulated attempts read and compute, as they report it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.faults import Fault
from railyard.cluster.ids import AttemptId, JobId, NodeId
from railyard.cluster.messages import (
    AttemptReady,
    AttemptSucceeded,
    BeginAttempt,
    LaunchAttempt,
    StartFlow,
    TaskSpec,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape
from railyard.dfs.messages import BlockLocation, FileBlocks
from railyard.dfs.peers import Services
from railyard.dfs.reader import DfsFile
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage
from railyard.netemu.messages import RegisterCoflow
from railyard.nodemanager.attempt.umbilical import paced_s
from railyard.oracles.faults import toys
from railyard.oracles.invariants import check_core
from railyard.oracles.orders import carry_out
from railyard.resourcemanager.driving.eventlog import EventLog, Step, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Proposal, Reserve
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, SlotView
from railyard.simulator.behaviour import Behaviour, StageWork
from railyard.simulator.blockstore import BlockStore
from railyard.simulator.clock import EventHeap
from railyard.simulator.simulation import Simulation
from tests.resourcemanager.toys import ReservesReduces, reserving
from tests.workloads import MB, job_of, topology, workload


class AttemptTimes:
    """A log that keeps the events."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Event]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.seen.append((at_s, event))

    def times(self) -> dict[str, tuple[float, float]]:
        """{attempt: (read_s, computed_s)}"""
        return {
            event.attempt: (event.read_s, event.computed_s)
            for _, event in self.seen
            if isinstance(event, AttemptSucceeded)
        }


def times(
    blocks: Sequence[str], reduces: int = 0, shuffle: int = 0, **settings: object
) -> dict[str, tuple[float, float]]:
    """A job with a map for each block of 100 MB, on r0n0 and r1n0.

    One slot each, NICs and links of 100 MB/s, tasks of 50 MB/s.
    """
    file = InputFile(
        path="/in",
        size_bytes=len(blocks) * 100 * MB,
        block_bytes=100 * MB,
        nodes=tuple((node,) for node in blocks),
    )
    stages = [WorkStage(name="m", files=("/in",), tasks=len(blocks), output_bytes=shuffle)]
    if reduces:
        stages.append(WorkStage(name="r", reads=("m",), tasks=reduces, output_bytes=0))
    options = {name: value for name, value in settings.items() if "." in name}
    behaviour = {name: value for name, value in settings.items() if "." not in name}
    config = ClusterConfig(topology=topology(racks=2, nodes=1), scheduler_options=options)
    log = AttemptTimes()
    jobs = workload(job_of(*stages, files=(file,)))
    run = Simulation(config, jobs, Behaviour(**behaviour), log=log)
    run.run()
    ((_, record),) = run.core.records.items()
    assert record.ok, record.reason
    return log.times()


def test_a_map_reads_for_as_long_as_its_block_takes_over_the_network():
    found = times(["r0n0", "r0n0"])
    assert found == {
        "j1.m0.0": (0.0, pytest.approx(2.0)),
        "j1.m1.0": (pytest.approx(1.0), pytest.approx(2.0)),
    }


def test_a_slow_attempt_computes_for_longer():
    found = times(["r0n0"], stragglers=1.0, straggler_factor=3.0)
    assert found == {"j1.m0.0": (0.0, pytest.approx(6.0))}


def test_a_reduce_fetches_then_computes():
    """200 MB of map output; half of it is on each node, and half of that goes to each reduce."""
    found = times(["r0n0", "r1n0"], reduces=2, shuffle=200 * MB)
    assert found["j1.r0.0"] == (pytest.approx(0.5), pytest.approx(2.0))
    assert found["j1.r1.0"] == (pytest.approx(0.5), pytest.approx(2.0))


def test_waiting_for_maps_is_not_reading():
    """One reduce holds a slot from the first map's end on, while two more maps go by."""
    found = times(["r0n0"] * 4, reduces=1, shuffle=400 * MB)
    read_s, computed_s = found["j1.r0.0"]
    assert computed_s == pytest.approx(8.0)
    # r1n0 gets it: three maps' output of 100 MB each comes at 100 MB/s, once each is done
    assert read_s == pytest.approx(3.0)


# What a simulation must do exactly as the real processes do.


def computing(**compute: object) -> Topology:
    return Topology(
        name="t",
        racks=RackShape(count=4, nodes=3),
        links=Links(nic=1e9, uplink=1e9),
        compute=Compute(map_rate=2e6, reduce_rate=5e6, **compute),
    )


@pytest.mark.parametrize("reads", [(), ("m",)], ids=["map", "reduce"])
@pytest.mark.parametrize("compute", [{}, {"skew": 0.25}, {"skew": 0.9}, {"mode": "real"}])
def test_a_task_computes_for_the_same_time(compute: dict[str, object], reads: tuple[str, ...]):
    place = computing(**compute)
    work = StageWork(
        WorkStage(name="s", reads=reads, tasks=40, output_bytes=0), None, (), place.compute
    )
    for task in range(40):
        order = TaskSpec(stage="s", index=task, reads=reads)
        in_processes_s = paced_s(place, order, stored_bytes=3_000_000)
        assert work.computing_s(task, 3_000_000) == pytest.approx(in_processes_s)


def test_a_straggler_is_one_on_both_clocks():
    place = computing(stragglers=0.3, straggler_factor=4.0)
    work = StageWork(WorkStage(name="m", tasks=40, output_bytes=0), None, (), place.compute)
    factors = set()
    for task in range(40):
        attempt = AttemptId(f"j1.m{task}.0")
        straggle = place.compute.straggle(attempt, 7)
        order = TaskSpec(stage="m", index=task)
        in_processes_s = paced_s(place, order, 3_000_000, straggle)
        simulated_s = work.computing_s(task, 3_000_000) * work.straggle(attempt, 7)
        assert simulated_s == pytest.approx(in_processes_s)
        factors.add(simulated_s / 1.5)
    assert factors == {1.0, 4.0}


class Asked(Exception):
    """The node that a reader asks first."""


class Peers:
    def of(self, node: str) -> None:
        raise Asked(node)

    def is_lost(self, node: str) -> bool:
        return False


def asked_first(reader: str, replicas: tuple[str, ...]) -> str:
    without = dict.fromkeys(("transport", "topology", "namenode", "network"))
    services = Services(peers=Peers(), node=reader, held_bytes=0, read_bytes={}, **without)
    block = BlockLocation(block=1, stored_offset=0, stored_length=9, nodes=replicas)
    file = DfsFile(services, FileBlocks(path="/f", stored_length=9, blocks=(block,)))
    with pytest.raises(Asked) as asked:
        file.read(0, 9)
    return str(asked.value)


def test_a_reader_takes_the_same_replica_whichever_block_it_is():
    place = computing()
    store = BlockStore(place, 1, EventHeap(), SimpleNamespace())
    nodes = [node.id for node in place.nodes()]
    dice = random.Random(1)
    blocks = [tuple(dice.sample(nodes, 3)) for _ in range(40)]
    for block, replicas in zip(store.put("/f", [9] * 40, at=blocks), blocks, strict=True):
        shuffled = tuple(dice.sample(replicas, 3))
        for reader in nodes:
            if reader in replicas:
                assert store.nearest(block, reader) == reader
            else:
                assert store.nearest(block, reader) == asked_first(reader, shuffled)


def test_a_fetch_keeps_the_priority_that_the_core_gave_it():
    config = ClusterConfig(topology=computing(), flow_scheduler="afap")
    run = Simulation(config, Workload(name="none", jobs=()), log=Events())
    fetches = [  # by name the first would go first
        StartFlow(
            flow=flow,
            coflow="c",
            src="r0n0",
            dst="r1n0",
            size_bytes=10**9,
            reader="j1.r0.0",
            outputs=("j1.m0.0",),
            partition=0,
            priority=priority,
        )
        for flow, priority in [("a", (2.0,)), ("b", (1.0,))]
    ]
    carry_out(run.network.fabric, RegisterCoflow(coflow="c"))
    for fetch in fetches:
        run.workers.start_flow(fetch)
    rates = [run.network.fabric.rate_bytes_per_s(flow) for flow in "ab"]
    assert rates == [0, 1e9]


# Reservations in virtual time: data travels before its task has a slot; faults; replay; trace.


PLACE = topology(racks=2, nodes=2)


def job(name: str, node: str, task_s: float = 0.0, shuffle_bytes: int = 0) -> WorkloadJob:
    """A map of a block on ``node``, 2 s and ``task_s``, and a reduce if anything is shuffled."""
    file = InputFile(
        path=f"/in/{name}", size_bytes=100 * MB, block_bytes=100 * MB, nodes=((node,),)
    )
    stages = [
        WorkStage(name="m", files=(file.path,), tasks=1, output_bytes=shuffle_bytes, task_s=task_s)
    ]
    if shuffle_bytes:
        stages.append(WorkStage(name="r", reads=("m",), tasks=1, output_bytes=0))
    return job_of(*stages, name=name, files=(file,))


#: r1n0 is busy for 10 s; 300 MB go there from r0n0, once the map there has ended after 2 s.
JOBS = (job("long", "r1n0", task_s=8.0), job("shuffling", "r0n0", shuffle_bytes=300 * MB))


class Far(ReservesReduces):
    """Runs maps beside their blocks, and the reduce on r1n0 once its data is there."""

    nodes = ("r1n0",)

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        answer = super().offer(job, slot, now_s)
        if isinstance(answer, Place) and not answer.task.stage.reads:
            return answer if slot.id in answer.task.input.nodes else Pass("not beside its block")
        return answer


class FarAtOnce(Far):
    """Runs the reduce there as soon as it may have a slot."""

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        for attempt in slot.reserved.values():
            if attempt.task.stage.job is job and attempt.task.stage.open:
                return Place(attempt.task)
        return super().offer(job, slot, now_s)


class Events:
    def __init__(self) -> None:
        self.rows: list[tuple[float, Event]] = []
        self.begun: list[tuple[float, str]] = []

    def write(self, at_s, event, commands=()) -> None:
        self.rows.append((at_s, event))
        self.begun += [(at_s, c.attempt) for c in commands if isinstance(c, BeginAttempt)]

    def of(self, kind: type) -> list[tuple[float, str]]:
        return [(at_s, event.attempt) for at_s, event in self.rows if isinstance(event, kind)]

    def success(self, attempt: str) -> AttemptSucceeded:
        succeeded = [event for _, event in self.rows if isinstance(event, AttemptSucceeded)]
        return next(event for event in succeeded if event.attempt == attempt)


def simulation(recipe: Recipe, *jobs: WorkloadJob, faults: tuple[Fault, ...] = (), **settings):
    config = ClusterConfig(topology=PLACE, seed=settings.pop("seed", 1))
    return Simulation(config, workload(*(jobs or JOBS)), faults=faults, recipe=recipe, **settings)


def test_data_that_was_sent_ahead_is_computed_on_as_soon_as_there_is_a_slot():
    events = Events()
    run = simulation(reserving(Far), log=events)
    run.run()
    assert events.of(AttemptReady) == [(pytest.approx(5.0), "j2.r0.0")]  # 3 s for 300 MB
    assert events.begun == [(pytest.approx(10.0), "j2.r0.0")]
    assert run.core.records[JobId("j2")].finished_s == pytest.approx(10 + 6)
    success = events.success("j2.r0.0")
    assert (success.read_s, success.computed_s) == pytest.approx((3.0, 6.0))


def test_waiting_for_a_slot_is_no_slot_time_and_apart_in_the_trace(tmp_path: Path, monkeypatch):
    recipe, path = reserving(Far), tmp_path / "events.jsonl"
    log = EventLog(path, ClusterConfig(topology=PLACE, seed=1))
    run = simulation(recipe, log=log)
    run.run()
    log.close()
    record = run.core.records[JobId("j2")]
    assert (record.slot_s, record.reduce_s) == pytest.approx((2 + 6, 6))
    assert run.summary()["slot_utilization"] == pytest.approx((10 + 2 + 6) / (4 * 16))
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.coredriver.recipe_named", lambda _: recipe
    )
    rows = chrome_trace(replay(path))["traceEvents"]
    shown = {
        row["args"]["attempt"]: (row["ts"], row["dur"])
        for row in rows
        if row.get("cat") == "attempt"
    }
    assert shown["j2.r0.0"] == pytest.approx((10e6, 6e6))
    waits = {row["ph"]: row for row in rows if row.get("cat") == "reservation"}
    assert {ph: row["ts"] for ph, row in waits.items()} == pytest.approx(
        {"b": 0.0, "n": 5e6, "e": 10e6}
    )
    assert waits["b"]["args"] == {"outcome": "got a slot"}
    [node] = [
        row["args"]["name"]
        for row in rows
        if row["name"] == "process_name" and row["pid"] == waits["b"]["pid"]
    ]
    assert node == "r1n0"


def test_a_slot_that_comes_before_the_data_is_held_until_that_is_there():
    jobs = (job("short", "r1n0", task_s=1.0), JOBS[1])  # r1n0 is free after 3 s
    events = Events()
    run = simulation(reserving(FarAtOnce), *jobs, log=events)
    run.run()
    assert events.begun == [(pytest.approx(3.0), "j2.r0.0")]
    assert events.of(AttemptReady) == []
    assert run.core.records[JobId("j2")].finished_s == pytest.approx(5 + 6)
    assert run.core.records[JobId("j2")].slot_s == pytest.approx(2 + 8)


class MapsAhead(Far):
    """Runs the second job's map on r1n0, once it has come there."""

    def propose(self) -> Iterable[Proposal]:
        job = self.cluster.jobs.get(JobId("j2"))
        task = job.stages["m"].tasks[0] if job else None
        if task is not None and task.state == "pending" and task.reserved is None:
            yield Reserve(task, NodeId("r1n0"))

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        if job.id != "j2":
            return super().offer(job, slot, now_s)
        ready = [attempt for attempt in slot.reserved.values() if attempt.ready]
        return Place(ready[0].task) if ready else Pass("not where its block comes to")


def test_a_map_reads_its_block_before_it_has_a_slot():
    events = Events()
    run = simulation(reserving(MapsAhead), JOBS[0], job("second", "r0n0"), log=events)
    run.run()
    assert events.of(AttemptReady) == [(pytest.approx(1.0), "j2.m0.0")]
    assert run.core.records[JobId("j2")].finished_s == pytest.approx(10 + 2)
    assert run.core.records[JobId("j2")].locality.remote == 1


@pytest.mark.parametrize(
    ("at_s", "node", "ends_s"),
    [
        pytest.param(1.0, "r1n0", 6 + 10 + 6, id="its node, before anything travels"),
        pytest.param(3.0, "r1n0", 8 + 10 + 6, id="its node, while it fetches"),
        pytest.param(7.0, "r1n0", 12 + 10 + 6, id="its node, when it is ready"),
        pytest.param(4.0, "r0n0", 9 + 2 + 3 + 6, id="the source, while it fetches"),
        pytest.param(7.0, "r0n0", 10 + 6, id="the source, when all is there"),
    ],
)
def test_nodes_are_lost_for_a_while(at_s: float, node: str, ends_s: float):
    """With r1n0, the long job begins anew, too; with r0n0, the map, and then the fetch."""
    events, fault = Events(), Fault(kind="node", at_s=at_s, target=NodeId(node), lasts_s=5.0)
    run = simulation(reserving(Far), faults=(fault,), log=events)
    run.run(lambda run: check_core(run.core))
    assert [record.ok for record in run.core.records.values()] == [True, True]
    assert run.core.records[JobId("j2")].finished_s == pytest.approx(ends_s)


def test_reservations_by_dice_among_faults_replay(tmp_path: Path, monkeypatch):
    path, seen, outcomes = tmp_path / "events.jsonl", Counter[str](), Counter[str]()
    jobs = tuple(job(f"j{n}", "r0n1", shuffle_bytes=50 * MB) for n in range(4))
    fault = Fault(kind="node", at_s=2.0, target=NodeId("r0n1"), lasts_s=3.0)
    behaviour = Behaviour(variance=0.3, progress_s=1.0, launch_s=0.2)
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.coredriver.recipe_named", lambda _: toys.RECIPE
    )
    for seed in range(6):
        log = EventLog(path, ClusterConfig(topology=PLACE, seed=seed))
        common = {"seed": seed, "log": log, "behaviour": behaviour}
        simulation(toys.RECIPE, *jobs, faults=(fault,), **common).run()
        log.close()
        steps = list(replay(path))
        assert len(steps) == path.read_text().count("\n") - 1
        rows = chrome_trace(replay(path))["traceEvents"]
        waits = Counter(row["ph"] for row in rows if row.get("cat") == "reservation")
        assert waits["b"] == waits["e"] == sum(map(reservations, steps))
        outcomes.update(
            row["args"]["outcome"]
            for row in rows
            if row["ph"] == "b" and row["cat"] == "reservation"
        )
        seen.update(command.tag() for step in steps for command in step.commands)
        seen.update(step.event.tag() for step in steps)
    assert seen["begin-attempt"] > 5
    assert seen["attempt-ready"] > 5
    assert {"got a slot", "given up", "lost with its node"} <= outcomes.keys()


def reservations(step: Step) -> int:
    """How many are made in a step."""
    return sum(isinstance(order, LaunchAttempt) and not order.begins for order in step.commands)
