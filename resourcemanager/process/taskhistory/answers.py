"""Answers about one job: its stages and settings, and its tasks with their attempts.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from railyard.cluster.errors import InvariantError, PeerError, UsageError
from railyard.cluster.ids import JobId, stage_id, task_id
from railyard.cluster.shown import shortened
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Job, Stage
from railyard.resourcemanager.core.state.records import JobRecord
from railyard.resourcemanager.core.waiting import why_waiting
from railyard.resourcemanager.process.messages import (
    GIVEN,
    GetJobTasks,
    JobDetails,
    JobTasks,
    StageStatus,
    SubmitJob,
    TaskReport,
)
from railyard.resourcemanager.process.progress import job_status
from railyard.resourcemanager.process.taskhistory.kept import (
    JobAttempts,
    Reports,
    TaskHistory,
    did_it,
)

_SETTINGS_MAX = 50
_GIVEN_MAX = 100
_LETTERS_MAX = 500


def job_details(core: Core, history: TaskHistory, job: JobId, now_s: float) -> JobDetails:
    """A job's stages and settings.  Raises ``PeerError`` if there is no such job."""
    record, known = _known(core, history, job)
    running = core.state.jobs.get(job)
    stages = (
        _ended_stages(known)
        if running is None
        else [_stage(core, stage) for stage in running.stages.values()]
    )
    return JobDetails(
        now_s=now_s,
        status=job_status(core, record, running),
        stages=tuple(stages),
        settings=known.outline.settings,
    )


def job_tasks(core: Core, history: TaskHistory, wanted: GetJobTasks, now_s: float) -> JobTasks:
    """Some of a job's tasks.  Raises ``PeerError`` if they are not kept any more."""
    record, known = _known(core, history, wanted.job)
    if not known.whole:
        raise PeerError(f"the attempts of job {wanted.job} are not kept any more: they were many")
    running = core.state.jobs.get(wanted.job)
    chosen = known.of_tasks(wanted.begin, wanted.limit)
    if running is None:
        tasks = [_ended_task(record, *each) for each in chosen]
    else:
        waiting: dict[str, str] = {}  # one answer for all pending tasks of a stage
        tasks = [_task(core, running, waiting, *each) for each in chosen]
    left = max(0, sum(known.outline.sizes.values()) - wanted.begin - wanted.limit)
    return JobTasks(now_s=now_s, tasks=tuple(tasks), left=left)


def settings_of(wanted: SubmitJob) -> dict[str, str]:
    """What a job was submitted with, as text; long values are cut, and few parameters shown."""
    package = wanted.package
    values = {
        "name": wanted.name,
        "user": wanted.user,
        "queue": wanted.queue,
        "input_paths": ",".join(wanted.input_paths),
        "output_path": wanted.output_path,
        "output_replication": wanted.output_replication,
        "max_attempts": wanted.max_attempts,
        "code": f"{package.module or package.file_name}:{package.job_class}",
    }
    params = islice(sorted(package.params.items()), _SETTINGS_MAX)
    values |= {f"params.{name}"[:255]: value for name, value in params}
    given = list(islice(wanted.settings.items(), _GIVEN_MAX))
    values |= {f"{GIVEN}{name}"[:255]: value for name, value in given}
    if left := len(wanted.settings) - len(given):
        values[f"{GIVEN}railyard.settings.not.shown"] = left
    return {name: shortened(_as_text(value), _LETTERS_MAX) for name, value in values.items()}


# -------------------------------------------------------------------------------------------------
def _known(core: Core, history: TaskHistory, job: JobId) -> tuple[JobRecord, JobAttempts]:
    record, known = core.records.get(job), history.of_job(job)
    if record is None or known is None:
        raise PeerError(f"there is no job {job}")
    return record, known


def _stage(core: Core, stage: Stage) -> StageStatus:
    first = stage.pending.first() if stage.pending.count else None
    return StageStatus(
        name=stage.name,
        reads=stage.plan.reads,
        tasks=stage.size,
        running=stage.running,
        done=stage.done,
        pending=stage.pending.count,
        waiting="" if first is None else why_waiting(core.state, stage.tasks[first]),
        planned=_planned(core, stage),
    )


def _planned(core: Core, stage: Stage) -> str:
    policies = core.state.policies
    try:
        return shortened(policies.ask(policies.tasks.planned, stage.tasks[0]), _LETTERS_MAX)
    except (InvariantError, UsageError):
        return ""  # a policy that breaks here costs its own words only


def _ended_stages(known: JobAttempts) -> Iterator[StageStatus]:
    outline = known.outline
    for name, size in outline.sizes.items():
        done = outline.done.get(name, 0) if known.whole else None
        yield StageStatus(name=name, reads=outline.reads[name], tasks=size, done=done)


def _task(
    core: Core, job: Job, waiting: dict[str, str], name: str, index: int, attempts: Reports
) -> TaskReport:
    task = job.stages[name].tasks[index]
    if task.state == "pending" and name not in waiting:
        waiting[name] = why_waiting(core.state, task)
    return TaskReport(
        task=task.id,
        state=task.state,
        waiting=waiting[name] if task.state == "pending" else "",
        attempts=attempts,
    )


def _ended_task(record: JobRecord, name: str, index: int, attempts: Reports) -> TaskReport:
    if did_it(attempts):
        state = "done"
    elif record.ok:
        state = "left"
    else:
        failed = attempts and attempts[-1].state == "failed"
        state = "failed" if failed else "stopped"
    task = task_id(stage_id(record.id, name), index)
    return TaskReport(task=task, state=state, attempts=attempts)


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
