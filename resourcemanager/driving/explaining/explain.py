"""Explains a task, attempt, job, coflow, flow, circuit or file of a run, from its events.

    j3          a job
    j3.m7       a task; j3.m7.0 one of its attempts
    j3.r        a stage that reads others: its coflow
    j3.r2.0:r0n1:0   a flow, as events and traces name it
    r0-r3       circuits from one rack to another
    /in/data    a file, or the folder of a job's input

Never here: how explanations look.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId, RackId, StageId, TaskId, is_attempt, is_job, job_of
from railyard.netemu.record.circuits import CircuitUse
from railyard.resourcemanager.driving.eventlog import read_log, replay_on
from railyard.resourcemanager.driving.explaining.explanation import (
    AnyExplanation,
    AttemptStory,
    JobExplanation,
    TaskExplanation,
)
from railyard.resourcemanager.driving.explaining.fetching import idle_times
from railyard.resourcemanager.driving.explaining.files import explain_file
from railyard.resourcemanager.driving.explaining.headers import header
from railyard.resourcemanager.driving.explaining.networks import (
    explain_circuit,
    explain_coflow,
    explain_flow,
)
from railyard.resourcemanager.driving.explaining.recorder import Recorder
from railyard.resourcemanager.driving.explaining.stages import stage_story
from railyard.resourcemanager.driving.explaining.waits import Waits
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan

_STAGE = re.compile(r"j\d+\.[a-z]+")
_TASK = re.compile(r"(j\d+\.[a-z]+)\d+")
_FLOW = re.compile(r"j\d+\.[a-z]+\d+\.\d+:r\d+n\d+:\d+")
_CIRCUIT = re.compile(r"(r\d+)(?:-| to )(r\d+)")
_REPLICA = "which of the replicas it read, and what that one's disk and links had to do then"


def explain(
    events: Path, what: str, circuits: Sequence[CircuitUse] | None = None
) -> AnyExplanation:
    """The explanation of ``what``, from a log of events.

    ``circuits``: the run's record of circuits; None = there is none.  Raises ``UsageError`` for
    what is no id, or not in the log, and ``Diverged`` if a replay does not give the log's commands.
    """
    config, _ = read_log(events)
    if what.startswith("/"):
        return explain_file(events, config, what)
    if _FLOW.fullmatch(what):
        recorder = replayed(events, config, job_of(what))
        return explain_flow(config, recorder, what, circuits)
    if match := _CIRCUIT.fullmatch(what):
        return explain_circuit(events, config, RackId(match[1]), RackId(match[2]), circuits)
    if is_job(what):
        return explained_job(config, replayed(events, config, JobId(what)))
    if _STAGE.fullmatch(what):
        recorder = replayed(events, config, job_of(what))
        return explain_coflow(config, recorder, StageId(what), circuits)
    if is_attempt(what):
        task = TaskId(what.rsplit(".", 1)[0])
        return explained_task(config, replayed(events, config, job_of(task), task), task, what)
    if _TASK.fullmatch(what):
        task = TaskId(what)
        return explained_task(config, replayed(events, config, job_of(task), task), task)
    raise UsageError(
        f"{what}: need a job (j3), a task (j3.m7), an attempt (j3.m7.0), a coflow (j3.r), a flow "
        "(j3.r2.0:r0n1:0), circuits (r0-r3) or a file (/in/data)"
    )


def replayed(
    events: Path, config: ClusterConfig, job: JobId, task: TaskId | None = None
) -> Recorder:
    """What a replay of the run tells of a job; ``UsageError`` if it has no such job or task."""
    core = core_for(config)
    recorder = Recorder(core, job, task)
    core.observe(recorder)
    for step in replay_on(core, events, read_log(events)[1]):
        recorder.take(step)
    recorder.finish()
    if recorder.submitted is None:
        jobs = ", ".join(core.records) or "none"
        raise UsageError(f"{job}: there is no such job in {events}; there are: {jobs}")
    if task is not None:
        _require_task(task, recorder.submitted)
    return recorder


def _require_task(task: TaskId, job: JobSubmitted) -> None:
    name = task.split(".", 1)[1]
    stage = name.rstrip("0123456789")
    tasks = {plan.name: plan.tasks for plan in job.stages}
    if int(name[len(stage) :]) >= tasks.get(stage, 0):
        there = " and ".join(_tasks_of(job.job, plan) for plan in job.stages)
        raise UsageError(f"{task}: there is no such task; {job.job} has {there}")


def _tasks_of(job: JobId, stage: StagePlan) -> str:
    """A stage's tasks as one says them: "16 reduces (j1.r0 to j1.r15)"."""
    kind, first = "reduce" if stage.reads else "map", f"{job}.{stage.name}0"
    if stage.tasks == 1:
        return f"one {kind} ({first})"
    return f"{stage.tasks} {kind}s ({first} to {job}.{stage.name}{stage.tasks - 1})"


def explained_task(
    config: ClusterConfig, recorder: Recorder, task: TaskId, attempt: str | None = None
) -> TaskExplanation:
    """What a recorder of a task has noted, of one attempt or all; ``UsageError`` if it had none."""
    waits = recorder.waits.get(task, Waits())
    stories = list(recorder.attempts.stories.values())
    if attempt is not None:
        stories = [story for story in stories if story.attempt == attempt]
        if not stories:
            there = ", ".join(recorder.attempts.stories) or "none"
            raise UsageError(f"{attempt}: there is no such attempt; {task} has {there}")
    for story in stories:
        story.idle = idle_times(story)
    assert recorder.submitted is not None, f"{task} is of a job that was submitted"
    return TaskExplanation(
        **header(config, attempt or task, recorder.last_s),
        unknown=_unknown_of(stories),
        job=recorder.job,
        job_name=recorder.submitted.name,
        stage=StageId(task.rstrip("0123456789")),
        submitted_s=recorder.submitted_s,
        runnable_s=waits.runnable_s,
        waits=waits.waits,
        answers=waits.answers,
        turns=waits.turns,
        plans=waits.plans,
        attempts=stories,
        state=recorder.task_state,
    )


def _unknown_of(stories: Sequence[AttemptStory]) -> list[str]:
    unknown = []
    if any(len(story.replicas) > 1 for story in stories):
        unknown.append(_REPLICA)
    if any(story.chosen is None and story.slot_s is not None for story in stories):
        unknown.append("which answer led to an attempt")
    return unknown


def explained_job(config: ClusterConfig, recorder: Recorder) -> JobExplanation:
    """What a recorder of a job has noted."""
    submitted = recorder.submitted
    assert submitted is not None, "it was submitted"
    return JobExplanation(
        **header(config, recorder.job, recorder.last_s),
        job_name=submitted.name,
        user=submitted.user,
        queue=submitted.queue,
        submitted_s=recorder.submitted_s,
        ended_s=recorder.ended_s,
        outcome=recorder.outcome or "runs at the end of the record",
        stages=[stage_story(recorder, plan) for plan in submitted.stages],
    )
