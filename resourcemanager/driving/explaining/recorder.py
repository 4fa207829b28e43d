"""Replays a run and notes what concerns one job: the observer behind all explanations.

Never here: what is made of the notes; see ``explain.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.ids import AttemptId, JobId, TaskId, job_of, task_of
from railyard.cluster.messages.execution import AttemptSucceeded, BeginAttempt, LaunchAttempt
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Job, Node, Stage, Task
from railyard.resourcemanager.driving.eventlog import Step
from railyard.resourcemanager.driving.explaining.attempts import AttemptLog
from railyard.resourcemanager.driving.explaining.explanation import AskedBefore
from railyard.resourcemanager.driving.explaining.waits import Waits
from railyard.resourcemanager.interface.commands import CloseCoflow, EndJob, OpenCoflow
from railyard.resourcemanager.interface.decisions import Decision, Place, Proposal
from railyard.resourcemanager.interface.events import JobSubmitted

_Asked = tuple[str, float]  #: the node with an offered slot, and when


class Recorder:
    """Notes what becomes of a job: of one of its tasks, or of the first pending one of each stage.

    It is an observer of ``core``, to be given to ``Core.observe``.

    ``task``: the only one whose waits and attempts are noted; None = those of all stages.
    """

    def __init__(self, core: Core, job: JobId, task: TaskId | None = None) -> None:
        self._core, self._state = core, core.state
        self.job = job
        self._task = task
        self.submitted: JobSubmitted | None = None
        self.submitted_s = 0.0
        self.ended_s: float | None = None
        self.outcome = ""
        self.task_state = ""  #: of ``task``, as it was last
        self.waits: dict[str, Waits] = {}  #: by task, or by stage
        self.attempts = AttemptLog(core.state, self._is_wanted)
        self.last_s = 0.0
        self.opened_s: dict[str, float] = {}
        self.closed_s: dict[str, float] = {}
        self.done_s: dict[str, float] = {}  #: when stages had the last of their tasks done
        self._before: list[AskedBefore] = []  #: who was offered the slot at hand
        self._offer: _Asked = ("", -1.0)

    # As an observer ------------------------------------------------------------------------------
    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        offer = (slot.id, self._state.now_s)
        if offer != self._offer:
            self._offer = offer
            self._before.clear()
        if isinstance(answer, Place):
            if job.id == self.job and self._task in (None, answer.task.id):
                task = job.task(answer.task.id)
                if task is not None:
                    self.attempts.placed(task, slot, answer, self._before)
            self._before.clear()
            return
        self._before.append(AskedBefore(job.id, answer.reason))
        if job.id == self.job:
            for key, task in self._pending(job):
                if task.stage.open:
                    self._waits_of(key).answered(self._state, task, slot, answer)

    def proposed(self, proposal: Proposal) -> None:
        self.attempts.proposed(proposal)

    # Steps ---------------------------------------------------------------------------------------
    def take(self, step: Step) -> None:
        """An event was handled."""
        self.last_s = step.at_s
        if isinstance(step.event, JobSubmitted) and step.event.job == self.job:
            self.submitted, self.submitted_s = step.event, step.at_s
        if self.submitted is None or (self.ended_s is not None and self._is_over()):
            return
        self.attempts.take(step)
        for command in step.commands:
            match command:
                case LaunchAttempt(attempt=attempt, begins=True) | BeginAttempt(attempt=attempt):
                    self._slot_taken(attempt, step.at_s)
                case OpenCoflow(coflow=coflow):
                    self.opened_s.setdefault(coflow, step.at_s)
                case CloseCoflow(coflow=coflow):
                    self.closed_s[coflow] = step.at_s
                case EndJob(job=job, ok=ok, reason=reason) if job == self.job:
                    self.ended_s = step.at_s
                    self.outcome = "succeeded" if ok else f"failed: {reason}"
        self._review(step)

    def finish(self) -> None:
        """The record is over."""
        for waits in self.waits.values():
            waits.finish()
        self.attempts.finish()

    # ---------------------------------------------------------------------------------------------
    def _is_wanted(self, attempt: AttemptId) -> bool:
        return job_of(attempt) == self.job and self._task in (None, task_of(attempt))

    def _is_over(self) -> bool:
        return all(story.ended_s is not None for story in self.attempts.stories.values())

    def _slot_taken(self, attempt: AttemptId, now_s: float) -> None:
        task = task_of(attempt)
        own: str | None = None
        if self._is_wanted(attempt):
            own = task if self._task else _stage_of(task)
            self._waits_of(own).launched(now_s)
        for key, waits in self.waits.items():
            if key != own:
                waits.launched_other(job_of(attempt))

    def _review(self, step: Step) -> None:
        job = self._state.jobs.get(self.job)
        if job is not None:
            self._note_done(job, step)
        if job is None or job.state != "running":
            for waits in self.waits.values():
                waits.review(self._state, None)
            return
        pending = dict(self._pending(job))
        keys: Sequence[str] = [self._task] if self._task else [s.id for s in job.stages.values()]
        for key in keys:
            self._waits_of(key).review(self._state, pending.get(key))

    def _note_done(self, job: Job, step: Step) -> None:
        if self._task is not None and (task := job.task(self._task)) is not None:
            self.task_state = task.state
        if isinstance(step.event, AttemptSucceeded):
            for stage in job.stages.values():
                if stage.complete:
                    self.done_s.setdefault(stage.id, step.at_s)

    def _pending(self, job: Job) -> list[tuple[str, Task]]:
        """The pending tasks whose waits are noted, each with its key."""
        if self._task is not None:
            task = job.task(self._task)
            return [] if task is None or task.state != "pending" else [(self._task, task)]
        found = ((stage.id, _first_pending(stage)) for stage in job.stages.values())
        return [(key, task) for key, task in found if task is not None]

    def _waits_of(self, key: str) -> Waits:
        if key not in self.waits:
            self.waits[key] = Waits()
        return self.waits[key]


def _first_pending(stage: Stage) -> Task | None:
    index = stage.pending.first() if stage.pending.count else None
    return None if index is None else stage.tasks[index]


def _stage_of(task: TaskId) -> str:
    return task.rstrip("0123456789")
