"""The attempts of the latest jobs, kept within bounds.  Pure.

Fed with each event once the core has handled it, and its commands, as the log of events is.  While
a job runs, the state of its attempts is the core's own; when the core forgets the job, it is
copied.  If there are too many attempts, those of the jobs that ended first are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import intern

import msgspec

from railyard.cluster.ids import AttemptId, FlowId, JobId, job_of, rack_of, task_place
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptStarted,
    AttemptSucceeded,
    CancelFlow,
    DiscardJob,
    FlowFailed,
    FlowFinished,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.shown import shortened
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.process.messages import AttemptReport

#: What all that is kept may weigh, about 40 MB: an attempt weighs ``_ATTEMPT``, a counter of it
#: ``_COUNTER``.
WEIGHT_MAX = 1_000_000
_ATTEMPT, _COUNTER = 25, 4
_REASON_LETTERS_MAX = 500
_DID_IT = ("succeeded", "output lost")
_SAME_NODE, _SAME_RACK, _OTHER_RACK = range(3)


class AttemptRecord(msgspec.Struct, eq=False):
    """An attempt, with what the core does not keep of it."""

    attempt: Attempt
    started_s: float | None = None
    fetched_s: float | None = None
    fetched_bytes: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])
    success: AttemptSucceeded | None = None  #: without its partitions' bytes
    shuffle_bytes: int = 0
    reason: str = ""

    def report(self) -> AttemptReport:
        """What it is now."""
        attempt, success = self.attempt, self.success
        in_node, in_rack, further = self.fetched_bytes
        known = AttemptReport(
            attempt=attempt.id,
            node=attempt.node.id,
            state=attempt.state,
            level=attempt.level,
            copy=attempt.copy,
            launched_s=attempt.launched_s,
            started_s=self.started_s,
            fetched_s=self.fetched_s,
            ended_s=attempt.ended_s,
            progress=1.0 if success is not None else min(1.0, attempt.progress),
            reason=self.reason or shortened(attempt.killing, _REASON_LETTERS_MAX),
            fetched_bytes=(in_node, in_rack, further),
        )
        if success is None:
            return known
        return msgspec.structs.replace(
            known,
            input_bytes=success.input_bytes,
            output_bytes=success.output_bytes,
            shuffle_bytes=self.shuffle_bytes,
            read_bytes=(success.local_bytes, success.rack_bytes, success.remote_bytes),
            read_s=success.read_s,
            computed_s=success.computed_s,
            counters=success.counters,
        )


class JobAttempts:
    """The attempts of a job."""

    def __init__(self, submission: JobSubmitted) -> None:
        #: {stage: its number of tasks}, in order
        self.sizes: dict[str, int] = {stage.name: stage.tasks for stage in submission.stages}
        self.reads: dict[str, tuple[str, ...]] = {s.name: s.reads for s in submission.stages}
        self.settings: dict[str, str] = {}  #: with which it was submitted, as text
        self.weight = 0
        self.whole = True  #: whether all its attempts are here; if not, none is
        #: {stage: how many of its tasks were done}, once its job has ended
        self.done: dict[str, int] = {}
        #: {stage: {index of a task: its attempts, in order}}: records while its job is known to the
        #: core, reports afterwards
        self._attempts: dict[str, dict[int, list[AttemptRecord | AttemptReport]]] = {}

    def add(self, record: AttemptRecord) -> None:
        """Add an attempt."""
        stage, index = task_place(record.attempt.id)
        self._attempts.setdefault(stage, {}).setdefault(index, []).append(record)

    def of_task(self, stage: str, index: int) -> tuple[AttemptReport, ...]:
        """The attempts of a task, in order."""
        known = self._attempts.get(stage, {}).get(index, ())
        return tuple([a.report() if isinstance(a, AttemptRecord) else a for a in known])

    def drop(self) -> None:
        """Forget its attempts."""
        self._attempts.clear()
        self.whole, self.weight = False, 0

    def copy_states(self) -> list[AttemptId]:
        """Copy what is the core's own; returns the ids of all its attempts."""
        ids = []
        for stage, of_stage in self._attempts.items():
            self.done[stage] = 0
            for index in of_stage:
                reports = self.of_task(stage, index)
                of_stage[index] = list(reports)
                ids += [report.attempt for report in reports]
                self.done[stage] += did_it(reports)
        return ids


def did_it(attempts: Iterable[AttemptReport]) -> bool:
    """Whether one of a task's attempts did it."""
    return any(attempt.state in _DID_IT for attempt in attempts)


class TaskHistory:
    """The attempts of the latest jobs."""

    def __init__(self, state: ClusterState, weight_max: int = WEIGHT_MAX) -> None:
        self._state = state
        self.events = 0  #: taken so far, but for those that say how far attempts are
        self._weight_max = weight_max
        self._weight = 0
        self._jobs: dict[JobId, JobAttempts] = {}
        self._ended: dict[JobId, None] = {}  #: of these, the ones that have ended, in order
        self._open: dict[AttemptId, AttemptRecord] = {}  #: whose end is not known
        #: fetches under way: the reader, how far its source is, how many bytes
        self._flows: dict[FlowId, tuple[AttemptRecord, int, int]] = {}

    def of_job(self, job: JobId) -> JobAttempts | None:
        """A job's attempts; None if there is no such job, or its record is gone."""
        return self._jobs.get(job)

    def note_settings(self, job: JobId, settings: dict[str, str]) -> None:
        """Keep with what a job was submitted, as text."""
        if (known := self._jobs.get(job)) is not None:
            known.settings = settings

    def take(self, at_s: float, event: Event, commands: Sequence[Command]) -> None:
        """Take an event that the core has handled, and what followed."""
        self.events += not isinstance(event, AttemptProgressed)
        match event:
            case FlowFinished(flow=flow):
                self._fetched(flow, at_s)
            case AttemptStarted(attempt=attempt):
                if (record := self._open.get(attempt)) is not None:
                    record.started_s = at_s
            case AttemptSucceeded(attempt=attempt):
                self._succeeded(attempt, event)
            case AttemptFailed(attempt=attempt, reason=reason):
                if (record := self._open.pop(attempt, None)) is not None:
                    record.reason = shortened(reason, _REASON_LETTERS_MAX)
            case AttemptKilled(attempt=attempt):
                self._open.pop(attempt, None)
            case FlowFailed(flow=flow):
                self._flows.pop(flow, None)
            case JobSubmitted(job=job) if job in self._state.records:
                self._jobs[job] = JobAttempts(event)
        self._follow(commands)

    def _follow(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case StartFlow(flow=flow, reader=reader, src=src, dst=dst, size_bytes=size_bytes):
                    if (record := self._open.get(reader)) is not None:
                        same_rack = _SAME_RACK if rack_of(src) == rack_of(dst) else _OTHER_RACK
                        far = _SAME_NODE if src == dst else same_rack
                        self._flows[flow] = record, far, size_bytes
                case CancelFlow(flow=flow):
                    self._flows.pop(flow, None)
                case LaunchAttempt(attempt=attempt):
                    self._launched(attempt)
                case DiscardJob(job=job):
                    self._discarded(job)

    # ---------------------------------------------------------------------------------------------
    def _launched(self, attempt: AttemptId) -> None:
        known = self._state.attempts.get(attempt) or self._state.reserved.get(attempt)
        job = self._jobs.get(job_of(attempt))
        if known is None or job is None or not job.whole:
            return
        record = self._open[attempt] = AttemptRecord(known)
        job.add(record)
        self._weigh(job, _ATTEMPT)

    def _fetched(self, flow: FlowId, at_s: float) -> None:
        fetch = self._flows.pop(flow, None)
        if fetch is not None:
            record, far, size_bytes = fetch
            record.fetched_s = at_s
            record.fetched_bytes[far] += size_bytes

    def _succeeded(self, attempt: AttemptId, event: AttemptSucceeded) -> None:
        record = self._open.pop(attempt, None)
        job = self._jobs.get(job_of(attempt))
        if record is None or job is None or not job.whole or record.attempt.state == "failed":
            return
        record.shuffle_bytes = sum(event.partition_bytes)
        counters = {intern(name): count for name, count in event.counters.items()}
        record.success = msgspec.structs.replace(event, partition_bytes=(), counters=counters)
        self._weigh(job, _COUNTER * len(counters))

    def _discarded(self, job: JobId) -> None:
        """The core knows nothing of the job's attempts any more."""
        known = self._jobs.get(job)
        if known is None:
            return
        for attempt in known.copy_states():
            self._open.pop(attempt, None)
        self._ended[job] = None
        gone = [flow for flow, (record, _, _) in self._flows.items() if _is_of(record, job)]
        for flow in gone:
            del self._flows[flow]
        for old in [old for old in self._ended if old not in self._state.records]:
            self._weight -= self._jobs.pop(old).weight
            del self._ended[old]

    def _weigh(self, job: JobAttempts, weight: int) -> None:
        """A job's attempts weigh more; forget others if that is too much."""
        job.weight += weight
        self._weight += weight
        while self._weight > self._weight_max:
            ended = [self._jobs[name] for name in self._ended]
            heaviest = max(self._jobs.values(), key=lambda one: one.weight)
            dropped = next((one for one in ended if one.weight), heaviest)
            self._weight -= dropped.weight
            dropped.drop()


def _is_of(record: AttemptRecord, job: JobId) -> bool:
    return job_of(record.attempt.id) == job
