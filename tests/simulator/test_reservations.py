"""Reservations in virtual time: data travels before its task has a slot; faults; replay; trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from railyard.benchmarks._faults import toys
from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages.execution import (
    AttemptReady,
    AttemptSucceeded,
    BeginAttempt,
    LaunchAttempt,
)
from railyard.cluster.messaging.wire import Event
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.resourcemanager.driving.eventlog import EventLog, Step, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Proposal, Reserve
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, SlotView
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faults import NodeDown
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.silence.daemons import Fault
from tests.resourcemanager.toys import ReservesReduces, reserving
from tests.workloads import MB, job_of, topology, workload

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
    monkeypatch.setattr("railyard.resourcemanager.driving.makecore.recipe_named", lambda _: recipe)
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
    events, fault = Events(), NodeDown(at_s=at_s, node=NodeId(node), lasts_s=5.0)
    run = simulation(reserving(Far), faults=(fault,), log=events)
    run.run(lambda run: run.core.check_invariants())
    assert [record.ok for record in run.core.records.values()] == [True, True]
    assert run.core.records[JobId("j2")].finished_s == pytest.approx(ends_s)


def test_reservations_by_dice_among_faults_replay(tmp_path: Path, monkeypatch):
    path, seen, outcomes = tmp_path / "events.jsonl", Counter[str](), Counter[str]()
    jobs = tuple(job(f"j{n}", "r0n1", shuffle_bytes=50 * MB) for n in range(4))
    fault = NodeDown(at_s=2.0, node=NodeId("r0n1"), lasts_s=3.0)
    behaviour = Behaviour(variance=0.3, progress_s=1.0, launch_s=0.2)
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.makecore.recipe_named", lambda _: toys.RECIPE
    )
    for seed in range(6):
        log = EventLog(path, ClusterConfig(topology=PLACE, seed=seed))
        common = {"seed": seed, "log": log, "behaviour": behaviour}
        simulation(toys.RECIPE, *jobs, faults=(fault,), **common).run()
        log.close()
        steps = list(replay(path))
        assert len(steps) == path.read_text().count("\n") - 1
        rows = chrome_trace(steps)["traceEvents"]
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
