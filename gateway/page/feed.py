"""A run as rows for the page: what its core's events and commands, and its policies' answers, show.

A row is a list: when, its kind, and what belongs to that kind.

    [at_s, "node", node, rack, slots, "" or why it is lost, whether it is drained]
    [at_s, "job", job, name, queue, user, {stage: how many tasks}, [stages that read no other]]
    [at_s, "launch", attempt, node, lane, level, why here, why its job]   it has a slot from now on
    [at_s, "reserve", attempt, node, why here]             it reads, and waits for a slot
    [at_s, "start", attempt]                               its process runs
    [at_s, "fetch", attempt, whether it fetches now]
    [at_s, "end", attempt, outcome, [[phase, seconds], ...]]
    [at_s, "taken", attempt]                               its output, which was kept, counts
    [at_s, "pairs", [[from rack, to rack, bytes], ...]]    of fetches that ended since then
    [at_s, "status", job, state, progress, waiting, locality, shuffled, to shuffle, across racks]
    [at_s, "done", job, ok, reason, stopped]

Times are seconds of the core's clock, bytes the model's.  Pure.
"""

from __future__ import annotations

from typing import Any

from railyard.cluster.ids import AttemptId, JobId, NodeId, TaskId, job_of, rack_of, task_of
from railyard.cluster.messages import AttemptStarted
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Node
from railyard.resourcemanager.core.policies import Observer
from railyard.resourcemanager.driving.eventlog import Step
from railyard.resourcemanager.driving.history import AttemptSpan, FetchSpan, History, NodeSpan
from railyard.resourcemanager.interface.commands import EndJob
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    Place,
    Proposal,
    Reserve,
    Take,
)
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.process.messages import JobStatus
from railyard.resourcemanager.process.progress import job_status

Row = list[Any]
#: Phases by their letters.
PHASES = {"start": "t", "read": "r", "shuffle": "f", "compute": "c", "sort, write": "w"}
#: Outcomes of attempts, where the page has other words.
_OUTCOMES = {"lost with its node": "failed", "given up": "killed"}
_WHY_LETTERS_MAX = 300


class Feed(Observer):
    """Makes rows of the steps of a core; it observes that core's policies."""

    def __init__(self, core: Core, period_s: float = 0.5) -> None:
        """``period_s``: at most so often is told how far jobs are."""
        self._core = core
        self._period_s = period_s
        self._rows: list[Row] = []
        #: why a task goes to a node, and why it was its job's turn
        self._whys: dict[tuple[TaskId, NodeId], tuple[str, str]] = {}
        self._history = History()
        self._told_fetching: dict[AttemptId, bool] = {}
        self._pairs: dict[tuple[str, str], int] = {}
        self._told: dict[JobId, Row] = {}  #: each job's latest status
        self._told_s = float("-inf")
        core.observe(self)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        at_s = round(step.at_s, 3)
        match step.event:
            case JobSubmitted():
                self._job(step.event, at_s)
            case AttemptStarted(attempt=attempt):
                self._rows.append([at_s, "start", attempt])
        for what, span in self._history.take(step.state, step.at_s, step.event, step.commands):
            match span:
                case NodeSpan():
                    self._node(span.id, at_s)
                case AttemptSpan():
                    self._attempt(what, span, at_s)
                case FetchSpan(outcome="finished", order=order) if span.crosses:
                    pair = rack_of(order.src), rack_of(order.dst)
                    self._pairs[pair] = self._pairs.get(pair, 0) + order.size_bytes
        for command in step.commands:
            if isinstance(command, EndJob):
                self._job_ends(command.job, at_s)
        if at_s >= self._told_s + self._period_s:
            self._told_s = at_s
            self._tell(at_s)

    def drain(self) -> list[Row]:
        """The rows since it was asked last."""
        rows, self._rows = self._rows, []
        return rows

    # As an observer ------------------------------------------------------------------------------
    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        """Keep why a task goes where it does until it is launched."""
        if isinstance(answer, Place):
            policies = self._core.state.policies
            turn = policies.ask(policies.order.why, job)
            self._because(answer.task.id, answer.node or slot.id, answer.why, turn)

    def proposed(self, proposal: Proposal) -> None:
        """Likewise for what no slot was offered for."""
        match proposal:
            case Copy(task=task, node=node, why=why):
                self._because(task.id, node, f"a copy: {why}" if why else "a copy")
            case Reserve(task=task, node=node, why=why):
                self._because(task.id, node, why)
            case Take(attempt=attempt):
                self._rows.append([round(self._core.state.now_s, 3), "taken", attempt.id])

    def _because(self, task: TaskId, node: NodeId, why: str, turn: str = "") -> None:
        self._whys[task, node] = why[:_WHY_LETTERS_MAX], turn[:_WHY_LETTERS_MAX]

    # What happened -------------------------------------------------------------------------------
    def _node(self, name: NodeId, at_s: float) -> None:
        node = self._core.state.nodes[name]
        lost = "" if node.alive else node.lost_because or "lost"
        self._rows.append([at_s, "node", name, node.rack, node.slots, lost, node.draining])

    def _job(self, event: JobSubmitted, at_s: float) -> None:
        stages = {stage.name: stage.tasks for stage in event.stages}
        first = [stage.name for stage in event.stages if not stage.reads]
        about = [event.job, event.name, event.queue, event.user, stages, first]
        self._rows.append([at_s, "job", *about])

    def _attempt(self, what: str, span: AttemptSpan, at_s: float) -> None:
        node = span.node.id
        if what == "slot":
            level = "" if span.attempt is None else span.attempt.level
            whys = self._whys.pop((task_of(span.id), node), ("", ""))
            self._rows.append([at_s, "launch", span.id, node, span.lane, level, *whys])
        elif what == "began" and span.reserved:
            why, _ = self._whys.pop((task_of(span.id), node), ("", ""))
            self._rows.append([at_s, "reserve", span.id, node, why])
        elif what == "ended":
            self._told_fetching.pop(span.id, None)
            late = span.success is not None and span.outcome == "killed"
            how = "lost" if late else _OUTCOMES.get(span.outcome, span.outcome)
            phases = [[PHASES[name], round(s, 3)] for name, s in span.phases_s().items()]
            self._rows.append([at_s, "end", span.id, how, phases])

    # Jobs ----------------------------------------------------------------------------------------
    def _job_ends(self, job: JobId, at_s: float) -> None:
        record = self._core.records.get(job)
        if record is None:
            return
        self._tell_status(job_status(self._core, record, None), at_s)
        self._tell_pairs(at_s)
        self._told.pop(job, None)
        self._rows.append([at_s, "done", job, bool(record.ok), record.reason, record.stopped])
        for known in [key for key in self._whys if job_of(key[0]) == job]:
            del self._whys[known]

    def _tell(self, at_s: float) -> None:
        """Add how far jobs are, who fetches, and what was fetched from rack to rack."""
        for job in self._core.state.jobs.values():
            self._tell_status(job_status(self._core, job.record, job), at_s)
        history = self._history
        for span in (*history.reserved.values(), *history.held.values()):
            fetches = span.open_fetches > 0
            if self._told_fetching.get(span.id, False) != fetches:
                self._told_fetching[span.id] = fetches
                self._rows.append([at_s, "fetch", span.id, fetches])
        self._tell_pairs(at_s)

    def _tell_pairs(self, at_s: float) -> None:
        if self._pairs:
            pairs = [[src, dst, count] for (src, dst), count in self._pairs.items()]
            self._rows.append([at_s, "pairs", pairs])
            self._pairs.clear()

    def _tell_status(self, status: JobStatus, at_s: float) -> None:
        record = self._core.records[status.job]
        row = [
            *("status", status.job, status.state, round(status.progress, 3), status.waiting),
            *(list(status.locality), status.shuffled_bytes, record.shuffle_bytes),
            status.cross_rack_bytes,
        ]
        if self._told.get(status.job) != row:
            self._told[status.job] = row
            self._rows.append([at_s, *row])
