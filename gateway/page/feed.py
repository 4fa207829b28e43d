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


class Feed:
    """Makes rows of the steps of a core; it observes that core's policies."""

    def __init__(self, core: Core, period_s: float = 0.5) -> None:
        """``period_s``: at most so often is told how far jobs are."""
        self._core = core
        self._period_s = period_s
        self._rows: list[Row] = []
        #: why a task goes to a node, and why it was its job's turn
        self._whys: dict[tuple[TaskId, NodeId], tuple[str, str]] = {}
        self._lanes: dict[NodeId, list[AttemptId | None]] = {}
        self._held: dict[AttemptId, tuple[NodeId, int, float]] = {}  #: node, lane, since
        self._started_s: dict[AttemptId, float] = {}
        self._flows: dict[FlowId, tuple[StartFlow, float]] = {}
        self._fetching: dict[AttemptId, int] = {}  #: flows that are open
        self._fetched: dict[AttemptId, AttemptFetches] = {}  #: the last that ended
        self._told_fetching: dict[AttemptId, bool] = {}
        self._pairs: dict[tuple[str, str], int] = {}
        self._told: dict[JobId, Row] = {}  #: each job's latest status
        self._told_s = float("-inf")
        core.observe(self)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        at_s = round(step.at_s, 3)
        self._take_nodes(step, at_s)
        self._take_event(step, at_s)
        launched = {attempt.id: attempt.level for attempt in step.launched}
        for command in step.commands:
            match command:
                case LaunchAttempt(attempt=attempt, node=node, begins=True):
                    self._launch(attempt, node, launched.get(attempt, ""), at_s)
                case LaunchAttempt(attempt=attempt, node=node):
                    why, _ = self._whys.pop((task_of(attempt), node), ("", ""))
                    self._rows.append([at_s, "reserve", attempt, node, why])
                case BeginAttempt(attempt=attempt, node=node):
                    known = self._core.state.attempts.get(attempt)
                    self._launch(attempt, node, "" if known is None else known.level, at_s)
                case KillAttempt(attempt=attempt) if attempt not in self._held:
                    self._end(attempt, "killed", at_s)  # a reservation that is given up
                case StartFlow():
                    self._flow_begins(command, at_s)
                case CancelFlow(flow=flow):
                    self._flow_ends(flow, at_s, finished=False)
                case EndJob(job=job):
                    self._job_ends(job, at_s)
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

    # Events --------------------------------------------------------------------------------------
    def _take_nodes(self, step: Step, at_s: float) -> None:
        match step.event:
            case NodeJoined(node=node):
                self._lose(node, at_s)  # what ran there, if it started anew
                self._node(node, at_s)
            case SlotsChanged(node=node) | DrainStarted(node=node) | NodeActivated(node=node):
                self._node(node, at_s)
            case NodeLost(node=node):
                self._lose(node, at_s)
                self._node(node, at_s)
            case NodeRestarted(node=node):
                self._lose(node, at_s)

    def _take_event(self, step: Step, at_s: float) -> None:
        match step.event:
            case JobSubmitted():
                self._job(step.event, at_s)
            case AttemptStarted(attempt=attempt):
                self._started_s[attempt] = at_s
                self._rows.append([at_s, "start", attempt])
            case AttemptSucceeded(attempt=attempt) if step.success is not None:
                state = step.success.state
                self._end(attempt, "lost" if state == "killed" else state, at_s, step.event)
            case AttemptFailed(attempt=attempt):
                self._end(attempt, "failed", at_s)
            case AttemptKilled(attempt=attempt):
                self._end(attempt, "killed", at_s)
            case FlowFinished(flow=flow):
                self._flow_ends(flow, at_s, finished=True)
            case FlowFailed(flow=flow):
                self._flow_ends(flow, at_s, finished=False)

    def _node(self, name: NodeId, at_s: float) -> None:
        node = self._core.state.nodes[name]
        lanes = self._lanes.setdefault(name, [])
        lanes += [None] * (node.slots - len(lanes))
        lost = "" if node.alive else node.lost_because or "lost"
        self._rows.append([at_s, "node", name, node.rack, node.slots, lost, node.draining])

    def _lose(self, node: NodeId, at_s: float) -> None:
        for attempt in [a for a, (where, _, _) in self._held.items() if where == node]:
            self._end(attempt, "failed", at_s)

    def _job(self, event: JobSubmitted, at_s: float) -> None:
        stages = {stage.name: stage.tasks for stage in event.stages}
        first = [stage.name for stage in event.stages if not stage.reads]
        about = [event.job, event.name, event.queue, event.user, stages, first]
        self._rows.append([at_s, "job", *about])

    # Attempts ------------------------------------------------------------------------------------
    def _launch(self, attempt: AttemptId, node: NodeId, level: str, at_s: float) -> None:
        lanes = self._lanes.setdefault(node, [])
        lane = lanes.index(None) if None in lanes else len(lanes)
        lanes[lane : lane + 1] = [attempt]
        self._held[attempt] = node, lane, at_s
        whys = self._whys.pop((task_of(attempt), node), ("", ""))
        self._rows.append([at_s, "launch", attempt, node, lane, level, *whys])

    def _end(
        self, attempt: AttemptId, how: str, at_s: float, success: AttemptSucceeded | None = None
    ) -> None:
        started_s = self._started_s.pop(attempt, None)
        fetched = self._fetched.pop(attempt, AttemptFetches())
        self._fetching.pop(attempt, None)
        self._told_fetching.pop(attempt, None)
        node, lane, since_s = self._held.pop(attempt, (None, 0, at_s))
        phases: list[list[Any]] = []
        if node is not None:
            self._lanes[node][lane] = None
            lengths_s = phases_of(Slice(0, lane, since_s, at_s), started_s, fetched, success)
            phases = [[PHASES[name], round(length_s, 3)] for name, length_s in lengths_s.items()]
        self._rows.append([at_s, "end", attempt, how, phases])

    # Fetches -------------------------------------------------------------------------------------
    def _flow_begins(self, order: StartFlow, at_s: float) -> None:
        self._flows[order.flow] = order, at_s
        self._fetching[order.reader] = self._fetching.get(order.reader, 0) + 1

    def _flow_ends(self, flow: FlowId, at_s: float, *, finished: bool) -> None:
        order, since_s = self._flows.pop(flow, (None, 0.0))
        if order is None:
            return
        if order.reader in self._fetching:
            self._fetching[order.reader] -= 1
        if finished and order.src != order.dst:
            self._fetched[order.reader] = AttemptFetches([(order, since_s, at_s)])
            pair = rack_of(order.src), rack_of(order.dst)
            self._pairs[pair] = self._pairs.get(pair, 0) + order.size_bytes

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
        for attempt, flows in self._fetching.items():
            if self._told_fetching.get(attempt, False) != bool(flows):
                self._told_fetching[attempt] = bool(flows)
                self._rows.append([at_s, "fetch", attempt, bool(flows)])
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
