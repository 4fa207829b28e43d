"""What holds for one scheduler holds for all, whatever goes wrong: 2,000 schedules by seed.

Most are small, with daemons that die at any event; some are large
(``oracles.faults.schedules``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import replace

import msgspec
import pytest

from railyard.benchmarks.faults import found_by
from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import JobId
from railyard.cluster.messages import (
    AttemptProgressed,
    AttemptStarted,
    CancelFlow,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    TaskSpec,
)
from railyard.jobs.workloads.model import WorkloadJob, WorkStage
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.network import LinkState
from railyard.oracles.faults import toys
from railyard.oracles.faults.daemons import DaemonDown
from railyard.oracles.faults.laws import Laws, TimerAccount, touched_jobs
from railyard.oracles.faults.planted import planted
from railyard.oracles.faults.scenarios import (
    Scenario,
    again,
    broken_law,
    made_short,
    named,
    parts_of,
    schedule_of,
    schedulers,
    shrunk,
)
from railyard.oracles.faults.schedules import Schedule, large_schedule, small_schedule
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Stage
from railyard.resourcemanager.interface.commands import CloseCoflow, EndJob, SetTimer
from railyard.resourcemanager.interface.events import TimerFired
from railyard.simulator.workers import SimulatedAttempt

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
def test_reports_to_a_dead_or_stopped_namenode_are_settled_once(scheduler: str, seed: int):
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
    assert run.network.opened > 20


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
        "railyard.netemu.model.network._state",
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
        "railyard.simulator.workers.SimulatedAttempt.fetched",
        lambda attempt, flow, outputs, size_bytes, began_s: FETCHED(
            attempt, flow, outputs, size_bytes + 1, began_s
        ),
    )
    with pytest.raises(InvariantError, match=r"read \d+ bytes of \d+"):
        sound_scenario().go()


def test_bytes_out_of_nowhere_are_found():
    scenario = sound_scenario()
    scenario.run.network.fabric.finished_bytes += 10**9
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


# Bugs that are planted are found by schedules of faults, and the schedule is made short.


@pytest.mark.parametrize(
    ("bug", "law"),
    [
        ("a double grant", r"was granted \d+ bytes, and goes on from 0"),
        ("a forgotten replica", "is forgotten"),
        ("a slot that is never free again", r"free = \d, not \d"),
    ],
)
def test_a_planted_bug_is_found(bug: str, law: str):
    count, found = found_by(bug)
    assert count < 100
    assert re.search(law, found), found


def test_a_failing_schedule_is_made_short():
    count, _ = found_by("a double grant")
    with planted("a double grant"):
        long = schedule_of(count - 1, schedulers())
        short, lines = made_short(long)
        assert "was granted" in broken_law(short)
    assert broken_law(short) == ""
    assert [type(fault) for fault in short.faults] == [DaemonDown]
    assert len(short.jobs) == 1
    assert lines[-1].startswith(f"again with: {again(long)} f")


def test_parts_that_are_needed_stay():
    drawn = (small_schedule("fair", seed) for seed in range(100))
    long = next(schedule for schedule in drawn if len(parts_of(schedule)) > 4)
    wanted = {("f", 1), ("j", 0)}

    def fails(smaller: Schedule) -> bool:
        return long.faults[1] in smaller.faults and long.jobs[0] in smaller.jobs

    kept = shrunk(long, fails)
    assert set(kept) == wanted


def test_the_same_schedule_comes_of_the_same_seed():
    assert small_schedule("corral", 5) == small_schedule("corral", 5)
    assert small_schedule("corral", 5).faults != small_schedule("corral", 6).faults


# A check of what an event has touched finds what a check of everything finds there.


def running() -> tuple[Core, Job]:
    """A core with several jobs, and one of them that has attempts and output."""
    run = Scenario(large_schedule("fair", 109)).run
    while True:
        run.step()
        for job in run.core.state.jobs.values():
            if len(run.core.state.jobs) > 1 and job.held and any(s.done for s in job.maps):
                return run.core, job


def said(core: Core, jobs: Container[JobId] | None) -> str:
    """Which laws a check calls broken."""
    try:
        check_core(core, jobs)
    except InvariantError as error:
        return str(error)
    return ""


def first_done(job: Job) -> Stage:
    return next(stage for stage in job.maps if stage.done)


def more_counted(_: Core, job: Job) -> None:
    first_done(job).counted -= 1


def more_held(_: Core, job: Job) -> None:
    job.held += 1


def more_running(_: Core, job: Job) -> None:
    job.maps[0].running += 1


def more_progress(_: Core, job: Job) -> None:
    job.maps[0].progress_sum += 0.5


def not_wanting(core: Core, job: Job) -> None:
    job.wanting = not job.wanting
    core.state.wanting += 1 if job.wanting else -1


def pending_though_done(_: Core, job: Job) -> None:
    task = next(task for task in first_done(job).tasks if task.state == "done")
    task.stage.pending.add(task.index)


def without_winner(_: Core, job: Job) -> None:
    task = next(task for task in first_done(job).tasks if task.state == "done")
    task.winner = None


def slot_lost(core: Core, _: Job) -> None:
    core.state.free -= 1


def node_slot_lost(core: Core, _: Job) -> None:
    next(iter(core.state.nodes.values())).slots += 1


def unknown_attempt(core: Core, _: Job) -> None:
    core.state.attempts.popitem()


@pytest.mark.parametrize(
    "break_law",
    [
        more_counted,
        more_held,
        more_running,
        more_progress,
        not_wanting,
        pending_though_done,
        without_winner,
        slot_lost,
        node_slot_lost,
        unknown_attempt,
    ],
)
def test_both_say_the_same_of_what_is_broken(break_law: Callable[[Core, Job], None]):
    core, job = running()
    assert said(core, None) == said(core, [job.id]) == said(core, ()) == ""
    break_law(core, job)
    assert said(core, [job.id]) == said(core, None) != ""


def test_what_is_broken_elsewhere_is_left_to_a_check_of_everything():
    core, job = running()
    other = next(each for each in core.state.jobs.values() if each is not job)
    next(iter(other.stages.values())).progress_sum += 1
    assert said(core, [job.id]) == ""
    assert f"{other.id}.m: progress_sum" in said(core, None)


@pytest.mark.parametrize(
    ("event", "commands", "jobs"),
    [
        (AttemptStarted(attempt="j1.m0.0"), [], set()),
        (TimerFired(timer="j1"), [SetTimer(timer="j2", at_s=1.0)], set()),
        (AttemptProgressed(attempt="j1.m0.0", progress=0.5), [], {"j1"}),
        (
            AttemptStarted(attempt="j1.m0.0"),
            [
                KillAttempt(attempt="j2.m0.0", node="r0n0", reason="x"),
                CancelFlow(flow="j3.r0.0:r0n1:0", dst="r0n0"),
                CloseCoflow(coflow="j4.r"),
            ],
            {"j2", "j3", "j4"},
        ),
        (NodeLost(node="r0n0", reason="x"), [], None),
        (
            AttemptStarted(attempt="j1.m0.0"),
            [EndJob(job="j1", ok=True, reason="", output_path="")],
            None,
        ),
    ],
)
def test_jobs_that_an_event_touches(event, commands, jobs):
    assert touched_jobs(event, commands) == jobs


def test_timers_that_do_not_fire_are_found():
    timers = TimerAccount()
    timers.count(AttemptStarted(attempt="j1.m0.0"), [SetTimer(timer="j1", at_s=2.0)])
    timers.check(2.0)
    with pytest.raises(InvariantError, match=r"timer j1 was set for 2\.0 s: it is 2\.1 s"):
        timers.check(2.1)
    timers.count(TimerFired(timer="j1"), [])
    timers.check(2.1)


def test_timers_are_late_while_there_is_no_core():
    timers = TimerAccount(up_s=5.0)
    timers.count(AttemptStarted(attempt="j1.m0.0"), [SetTimer(timer="j1", at_s=2.0)])
    timers.check(5.0)
    with pytest.raises(InvariantError, match="timer j1"):
        timers.check(5.1)
