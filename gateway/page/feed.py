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

from collections import Counter
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
        """``period_s``: at most so often there are rows with how far jobs are."""
        self._core = core
        self._period_s = period_s
        self._at_s = 0.0
        self._rows: list[Row] = []
        #: why a task goes to a node, and why it was its job's turn
        self._whys: dict[tuple[TaskId, NodeId], tuple[str, str]] = {}
        self._history = History()
        self._fetching: dict[AttemptId, bool] = {}  #: whether it does, by the latest row
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._statuses: dict[JobId, Row] = {}  #: each job's latest
        self._statuses_s = float("-inf")
        core.observe(self)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        self._at_s = round(step.at_s, 3)
        match step.event:
            case JobSubmitted() as job:
                stages = {stage.name: stage.tasks for stage in job.stages}
                first = [stage.name for stage in job.stages if not stage.reads]
                self._add("job", job.job, job.name, job.queue, job.user, stages, first)
            case AttemptStarted(attempt=attempt):
                self._add("start", attempt)
        for what, span in self._history.take(step.state, step.at_s, step.event, step.commands):
            match span:
                case NodeSpan():
                    self._node(span.id)
                case AttemptSpan():
                    self._attempt(what, span)
                case FetchSpan(outcome="finished", order=order) if span.crosses:
                    self._pairs[rack_of(order.src), rack_of(order.dst)] += order.size_bytes
        for command in step.commands:
            if isinstance(command, EndJob):
                self._job_ends(command.job)
        if self._at_s >= self._statuses_s + self._period_s:
            self._statuses_s = self._at_s
            self._add_statuses()

    def drain(self) -> list[Row]:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _add(self, kind: str, *row: object) -> None:
        self._rows.append([self._at_s, kind, *row])

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
    def _node(self, name: NodeId) -> None:
        node = self._core.state.nodes[name]
        lost = "" if node.alive else node.lost_because or "lost"
        self._add("node", name, node.rack, node.slots, lost, node.draining)

    def _attempt(self, what: str, span: AttemptSpan) -> None:
        node = span.node.id
        if what == "slot":
            level = "" if span.attempt is None else span.attempt.level
            whys = self._whys.pop((task_of(span.id), node), ("", ""))
            self._add("launch", span.id, node, span.lane, level, *whys)
        elif what == "began" and span.reserved:
            why, _ = self._whys.pop((task_of(span.id), node), ("", ""))
            self._add("reserve", span.id, node, why)
        elif what == "ended":
            self._fetching.pop(span.id, None)
            late = span.success is not None and span.outcome == "killed"
            how = "lost" if late else _OUTCOMES.get(span.outcome, span.outcome)
            phases = [[PHASES[name], round(s, 3)] for name, s in span.phases_s().items()]
            self._add("end", span.id, how, phases)

    # Jobs ----------------------------------------------------------------------------------------
    def _job_ends(self, job: JobId) -> None:
        record = self._core.records.get(job)
        if record is None:
            return
        self._add_status(job_status(self._core, record, None))
        self._add_pairs()
        self._statuses.pop(job, None)
        self._add("done", job, bool(record.ok), record.reason, record.stopped)
        for known in [key for key in self._whys if job_of(key[0]) == job]:
            del self._whys[known]

    def _add_statuses(self) -> None:
        """Add how far jobs are, who fetches, and what was fetched from rack to rack."""
        for job in self._core.state.jobs.values():
            self._add_status(job_status(self._core, job.record, job))
        for span in (*self._history.reserved.values(), *self._history.held.values()):
            fetches = span.open_fetches > 0
            if self._fetching.get(span.id, False) != fetches:
                self._fetching[span.id] = fetches
                self._add("fetch", span.id, fetches)
        self._add_pairs()

    def _add_pairs(self) -> None:
        if self._pairs:
            self._add("pairs", [[src, dst, count] for (src, dst), count in self._pairs.items()])
            self._pairs.clear()

    def _add_status(self, status: JobStatus) -> None:
        record = self._core.records[status.job]
        row = [
            *("status", status.job, status.state, round(status.progress, 3), status.waiting),
            *(list(status.locality), status.shuffled_bytes, record.shuffle_bytes),
            status.cross_rack_bytes,
        ]
        if self._statuses.get(status.job) != row:
            self._statuses[status.job] = row
            self._rows.append([self._at_s, *row])
