"""What holds for one scheduler holds for all, whatever goes wrong: 2,000 schedules by seed.

Most are small, with daemons that die at any event; some are large
(``benchmarks._faults.schedules``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from railyard.benchmarks._faults import toys
from railyard.benchmarks._faults.laws import Laws
from railyard.benchmarks._faults.running import again, broken_law, named, schedule_of, schedulers
from railyard.benchmarks._faults.scenarios import Scenario
from railyard.benchmarks._faults.schedules import large_schedule, small_schedule
from railyard.cluster.errors import InvariantError
from railyard.cluster.messages.execution import (
    AttemptStarted,
    LaunchAttempt,
    NodeJoined,
    TaskSpec,
)
from railyard.jobs.workloads.model import WorkloadJob, WorkStage
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.observed import LinkState
from railyard.simulator.nodes.attempt import SimulatedAttempt

SCHEDULES = 2_000
BATCH = 100
SCHEDULERS = schedulers()


@pytest.mark.parametrize("first", range(0, SCHEDULES, BATCH))
def test_laws_hold_under_faults(first: int):
    broken = []
    for number in range(first, first + BATCH):
        schedule = schedule_of(number, SCHEDULERS)
        if text := broken_law(schedule):
            broken.append(f"{text}; again with: {again(schedule)}")
    assert not broken, "\n".join(broken)


def test_laws_hold_in_large_schedules_too():
    large = [large_schedule(SCHEDULERS[seed % len(SCHEDULERS)], seed) for seed in range(200)]
    broken = [f"{text}; again with: {again(one)}" for one in large if (text := broken_law(one))]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("scheduler", "seed"),
    [("shadow", 2595), ("tetrium:random-reduces", 26664), ("corral", 13364)],
)
def test_an_attempt_that_outlives_the_commit_of_its_job_writes_nothing(scheduler: str, seed: int):
    assert not broken_law(small_schedule(scheduler, seed))


@pytest.mark.parametrize(
    ("scheduler", "seed"), [("dice", 12707), ("kmn", 13241), ("centralized", 16008)]
)
def test_what_others_tell_a_dead_or_stopped_namenode_is_settled_once(scheduler: str, seed: int):
    assert not broken_law(named("small", scheduler, seed))


@pytest.mark.parametrize(("scheduler", "seed"), [("corral-fair", 12622), ("joint:no-aeap", 16968)])
def test_a_reader_takes_the_output_of_a_task_once(scheduler: str, seed: int):
    """It had an output before it started; that node was lost, and the task ran again."""
    assert not broken_law(named("small", scheduler, seed))


def test_toys_propose_all_that_can_be_proposed():
    seen: Counter[str] = Counter()
    for seed in range(20):
        records = Scenario(large_schedule(toys.RECIPE.name, seed)).go().core.records.values()
        for record in records:
            seen["copies"] += record.copies
            seen["chosen"] += record.copies_chosen
            seen["jobs"] += bool(record.ok)
    assert seen["copies"] > seen["chosen"] > 20
    assert seen["jobs"] > 20


# Each of these breaks a rule on purpose, to show that the check works ----------------------------
def sound_scenario() -> Scenario:
    """A scenario with shuffles that keeps all rules."""
    return Scenario(large_schedule("fair", 109))


def test_the_unbroken_scenario_keeps_all_rules():
    run = sound_scenario().go()
    assert run.network.counts.opened > 20


def test_links_over_their_capacity_are_found(monkeypatch: pytest.MonkeyPatch):
    scenario = sound_scenario()
    fabric = scenario.run.network.fabric
    little = dict.fromkeys(fabric.network.number, 1.0)
    monkeypatch.setattr(fabric, "capacities_bytes_per_s", lambda: little)
    with pytest.raises(InvariantError, match=r"carries .* of 1\.0 bytes/s"):
        scenario.go()


def scenario_with_circuits() -> Scenario:
    """A scenario with shuffles through circuits."""
    return Scenario(large_schedule("fair", 302))


def test_the_unbroken_scenario_with_circuits_keeps_all_rules():
    run = scenario_with_circuits().go()
    assert run.network.fabric.bytes_by_category()["ocs"] > 10**8


def test_links_over_their_capacity_are_found_beside_circuits(monkeypatch: pytest.MonkeyPatch):
    scenario = scenario_with_circuits()
    fabric = scenario.run.network.fabric
    whole = fabric.capacities_bytes_per_s
    monkeypatch.setattr(
        fabric, "capacities_bytes_per_s", lambda: {k: v * 0.9 for k, v in whole().items()}
    )
    with pytest.raises(InvariantError, match=r"has carried \d+ bytes where .* were possible"):
        scenario.go()


def test_a_port_with_two_circuits_is_found(monkeypatch: pytest.MonkeyPatch):
    scenario = scenario_with_circuits()
    fabric = scenario.run.network.fabric
    circuits = fabric.circuits
    monkeypatch.setattr(fabric, "circuits", lambda: 2 * circuits())
    with pytest.raises(InvariantError, match="circuits: need one each"):
        scenario.go()


def test_links_that_are_known_wrongly_are_found(monkeypatch: pytest.MonkeyPatch):
    assert Scenario(large_schedule("dice", 26)).go().core.state.links
    monkeypatch.setattr(
        "railyard.netemu.model.observed._state",
        lambda capacity, free: LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free / 2),
    )
    with pytest.raises(InvariantError, match="is known as LinkState"):
        Scenario(large_schedule("dice", 26)).go()


def test_links_that_are_reported_too_often_are_found():
    scenario = Scenario(large_schedule("dice", 26))
    scenario.run.heap.now_s = 0.5
    scenario.write(0.5, LinksObserved(links={}))
    with pytest.raises(InvariantError, match=r"links are reported at 0\.5 s and 0\.5 s"):
        scenario.write(0.5, LinksObserved(links={}))


def test_links_that_nobody_uses_are_not_reported():
    with pytest.raises(InvariantError, match="no policy uses the network"):
        Scenario(large_schedule("fair", 3)).write(0.0, LinksObserved(links={}))


def test_input_that_was_not_read_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "railyard.simulator.nodes.attempt.SimulatedAttempt.fetched",
        lambda attempt, flow, outputs, size_bytes, began_s: FETCHED(
            attempt, flow, outputs, size_bytes + 1, began_s
        ),
    )
    with pytest.raises(InvariantError, match=r"read \d+ bytes of \d+"):
        sound_scenario().go()


def test_bytes_out_of_nowhere_are_found():
    scenario = sound_scenario()
    scenario.run.network.counts.arrived_bytes += 10**9
    with pytest.raises(InvariantError, match="bytes were carried: need"):
        scenario.go()


def test_a_slot_that_two_attempts_hold_is_found():
    scenario = sound_scenario()
    first = scenario.run.config.topology.nodes()[0].id
    scenario.laws.slots.count(NodeJoined(node=first, rack="r0", slots=1), [])
    orders = [LaunchAttempt(attempt=f"j1.m{n}.0", node=first, task=SPEC) for n in range(2)]
    with pytest.raises(InvariantError, match=r"has 1 slots for j1\.m0\.0, j1\.m1\.0"):
        scenario.laws.slots.count(AttemptStarted(attempt="j1.m0.0"), orders)


def test_what_was_not_written_is_found(monkeypatch: pytest.MonkeyPatch):
    scenario = sound_scenario()
    jobs = tuple(msgspec.structs.replace(job, stages=grown(job)) for job in scenario.jobs.jobs)
    scenario.laws = Laws(scenario.run, replace(scenario.jobs, jobs=jobs))
    with pytest.raises(InvariantError, match=r"has written \d+ bytes of \d+"):
        scenario.go()


def grown(job: WorkloadJob) -> tuple[WorkStage, ...]:
    """The job's stages, with a byte more to be written."""
    last = job.stages[-1]
    more = msgspec.structs.replace(last, output_bytes=last.output_bytes + 1)
    return (*job.stages[:-1], more)


FETCHED = SimulatedAttempt.fetched
SPEC = TaskSpec(stage="m", index=0)
