"""The attempts of the latest jobs, kept within bounds.  Pure.

Fed with each event once the core has handled it, and its commands, as the log of events is.  While
a job runs, the state of its attempts is the core's own; when the core forgets the job, it is
copied and packed, to about a tenth.  If they take too much memory, those of the jobs that ended
first are forgotten.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from sys import intern
from typing import TypeVar

import msgspec

from railyard.cluster.errors import InvariantError, PeerError, UsageError, shortened
from railyard.cluster.ids import JobId, job_of, stage_id, task_id, task_place
from railyard.cluster.messages import AttemptProgressed, DiscardJob
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Stage
from railyard.resourcemanager.core.offers import why_waiting
from railyard.resourcemanager.core.records import JobRecord
from railyard.resourcemanager.driving.history import AttemptSpan, History
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.process import messages
from railyard.resourcemanager.process.progress import job_status, mean_progress

T = TypeVar("T")
#: The attempts of a task, in order.
Reports = tuple[messages.AttemptReport, ...]

#: What all attempts that are kept may take; one that is not packed, and a counter of it.
WEIGHT_BYTES_MAX = 40_000_000
ATTEMPT_BYTES, _COUNTER_BYTES = 1000, 160
#: Tasks that are packed together: few tasks are asked for at once.
_PIECE_TASKS = 500
_REASON_LETTERS_MAX = 500
_DID_IT = ("succeeded", "output lost")


def report_of(span: AttemptSpan) -> messages.AttemptReport:
    """What an attempt is now."""
    attempt, success = span.attempt, span.success
    assert attempt is not None, f"{span.id} is not of a job that is known"
    in_node, in_rack, further = span.fetched_bytes
    failed = span.reason if span.outcome == "failed" else ""
    known = messages.AttemptReport(
        attempt=span.id,
        node=span.node.id,
        state=attempt.state,
        level=attempt.level,
        copy=attempt.copy,
        launched_s=attempt.launched_s,
        started_s=span.started_s,
        fetched_s=span.fetched_s,
        ended_s=attempt.ended_s,
        progress=1.0 if success is not None else min(1.0, attempt.progress),
        reason=failed or shortened(attempt.killing, _REASON_LETTERS_MAX),
        fetched_bytes=(in_node, in_rack, further),
    )
    if success is None:
        return known
    return msgspec.structs.replace(
        known,
        input_bytes=success.input_bytes,
        output_bytes=success.output_bytes,
        shuffle_bytes=span.shuffle_bytes,
        read_bytes=(success.local_bytes, success.rack_bytes, success.remote_bytes),
        read_s=success.read_s,
        computed_s=success.computed_s,
        counters=success.counters,
    )


class Outline(msgspec.Struct, array_like=True):
    """What is known of a job beside its attempts; not to be changed."""

    sizes: dict[str, int]  #: {stage: its number of tasks}, in order
    reads: dict[str, tuple[str, ...]]
    settings: dict[str, str] = {}  #: with which it was submitted, as text
    done: dict[str, int] = {}  #: {stage: how many of its tasks were done}, once its job has ended


class JobAttempts:
    """The attempts of a job: spans while its job is known to the core, packed afterwards."""

    __slots__ = ("_attempts", "_outline", "_pieces", "weight_bytes", "whole")

    def __init__(self, submission: JobSubmitted) -> None:
        self.weight_bytes = 0  #: what its attempts take, about
        self.whole = True  #: whether all its attempts are here; if not, none is
        self._outline: Outline | bytes = Outline(
            {stage.name: stage.tasks for stage in submission.stages},
            {stage.name: stage.reads for stage in submission.stages},
        )
        #: {stage: {index of a task: its attempts, in order}}, until they are packed
        self._attempts: dict[str, dict[int, list[AttemptSpan]]] | None = {}
        #: reports once they are packed: {number of a task: its attempts}, ``_PIECE_TASKS`` together
        self._pieces: tuple[bytes, ...] = ()

    @property
    def outline(self) -> Outline:
        outline = self._outline
        return outline if isinstance(outline, Outline) else _unpacked(outline, Outline)

    def note_settings(self, settings: dict[str, str]) -> None:
        outline = msgspec.structs.replace(self.outline, settings=settings)
        self._outline = outline if isinstance(self._outline, Outline) else _packed(outline)

    def add(self, span: AttemptSpan) -> None:
        assert self._attempts is not None, "its job has ended"
        stage, index = task_place(span.id)
        self._attempts.setdefault(stage, {}).setdefault(index, []).append(span)

    def of_tasks(self, begin: int, limit: int) -> Iterator[tuple[str, int, Reports]]:
        """(stage, index, attempts in order) of each task from number ``begin`` on."""
        at = -1
        piece: Mapping[int, Reports] = {}
        places = islice(_places(self.outline.sizes, begin), limit)
        for number, (stage, index) in enumerate(places, begin):
            if self._attempts is not None:
                spans = self._attempts.get(stage, {}).get(index, ())
                yield stage, index, tuple(map(report_of, spans))
                continue
            if number // _PIECE_TASKS != at and self.whole:
                at = number // _PIECE_TASKS
                piece = _unpacked(self._pieces[at], dict[int, Reports])
            yield stage, index, piece.get(number, ())

    def drop(self) -> None:
        self._pieces = ()
        if self._attempts is not None:
            self._attempts.clear()
        self.whole, self.weight_bytes = False, 0

    def pack(self) -> None:
        """Pack all, what is the core's own included."""
        outline = self.outline
        pieces: list[dict[int, Reports]] = []
        done = dict.fromkeys(outline.sizes, 0)
        for number, (stage, _, reports) in enumerate(self.of_tasks(0, sum(outline.sizes.values()))):
            if number % _PIECE_TASKS == 0:
                pieces.append({})
            if reports:
                pieces[-1][number] = reports
                done[stage] += did_it(reports)
        self._outline = _packed(msgspec.structs.replace(outline, done=done))
        self._attempts = None
        if self.whole:
            self._pieces = tuple(map(_packed, pieces))
            self.weight_bytes = sum(map(len, self._pieces))


def _places(sizes: Mapping[str, int], begin: int) -> Iterator[tuple[str, int]]:
    """(stage, index) of each task of a job from number ``begin`` on."""
    for stage, size in sizes.items():
        for index in range(begin, size):
            yield stage, index
        begin = max(0, begin - size)


def _packed(known: Outline | dict[int, Reports]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(known), level=1)


def _unpacked(packed: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(zlib.decompress(packed), type=kind)


def did_it(attempts: Iterable[messages.AttemptReport]) -> bool:
    """Whether one of a task's attempts did it."""
    return any(attempt.state in _DID_IT for attempt in attempts)


class TaskHistory:
    """The attempts of the latest jobs."""

    def __init__(self, state: ClusterState, weight_bytes_max: int = WEIGHT_BYTES_MAX) -> None:
        self._state = state
        self.events = 0  #: taken so far, but for those that say how far attempts are
        self._weight_bytes_max = weight_bytes_max
        self._weight_bytes = 0
        self._jobs: dict[JobId, JobAttempts] = {}
        self._ended: dict[JobId, None] = {}  #: of these, the ones that have ended, in order
        self._history = History()

    def of_job(self, job: JobId) -> JobAttempts | None:
        """A job's attempts; None if there is no such job, or its record is gone."""
        return self._jobs.get(job)

    def note_settings(self, job: JobId, settings: dict[str, str]) -> None:
        if (known := self._jobs.get(job)) is not None:
            known.note_settings(settings)

    def take(self, at_s: float, event: Event, commands: Sequence[Command]) -> None:
        """Take an event that the core has handled, and what followed."""
        self.events += not isinstance(event, AttemptProgressed)
        if isinstance(event, JobSubmitted) and event.job in self._state.records:
            self._jobs[event.job] = JobAttempts(event)
        for what, span in self._history.take(self._state, at_s, event, commands):
            if isinstance(span, AttemptSpan) and span.attempt is not None:
                job = self._jobs.get(job_of(span.id))
                if job is not None and job.whole:
                    self._changed(job, span, what)
        for command in commands:
            if isinstance(command, DiscardJob):
                self._discarded(command.job)

    def _changed(self, job: JobAttempts, span: AttemptSpan, what: str) -> None:
        """Keep an attempt that was launched, and what it said at its end."""
        if what == "began":
            job.add(span)
            self._weigh(job, ATTEMPT_BYTES)
        elif what == "ended":
            span.reason = shortened(span.reason, _REASON_LETTERS_MAX)
            if span.outcome == "failed":
                span.success = None  # it was refused
            if span.success is not None:
                counts = span.success.counters
                counters = {intern(name): count for name, count in counts.items()}
                span.success = msgspec.structs.replace(span.success, counters=counters)
                self._weigh(job, _COUNTER_BYTES * len(counters))

    def _discarded(self, job: JobId) -> None:
        known = self._jobs.get(job)
        if known is None:
            return
        before_bytes = known.weight_bytes
        known.pack()
        self._weight_bytes += known.weight_bytes - before_bytes
        self._ended[job] = None
        for old in [old for old in self._ended if old not in self._state.records]:
            self._weight_bytes -= self._jobs.pop(old).weight_bytes
            del self._ended[old]

    def _weigh(self, job: JobAttempts, by_bytes: int) -> None:
        """A job's attempts take more; forget others if that is too much."""
        job.weight_bytes += by_bytes
        self._weight_bytes += by_bytes
        while self._weight_bytes > self._weight_bytes_max:
            ended = [self._jobs[name] for name in self._ended]
            heaviest = max(self._jobs.values(), key=lambda one: one.weight_bytes)
            dropped = next((one for one in ended if one.weight_bytes), heaviest)
            self._weight_bytes -= dropped.weight_bytes
            dropped.drop()


# Answers about one job ---------------------------------------------------------------------------
_SETTINGS_MAX = 50
_GIVEN_MAX = 100
_LETTERS_MAX = 500


def job_details(core: Core, history: TaskHistory, job: JobId, now_s: float) -> messages.JobDetails:
    """What is known of a job but its tasks.  Raises ``PeerError`` if there is no such job."""
    record, known = _known(core, history, job)
    running = core.state.jobs.get(job)
    stages = (
        _ended_stages(known)
        if running is None
        else [_stage(core, stage) for stage in running.stages.values()]
    )
    ended = 1.0 if record.ok else 0.0
    return messages.JobDetails(
        now_s=now_s,
        status=job_status(core, record, running),
        stages=tuple(stages),
        settings=known.outline.settings,
        map_progress=mean_progress(running.maps) if running else ended,
        reduce_progress=mean_progress(running.reduces) if running else ended,
        numbers={
            "launched": record.launched,
            "reduces launched": record.reduces_launched,
            "failed": record.failed,
            "killed": record.killed,
            "read": record.input_bytes,
            "shuffle": record.shuffle_bytes,
            "output": record.output_bytes,
        },
        counters=dict(record.counters),
        failures=tuple(record.failures),
    )


def job_tasks(
    core: Core, history: TaskHistory, wanted: messages.GetJobTasks, now_s: float
) -> messages.JobTasks:
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
    return messages.JobTasks(now_s=now_s, tasks=tuple(tasks), left=left)


def settings_of(wanted: messages.SubmitJob) -> dict[str, str]:
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
    values |= {f"{messages.GIVEN}{name}"[:255]: value for name, value in given}
    if left := len(wanted.settings) - len(given):
        values[f"{messages.GIVEN}railyard.settings.not.shown"] = left
    return {name: shortened(_as_text(value), _LETTERS_MAX) for name, value in values.items()}


def _known(core: Core, history: TaskHistory, job: JobId) -> tuple[JobRecord, JobAttempts]:
    record, known = core.records.get(job), history.of_job(job)
    if record is None or known is None:
        raise PeerError(f"there is no job {job}")
    return record, known


def _stage(core: Core, stage: Stage) -> messages.StageStatus:
    first = stage.first_pending()
    return messages.StageStatus(
        name=stage.name,
        reads=stage.plan.reads,
        tasks=stage.size,
        running=stage.running,
        done=stage.done,
        pending=stage.pending.count,
        waiting="" if first is None else why_waiting(core.state, first),
        planned=_planned(core, stage),
    )


def _planned(core: Core, stage: Stage) -> str:
    policies = core.state.policies
    try:
        return shortened(policies.ask(policies.tasks.planned, stage.tasks[0]), _LETTERS_MAX)
    except (InvariantError, UsageError):
        return ""  # a policy that breaks here costs its own words only


def _ended_stages(known: JobAttempts) -> Iterator[messages.StageStatus]:
    outline = known.outline
    for name, size in outline.sizes.items():
        done = outline.done.get(name, 0) if known.whole else None
        yield messages.StageStatus(name=name, reads=outline.reads[name], tasks=size, done=done)


def _task(
    core: Core, job: Job, waiting: dict[str, str], name: str, index: int, attempts: Reports
) -> messages.TaskReport:
    task = job.stages[name].tasks[index]
    if task.state == "pending" and name not in waiting:
        waiting[name] = why_waiting(core.state, task)
    return messages.TaskReport(
        task=task.id,
        state=task.state,
        waiting=waiting[name] if task.state == "pending" else "",
        attempts=attempts,
    )


def _ended_task(record: JobRecord, name: str, index: int, attempts: Reports) -> messages.TaskReport:
    if did_it(attempts):
        state = "done"
    elif record.ok:
        state = "left"
    else:
        state = "failed" if attempts and attempts[-1].state == "failed" else "stopped"
    task = task_id(stage_id(record.id, name), index)
    return messages.TaskReport(task=task, state=state, attempts=attempts)


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
