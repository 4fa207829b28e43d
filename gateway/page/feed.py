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

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, TaskId, job_of, rack_of, task_of
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
    DrainStarted,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    NodeActivated,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    StartFlow,
)
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Node
from railyard.resourcemanager.driving.eventlog import Step
from railyard.resourcemanager.driving.trace import AttemptFetches, Slice, phases_of
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
_WHY_LETTERS_MAX = 300


@dataclass
class _Attempt:
    """What is known of an attempt that has not ended."""

    node: NodeId | None = None  #: on which it has a slot
    lane: int = 0
    since_s: float = 0.0
    started_s: float | None = None
    flows: int = 0  #: that are open
    fetches: bool = False  #: whether it does, by the latest row
    fetched: AttemptFetches = field(default_factory=AttemptFetches)  #: the last that ended


class Feed:
    """Makes rows of the steps of a core; it observes that core's policies."""

    def __init__(self, core: Core, period_s: float = 0.5) -> None:
        """``period_s``: at most so often there are rows with how far jobs are."""
        self._core = core
        self._period_s = period_s
        self._at_s = 0.0
        self._rows: list[Row] = []
        #: why a task goes to a node, and why it was its job's turn
        self._whys: dict[tuple[TaskId, NodeId], tuple[str, str]] = {}
        self._lanes: dict[NodeId, list[AttemptId | None]] = {}
        self._attempts: defaultdict[AttemptId, _Attempt] = defaultdict(_Attempt)
        self._flows: dict[FlowId, tuple[StartFlow, float]] = {}
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._statuses: dict[JobId, Row] = {}  #: each job's latest
        self._statuses_s = float("-inf")
        core.observe(self)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        self._at_s = round(step.at_s, 3)
        self._take_node_event(step)
        self._take_event(step)
        launched = {attempt.id: attempt.level for attempt in step.launched}
        for command in step.commands:
            match command:
                case LaunchAttempt(attempt=attempt, node=node, begins=True):
                    self._launch(attempt, node, launched.get(attempt, ""))
                case LaunchAttempt(attempt=attempt, node=node):
                    why, _ = self._whys.pop((task_of(attempt), node), ("", ""))
                    self._add("reserve", attempt, node, why)
                case BeginAttempt(attempt=attempt, node=node):
                    known = self._core.state.attempts.get(attempt)
                    self._launch(attempt, node, "" if known is None else known.level)
                case KillAttempt(attempt=attempt) if self._attempts[attempt].node is None:
                    self._end(attempt, "killed")  # a reservation that is withdrawn
                case StartFlow():
                    self._flows[command.flow] = command, self._at_s
                    self._attempts[command.reader].flows += 1
                case CancelFlow(flow=flow):
                    self._flow_ends(flow, finished=False)
                case EndJob(job=job):
                    self._job_ends(job)
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

    # Events --------------------------------------------------------------------------------------
    def _take_node_event(self, step: Step) -> None:
        match step.event:
            case NodeJoined(node=node) | NodeLost(node=node):
                self._lose(node)  # what ran there, if it started anew
                self._node(node)
            case SlotsChanged(node=node) | DrainStarted(node=node) | NodeActivated(node=node):
                self._node(node)
            case NodeRestarted(node=node):
                self._lose(node)

    def _take_event(self, step: Step) -> None:
        match step.event:
            case JobSubmitted() as job:
                stages = {stage.name: stage.tasks for stage in job.stages}
                first = [stage.name for stage in job.stages if not stage.reads]
                self._add("job", job.job, job.name, job.queue, job.user, stages, first)
            case AttemptStarted(attempt=attempt):
                self._attempts[attempt].started_s = self._at_s
                self._add("start", attempt)
            case AttemptSucceeded(attempt=attempt) if step.success is not None:
                state = step.success.state
                self._end(attempt, "lost" if state == "killed" else state, step.event)
            case AttemptFailed(attempt=attempt):
                self._end(attempt, "failed")
            case AttemptKilled(attempt=attempt):
                self._end(attempt, "killed")
            case FlowFinished(flow=flow):
                self._flow_ends(flow, finished=True)
            case FlowFailed(flow=flow):
                self._flow_ends(flow, finished=False)

    def _node(self, name: NodeId) -> None:
        node = self._core.state.nodes[name]
        lanes = self._lanes.setdefault(name, [])
        lanes += [None] * (node.slots - len(lanes))
        lost = "" if node.alive else node.lost_because or "lost"
        self._add("node", name, node.rack, node.slots, lost, node.draining)

    def _lose(self, node: NodeId) -> None:
        for attempt in [name for name, known in self._attempts.items() if known.node == node]:
            self._end(attempt, "failed")

    # Attempts ------------------------------------------------------------------------------------
    def _launch(self, attempt: AttemptId, node: NodeId, level: str) -> None:
        lanes = self._lanes.setdefault(node, [])
        lane = lanes.index(None) if None in lanes else len(lanes)
        lanes[lane : lane + 1] = [attempt]
        known = self._attempts[attempt]
        known.node, known.lane, known.since_s = node, lane, self._at_s
        whys = self._whys.pop((task_of(attempt), node), ("", ""))
        self._add("launch", attempt, node, lane, level, *whys)

    def _end(self, attempt: AttemptId, how: str, success: AttemptSucceeded | None = None) -> None:
        known = self._attempts.pop(attempt, _Attempt())
        phases: list[list[Any]] = []
        if known.node is not None:
            self._lanes[known.node][known.lane] = None
            slot = Slice(0, known.lane, known.since_s, self._at_s)
            lengths_s = phases_of(slot, known.started_s, known.fetched, success)
            phases = [[PHASES[name], round(length_s, 3)] for name, length_s in lengths_s.items()]
        self._add("end", attempt, how, phases)

    def _flow_ends(self, flow: FlowId, *, finished: bool) -> None:
        order, since_s = self._flows.pop(flow, (None, 0.0))
        if order is None:
            return
        reader = self._attempts.get(order.reader)
        if reader is not None:
            reader.flows -= 1
        if finished and order.src != order.dst:
            if reader is not None:
                reader.fetched = AttemptFetches([(order, since_s, self._at_s)])
            self._pairs[rack_of(order.src), rack_of(order.dst)] += order.size_bytes

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
        for name, attempt in self._attempts.items():
            if attempt.fetches != bool(attempt.flows):
                attempt.fetches = bool(attempt.flows)
                self._add("fetch", name, attempt.fetches)
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
