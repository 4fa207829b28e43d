"""A run as Chrome's trace format, for Perfetto: who held which slot when, and what was shuffled.

A node is a "process" with a lane for each slot; "network" is one with a lane for each coflow, and
"optical ports" one with a lane for each port that had circuits (``opticaltrace.py``).  Attempts
that have no slot yet are shown at their node, beside its slots (``reservationtrace.py``).  An
attempt is named after its job and stage; its phases and fetches are in ``attempttrace.py``, links
and circuits as counters in ``countertrace.py``.  The outcome of an attempt whose output was kept
says whether it was taken later.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from railyard.cluster.ids import (
    AttemptId,
    CoflowId,
    FlowId,
    JobId,
    NodeId,
    job_of,
    stage_of,
)
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
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
from railyard.netemu.record.circuits import CircuitUse
from railyard.netemu.record.links import Sample
from railyard.resourcemanager.core.state.jobs import Attempt
from railyard.resourcemanager.driving.attempttrace import (
    ARROWS_MAX,
    Fetches,
    Slice,
    arrow_rows,
    phase_rows,
    phases_of,
)
from railyard.resourcemanager.driving.countertrace import circuit_counters, link_rows
from railyard.resourcemanager.driving.eventlog import Step, Success
from railyard.resourcemanager.driving.opticaltrace import optical_rows, row_name
from railyard.resourcemanager.driving.reservationtrace import Reservations
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.interface.views import Level

_NETWORK = 0  #: number of the network's "process"; nodes are numbered from 1
_OUTCOME = {AttemptFailed: "failed", AttemptKilled: "killed"}
#: Outcomes of attempts whose output was kept for a while, for the copies policy to choose.
TAKEN, NOT_TAKEN = "kept, then taken", "kept, then not taken"


def chrome_trace(
    steps: Iterable[Step],
    circuits: Sequence[CircuitUse] = (),
    samples: Sequence[Sample] = (),
) -> dict[str, Any]:
    """The trace of a replayed run; ``json.dump`` it to a file for ui.perfetto.dev.

    ``samples``: of the links' bytes over time.
    """
    trace = _Trace()
    for step in steps:
        trace.take(step)
    trace.name_what_was_taken()
    optical = optical_rows(circuits, trace.nodes + 1)
    optical += circuit_counters(circuits, trace.nodes + 1)
    links = link_rows(samples, trace.nodes + 2)
    return {"traceEvents": trace.rows + optical + links, "displayTimeUnit": "ms"}


class _Trace:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = [row_name("process_name", _NETWORK, 0, "network")]
        self._numbers: dict[NodeId, int] = {}
        self._lanes: dict[NodeId, list[AttemptId | None]] = {}  #: who is in which slot
        self._running: dict[AttemptId, tuple[NodeId, int, float]] = {}  #: node, lane, since
        self._jobs: dict[JobId, str] = {}  #: name of each
        self._levels: dict[AttemptId, Level] = {}  #: how far what it reads is from each attempt
        self._started_s: dict[AttemptId, float] = {}
        self._slices: dict[AttemptId, Slice] = {}  #: of attempts that succeeded
        self._fetches: dict[AttemptId, Fetches] = {}  #: of those that have not ended
        self._arrows = 0
        self._flows: dict[FlowId, tuple[StartFlow, float]] = {}
        self._coflows: dict[CoflowId, int] = {}  #: lane of each
        self._reservations = Reservations(self.rows, self._numbers)
        #: attempts with kept output, each with the "args" of its row
        self._kept: list[tuple[Attempt, dict[str, Any]]] = []

    @property
    def nodes(self) -> int:
        """How many nodes have been seen."""
        return len(self._numbers)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        self._note(step)
        self._take_event(step)
        for command in step.commands:
            match command:
                case (
                    LaunchAttempt(attempt=attempt, node=node, begins=True)
                    | BeginAttempt(attempt=attempt, node=node)
                ):
                    self._reservations.ended(attempt, "got a slot", step.at_s)
                    self._launched(attempt, node, step.at_s)
                case LaunchAttempt(attempt=attempt, node=node):
                    self._reservations.made(attempt, node, step.at_s)
                case KillAttempt(attempt=attempt):
                    self._reservations.ended(attempt, "given up", step.at_s)
                case StartFlow(flow=flow):
                    self._flows[flow] = command, step.at_s
                case CancelFlow(flow=flow):
                    self._flow_over(flow, "cancelled", step.at_s)
                case OpenCoflow(coflow=coflow):
                    self._coflow(coflow, "B", step.at_s)
                case CloseCoflow(coflow=coflow):
                    self._coflow(coflow, "E", step.at_s)

    def name_what_was_taken(self) -> None:
        """At the end: of kept outputs it is known now whether they count."""
        for attempt, args in self._kept:
            args["outcome"] = NOT_TAKEN if attempt.state in ("kept", "killed") else TAKEN

    def _note(self, step: Step) -> None:
        """Keep what is shown with an attempt's end."""
        self._levels |= {attempt.id: attempt.level for attempt in step.launched}
        match step.event:
            case JobSubmitted(job=job, name=name):
                self._jobs[job] = name
            case AttemptStarted(attempt=attempt):
                self._started_s[attempt] = step.at_s
            case AttemptReady(attempt=attempt):
                self._reservations.ready(attempt, step.at_s)

    def _take_event(self, step: Step) -> None:
        match step.event:
            case NodeJoined(node=node, slots=slots):
                self._lost(node, step.at_s)  # what ran there, if it started anew
                self._node(node, slots)
            case SlotsChanged(node=node, slots=slots) | NodeActivated(node=node, slots=slots):
                self._node(node, slots)
            case NodeLost(node=node) | NodeRestarted(node=node):
                self._lost(node, step.at_s)
            case AttemptSucceeded() if step.success is not None:
                self._succeeded(step.success, step.event, step.at_s)
            case AttemptFailed() | AttemptKilled():
                self._reservations.ended(step.event.attempt, _OUTCOME[type(step.event)], step.at_s)
                self._ended(step.event.attempt, _OUTCOME[type(step.event)], step.at_s)
            case FlowFinished(flow=flow):
                self._flow_over(flow, "finished", step.at_s)
            case FlowFailed(flow=flow):
                self._flow_over(flow, "failed", step.at_s)

    def _node(self, node: NodeId, slots: int) -> None:
        if node not in self._numbers:
            number = self._numbers[node] = len(self._numbers) + 1
            self.rows.append(row_name("process_name", number, 0, node))
        known = self._lanes.setdefault(node, [])
        for lane in range(len(known), slots):
            known.append(None)
            self.rows.append(row_name("thread_name", self._numbers[node], lane, f"slot {lane}"))

    def _lost(self, node: NodeId, at_s: float) -> None:
        self._reservations.lost(node, at_s)
        for attempt in [a for a, (where, _, _) in self._running.items() if where == node]:
            self._ended(attempt, "lost with its node", at_s)

    def _launched(self, attempt: AttemptId, node: NodeId, at_s: float) -> None:
        lanes = self._lanes[node]
        lane = lanes.index(None)
        lanes[lane] = attempt
        self._running[attempt] = node, lane, at_s

    def _succeeded(self, success: Success, event: AttemptSucceeded, at_s: float) -> None:
        late = success.state == "killed"
        args = self._ended(event.attempt, "too late" if late else success.state, at_s, event)
        if success.state == "kept":
            self._kept.append((success.attempt, args))

    def _ended(
        self, attempt: AttemptId, how: str, at_s: float, success: AttemptSucceeded | None = None
    ) -> dict[str, Any]:
        """Add the rows of an attempt that had a slot; returns its "args"."""
        started_s = self._started_s.pop(attempt, None)
        fetches = self._fetches.pop(attempt, Fetches())
        job = self._jobs.get(job_of(attempt), job_of(attempt))
        args: dict[str, Any] = {"outcome": how, "attempt": attempt, "job": job}
        args["locality"] = self._levels.pop(attempt, None)
        node, lane, since_s = self._running.pop(attempt, (None, 0, 0.0))
        if node is None:
            return args
        self._lanes[node][lane] = None
        at = Slice(self._numbers[node], lane, since_s, at_s)
        phases = args["phases_s"] = phases_of(at, started_s, fetches, success)
        name = f"{job} {stage_of(attempt).partition('.')[2]}"
        times = {"ts": since_s * 1e6, "dur": (at_s - since_s) * 1e6}
        where = {"pid": at.process, "tid": lane}
        self.rows.append(
            {"name": name, "cat": "attempt", "ph": "X", **times, **where, "args": args}
        )
        self.rows += phase_rows(at, phases)
        if success is not None:
            self._slices[attempt] = at
            if self._arrows < ARROWS_MAX:
                arrows = list(arrow_rows(at, fetches, self._slices))
                self._arrows += len(arrows) // 2
                self.rows += arrows
        return args

    def _flow_over(self, flow: FlowId, how: str, at_s: float) -> None:
        order, since_s = self._flows.pop(flow, (None, 0.0))
        if order is None or order.src == order.dst:
            return
        if how == "finished":
            fetched = self._fetches.setdefault(order.reader, Fetches())
            fetched.flows.append((order, since_s, at_s))
        common = {"name": f"{order.src} to {order.dst}", "cat": "flow", "id": flow}
        lane = {"pid": _NETWORK, "tid": self._lane(order.coflow)}
        args = {"bytes": order.size_bytes, "outcome": how, "outputs": len(order.outputs)}
        self.rows.append({**common, **lane, "ph": "b", "ts": since_s * 1e6, "args": args})
        self.rows.append({**common, **lane, "ph": "e", "ts": at_s * 1e6})

    def _coflow(self, coflow: CoflowId, phase: str, at_s: float) -> None:
        row = {"name": f"coflow {coflow}", "cat": "coflow", "ph": phase, "ts": at_s * 1e6}
        self.rows.append({**row, "pid": _NETWORK, "tid": self._lane(coflow)})

    def _lane(self, coflow: CoflowId) -> int:
        if coflow not in self._coflows:
            self._coflows[coflow] = len(self._coflows)
            self.rows.append(row_name("thread_name", _NETWORK, self._coflows[coflow], coflow))
        return self._coflows[coflow]
