"""Replays a run and notes what concerns one job: the observer behind all explanations.

Never here: what is made of the notes; see ``explain.py``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, TaskId, job_of, task_of
from railyard.cluster.messages import AttemptSucceeded
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Node, Task
from railyard.resourcemanager.core.offers import cause_of
from railyard.resourcemanager.core.policies import Observer
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import Step, read_log, replay_on
from railyard.resourcemanager.driving.explanation import (
    Answered,
    AskedBefore,
    AttemptStory,
    Chosen,
    Fetched,
    Turns,
    Waited,
)
from railyard.resourcemanager.driving.history import (
    AttemptSpan,
    Change,
    CoflowSpan,
    FetchSpan,
    History,
)
from railyard.resourcemanager.interface.commands import EndJob
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    Pass,
    Place,
    Proposal,
    Reserve,
    Take,
    Wait,
)
from railyard.resourcemanager.interface.events import JobSubmitted


class RunObserver(Observer):
    """Notes what a run that is replayed says of something, and why policies decided so."""

    config: ClusterConfig  #: of the run
    last_s = 0.0  #: the time of the record's last event, once it is over

    def take(self, step: Step, changes: Sequence[Change]) -> None:
        """Note what a step has changed."""

    def finish(self) -> None:
        """The record is over."""

    def header(self, what: str) -> dict[str, Any]:
        return {
            "what": what,
            "scheduler": self.config.scheduler,
            "flow_scheduler": self.config.flow_scheduler,
            "recorded_s": self.last_s,
        }


Noting = TypeVar("Noting", bound=RunObserver)


def replay_for(events: Path, makes: Iterable[Callable[[Core], Noting]]) -> list[Noting]:
    """Have a fresh core handle a run's events; returns its observers, each made of that core.

    Raises ``Diverged`` if that does not give the log's commands.
    """
    config, logged = read_log(events)
    core, history = core_for(config), History()
    observers = [make(core) for make in makes]
    for one in observers:
        one.config = config
        core.observe(one)
    for step in replay_on(core, events, logged):
        changes = history.take(step.state, step.at_s, step.event, step.commands)
        for one in observers:
            one.last_s = step.at_s
            one.take(step, changes)
    for one in observers:
        one.finish()
    return observers


class Recorder(RunObserver):
    """Notes what becomes of a job: of one of its tasks, or of the first pending one of each stage.

    ``task``: the only one whose waits and attempts are noted; None = those of all stages.
    """

    def __init__(self, core: Core, job: JobId, task: TaskId | None = None) -> None:
        self._state = core.state
        self.job = job
        self._task = task
        self.jobs: list[JobId] = []  #: all that were submitted
        self.submitted: JobSubmitted | None = None
        self.submitted_s = 0.0
        self.ended_s: float | None = None
        self.outcome = ""
        self.task_state = ""  #: of ``task``, as it was last
        self.waits: defaultdict[str, Waits] = defaultdict(Waits)  #: by task, or by stage
        self.attempts = AttemptStories(core.state, self._is_wanted)
        self.coflows: dict[str, CoflowSpan] = {}
        self.done_s: dict[str, float] = {}  #: when stages had the last of their tasks done
        self._before: list[AskedBefore] = []  #: who was offered the slot at hand
        self._offer = ("", -1.0)  #: the node with an offered slot, and when

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
                    self.waits[key].answered(self._state, task, slot, answer)

    def proposed(self, proposal: Proposal) -> None:
        self.attempts.proposed(proposal)

    # Steps ---------------------------------------------------------------------------------------
    def take(self, step: Step, changes: Sequence[Change]) -> None:
        if isinstance(step.event, JobSubmitted):
            self.jobs.append(step.event.job)
            if step.event.job == self.job:
                self.submitted, self.submitted_s = step.event, step.at_s
        stories = self.attempts.stories.values()
        over = self.ended_s is not None and all(story.ended_s is not None for story in stories)
        if self.submitted is None or over:
            return
        self.attempts.take(step, changes)
        for what, span in changes:
            if isinstance(span, AttemptSpan) and what == "slot":
                self._slot_taken(span.id, step.at_s)
            elif isinstance(span, CoflowSpan):
                self.coflows.setdefault(span.id, span)
        for command in step.commands:
            if isinstance(command, EndJob) and command.job == self.job:
                self.ended_s = step.at_s
                self.outcome = "succeeded" if command.ok else f"failed: {command.reason}"
        self._review(step)

    def finish(self) -> None:
        for waits in self.waits.values():
            waits.finish()
        self.attempts.finish()

    # ---------------------------------------------------------------------------------------------
    def _is_wanted(self, attempt: AttemptId) -> bool:
        return job_of(attempt) == self.job and self._task in (None, task_of(attempt))

    def _slot_taken(self, attempt: AttemptId, now_s: float) -> None:
        task = task_of(attempt)
        own: str | None = None
        if self._is_wanted(attempt):
            own = task if self._task else task.rstrip("0123456789")  # its stage
            if self.waits[own].runnable_s is None:
                self.waits[own].runnable_s = now_s
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
            self.waits[key].review(self._state, pending.get(key))

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
        found = ((stage.id, stage.first_pending()) for stage in job.stages.values())
        return [(key, task) for key, task in found if task is not None]


_NOT_COUNTED = "did its task; its output does not count: others were first, or were chosen"


class AttemptStories(RunObserver):
    """Where some attempts of a run went and why, what they read, and how they ended."""

    def __init__(self, state: ClusterState, wanted: Callable[[AttemptId], bool]) -> None:
        self._state = state
        self._wanted = wanted  #: whether an attempt is one of them
        self.stories: dict[AttemptId, AttemptStory] = {}
        self.flows: dict[FlowId, Fetched] = {}
        self._spans: list[AttemptSpan] = []
        self._done_s: dict[AttemptId, float] = {}  #: when attempts of any task succeeded
        self._chosen: dict[tuple[TaskId, NodeId], Chosen] = {}

    # Answers and proposals -----------------------------------------------------------------------
    def placed(self, task: Task, slot: Node, answer: Place, before: Sequence[AskedBefore]) -> None:
        policies, stage = self._state.policies, task.stage
        level, free = stage.pending.level, self._state.free_nodes()
        levels = Counter[str](level(task.index, node.id, node.rack) for node in free)
        self._chosen[task.id, answer.node or slot.id] = Chosen(
            who=f"{policies.name}/tasks",
            how="placed",
            why=answer.why,
            planned=policies.ask(policies.tasks.planned, task),
            order=policies.ask(policies.order.why, stage.job),
            asked_before=tuple(before),
            free_nodes=dict(levels),
        )

    def proposed(self, proposal: Proposal) -> None:
        name = self._state.policies.name
        match proposal:
            case Copy(task=task, node=node, why=why):
                chosen = Chosen(who=f"{name}/copies", how="copied", why=why)
                self._chosen[task.id, node] = chosen
            case Reserve(task=task, node=node, why=why):
                planned = self._state.policies.ask(self._state.policies.tasks.planned, task)
                chosen = Chosen(who=f"{name}/tasks", how="reserved", why=why, planned=planned)
                self._chosen[task.id, node] = chosen
            case Take(attempt=attempt, why=why):
                if (story := self.stories.get(attempt.id)) is not None:
                    story.outcome, story.taken = "succeeded", why or "its output was taken"

    # What happened -------------------------------------------------------------------------------
    def take(self, step: Step, changes: Sequence[Change]) -> None:
        for what, span in changes:
            match span:
                case AttemptSpan() if what == "ended":
                    if span.success is not None:
                        self._done_s[span.id] = step.at_s
                    self._ended(span)
                case AttemptSpan() if what == "began" and self._wanted(span.id):
                    self._launched(span)
                case AttemptSpan(reserved=True) if what == "slot" and span.id in self.stories:
                    story = self.stories[span.id]
                    story.slot_s = span.slot_s
                    story.chosen = self._chosen.pop((task_of(span.id), span.node.id), None)
                case FetchSpan() if what == "began" and self._wanted(span.order.reader):
                    self._fetch_began(span)
                case FetchSpan() if what == "ended" and span.order.flow in self.flows:
                    fetched = self.flows[span.order.flow]
                    fetched.ended_s = span.ended_s
                    fetched.how = f"failed: {span.reason}" if span.reason else span.outcome

    def finish(self) -> None:
        """The record is over: it is known now which outputs that were kept count, and who ends."""
        for span in self._spans:
            story, attempt = self.stories[span.id], span.attempt
            if attempt is None:
                continue
            if span.ended_s is None and attempt.killing:
                story.outcome = f"was asked to end: {attempt.killing}"
            elif span.outcome == "kept" and attempt.state in ("succeeded", "output lost"):
                story.outcome = "succeeded; its output was kept, then taken"

    def _launched(self, span: AttemptSpan) -> None:
        attempt = span.attempt
        chosen = self._chosen.pop((task_of(span.id), span.node.id), None)
        self._spans.append(span)
        self.stories[span.id] = AttemptStory(
            attempt=span.id,
            node=span.node.id,
            level="unknown" if attempt is None else attempt.level,
            at_s=span.launched_s,
            slot_s=None if span.reserved else span.launched_s,
            chosen=None if span.reserved else chosen,
            reserved=chosen if span.reserved else None,
            replicas=() if attempt is None else attempt.task.input.nodes,
        )

    def _ended(self, span: AttemptSpan) -> None:
        story = self.stories.get(span.id)
        if story is None:
            return
        story.ended_s = span.ended_s
        killing = "" if span.attempt is None else span.attempt.killing
        if (success := span.success) is not None:
            story.read_bytes = success.local_bytes, success.rack_bytes, success.remote_bytes
            story.read_s, story.computed_s = success.read_s, success.computed_s
            counts = bool(story.taken) or span.outcome == "succeeded"  # taken in the very same step
            story.outcome = "succeeded" if counts else _NOT_COUNTED
        elif span.outcome == "failed":
            story.outcome = f"failed: {span.reason}"
        elif span.outcome == "lost with its node":
            story.outcome = span.reason or span.outcome
        else:
            reason = span.reason or killing
            story.outcome = f"was asked to end: {reason}" if reason else "killed"

    def _fetch_began(self, span: FetchSpan) -> None:
        order, done_s = span.order, self._done_s
        ready = [(done_s[output], output) for output in order.outputs if output in done_s]
        last_s, last = max(ready, default=(None, None))
        fetched = self.flows[order.flow] = Fetched(
            flow=order.flow,
            coflow=order.coflow,
            reader=order.reader,
            src=order.src,
            dst=order.dst,
            size_bytes=order.size_bytes,
            weight=order.weight,
            priority=order.priority,
            started_s=span.began_s,
            outputs=len(order.outputs),
            last_output=last,
            last_output_s=last_s,
        )
        if (story := self.stories.get(order.reader)) is not None:
            story.fetches.append(fetched)


#: Figures in a reason, which may change while it stays the same; not those of ids, such as r1.
_FIGURES = re.compile(r"(?<![a-z\d])\d[\d.,:e+-]*")
#: What a task can only wait for before it could have had a slot.
_NOT_RUNNABLE = ("shuffle", "sources")


class Waits:
    """What a pending task waited for, what its job answered, and who had slots meanwhile."""

    def __init__(self) -> None:
        self.waits: list[Waited] = []
        self.answers: list[Answered] = []
        self._by_key: dict[tuple[str, str, str], Answered] = {}
        self.turns = Turns()
        self.plans: list[tuple[float, str]] = []  #: what was planned for it, when that changed
        self.runnable_s: float | None = None
        self.is_waiting = False  #: whether it was pending after the event before

    def answered(self, state: ClusterState, task: Task, slot: Node, answer: Wait | Pass) -> None:
        what, until_s = ("wait", answer.until_s) if isinstance(answer, Wait) else ("pass", None)
        planned = state.policies.ask(state.policies.tasks.planned, task)
        key = what, answer.reason, planned
        last = self._by_key.get(key)
        if last is None:
            last = self._by_key[key] = Answered(
                from_s=state.now_s, to_s=state.now_s, offers=0, answer=what,
                why=answer.reason, until_s=until_s, nodes=(), planned=planned,
            )  # fmt: skip
            self.answers.append(last)
        last.to_s, last.until_s, last.offers = state.now_s, until_s, last.offers + 1
        if slot.id not in last.nodes:
            last.nodes += (slot.id,)

    def launched_other(self, job: JobId) -> None:
        """An attempt of another task got a slot; no matter while this one could not have had it."""
        if self.is_waiting and self.waits and self.waits[-1].cause not in _NOT_RUNNABLE:
            self.turns.slots[job] = self.turns.slots.get(job, 0) + 1

    def review(self, state: ClusterState, task: Task | None) -> None:
        """An event was handled: note what the task waits for now; None = it is not pending."""
        now_s = state.now_s
        if self.is_waiting and self.waits:
            self.waits[-1].to_s = now_s
        self.is_waiting = task is not None
        if task is None:
            return
        cause = cause_of(state, task)
        if self.runnable_s is None and cause.what not in _NOT_RUNNABLE:
            self.runnable_s = now_s
        who = _who(state, cause.what)
        last = self.waits[-1] if self.waits else None
        if last is not None and last.from_s == last.to_s == now_s and not _same(last, cause):
            self.waits.pop()  # it was so for no time
            last = self.waits[-1] if self.waits else None
        if last is not None and last.to_s == now_s and _same(last, cause):
            last.why_last = cause.why
        else:
            new = Waited(
                from_s=now_s, to_s=now_s, who=who, cause=cause.what,
                why=cause.why, why_last=cause.why,
            )  # fmt: skip
            self.waits.append(new)
        planned = state.policies.ask(state.policies.tasks.planned, task)
        if planned != (self.plans[-1][1] if self.plans else ""):
            self.plans.append((now_s, planned))
        if cause.what in ("slots", "order"):
            order = state.policies.ask(state.policies.order.why, task.stage.job)
            if not self.turns.order or self.turns.order[-1][1] != order:
                self.turns.order.append((now_s, order))

    def finish(self) -> None:
        """The record is over: drop what lasted no time, but not what still lasts."""
        last = self.waits[-1:] if self.is_waiting else []
        self.waits = [each for each in self.waits if each.to_s > each.from_s or each in last]


def _same(wait: Waited, cause: tuple[str, str]) -> bool:
    """Whether it waits for the same, but for figures."""
    what, why = cause
    return wait.cause == what and _FIGURES.sub("#", wait.why) == _FIGURES.sub("#", why)


def _who(state: ClusterState, cause: str) -> str:
    if cause in ("order", "tasks", "shuffle"):
        return f"{state.policies.name}/{cause}"
    return "nodes" if cause == "nodes" else "core"
