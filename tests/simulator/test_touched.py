"""A check of what an event has touched finds what a check of everything finds there."""

from __future__ import annotations

from collections.abc import Callable, Container

import pytest

from railyard.benchmarks._faults.accounts import TimerAccount
from railyard.benchmarks._faults.scenarios import Scenario
from railyard.benchmarks._faults.schedules import large_schedule
from railyard.benchmarks._faults.touched import touched_jobs
from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import (
    AttemptProgressed,
    AttemptStarted,
    CancelFlow,
    KillAttempt,
    NodeLost,
)
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Job, Stage
from railyard.resourcemanager.interface.commands import CloseCoflow, EndJob, SetTimer
from railyard.resourcemanager.interface.events import TimerFired


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
        core.check_invariants(jobs)
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
