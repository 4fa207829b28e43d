"""A run as Chrome's trace format, for Perfetto: who held which slot when, and what was shuffled.

A node is a "process" with a lane for each slot; "network" is one with a lane for each coflow, and
"optical ports" one with a lane for each port that had circuits (``opticaltrace.py``).  Attempts
that have no slot yet are shown at their node, beside its slots (``reservationtrace.py``).  An
attempt is named after its job and stage; its phases and fetches are in ``attempttrace.py``, links
and circuits as counters in ``countertrace.py``.  The outcome of an attempt whose output was kept
says whether it was taken later.  Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from railyard.cluster.ids import AttemptId, CoflowId, FlowId, JobId, NodeId, job_of, stage_of
from railyard.cluster.messages import (
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
from railyard.netemu.record import CircuitUse, Sample
from railyard.resourcemanager.core.jobs import Attempt
from railyard.resourcemanager.driving.eventlog import Step, Success
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
        self._fetches: dict[AttemptId, AttemptFetches] = {}  #: of those that have not ended
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
        fetches = self._fetches.pop(attempt, AttemptFetches())
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
            fetched = self._fetches.setdefault(order.reader, AttemptFetches())
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


# Attempts in Chrome's trace format: what an attempt did while it had its slot, and its fetches.
#
# Phases are slices within the attempt's: ``start`` (until its process runs), ``read`` or
# ``shuffle``, ``compute``, ``sort, write`` (what is left).  An attempt computes while it reads on,
# so the lengths are right and the order within the slice is by when each began.  A fetch from
# another node is an arrow from the map output's slice to the reader's.  Pure.


#: So many arrows are in a trace; viewers cannot show more, and each flow is shown by itself, too.
ARROWS_MAX = 20_000


class Slice(NamedTuple):
    """An attempt's time in its slot, and where that is in the trace."""

    process: int
    lane: int
    begin_s: float
    end_s: float


@dataclass
class AttemptFetches:
    """What an attempt has fetched from other nodes: each flow, with its begin and end."""

    flows: list[tuple[StartFlow, float, float]] = field(default_factory=list)

    @property
    def end_s(self) -> float | None:
        """When the last of them ended."""
        return max((end_s for _, _, end_s in self.flows), default=None)


def phases_of(
    at: Slice, started_s: float | None, fetches: AttemptFetches, success: AttemptSucceeded | None
) -> dict[str, float]:
    """Seconds of each phase that took time, in order; of one that failed, only its start."""
    begin_s = at.begin_s if started_s is None else min(max(started_s, at.begin_s), at.end_s)
    phases = {"start": begin_s - at.begin_s}
    if success is not None:
        fetched_s, left_s = fetches.end_s, at.end_s - begin_s
        if fetched_s is None:
            phases["read"] = min(success.read_s, left_s)
        else:
            phases["shuffle"] = min(max(0.0, fetched_s - begin_s), left_s)
        left_s -= phases.get("read", 0.0) + phases.get("shuffle", 0.0)
        phases["compute"] = min(success.computed_s, left_s)
        phases["sort, write"] = left_s - phases["compute"]
    return {name: length_s for name, length_s in phases.items() if length_s > 1e-6}


def phase_rows(at: Slice, phases: dict[str, float]) -> Iterator[dict[str, Any]]:
    """A slice for each phase, one after the other."""
    begin_s = at.begin_s
    for name, length_s in phases.items():
        where = {"pid": at.process, "tid": at.lane}
        times = {"ts": begin_s * 1e6, "dur": length_s * 1e6}
        yield {"name": name, "cat": "phase", "ph": "X", **times, **where}
        begin_s += length_s


def arrow_rows(
    reader: Slice, fetches: AttemptFetches, ended: dict[AttemptId, Slice]
) -> Iterator[dict[str, Any]]:
    """Two rows for each fetch: where its bytes were made, and where they arrived."""
    for order, _, end_s in fetches.flows:
        sources = [ended[output] for output in order.outputs if output in ended]
        if order.src == order.dst or not sources:
            continue
        source = max(sources, key=lambda one: one.end_s)
        common = {"name": "shuffle", "cat": "shuffle", "id": order.flow}
        # A time within the slice, so that viewers find it.
        left_s = source.begin_s + 0.999 * (source.end_s - source.begin_s)
        arrived_s = min(max(end_s, reader.begin_s), reader.end_s)
        yield {**common, "ph": "s", "ts": left_s * 1e6, "pid": source.process, "tid": source.lane}
        bound = {"ph": "f", "bp": "e", "ts": arrived_s * 1e6}
        yield {**common, **bound, "pid": reader.process, "tid": reader.lane}


# Reservations in Chrome's trace format: attempts that read what they need and have no slot yet.
#
# Each is an asynchronous event of its node, from its launch until it has a slot or ends, so that
# it is shown apart from the lanes of the slots.  Pure.


CATEGORY = "reservation"


@dataclass
class _Reservation:
    node: NodeId
    since_s: float
    ready_s: float | None = None  #: when it had all that it reads


class Reservations:
    """Those that are there now; each end adds rows to a trace's."""

    def __init__(self, rows: list[dict[str, Any]], numbers: dict[NodeId, int]) -> None:
        """``numbers``: that of each node's "process"."""
        self._rows = rows
        self._numbers = numbers
        self._waiting: dict[AttemptId, _Reservation] = {}

    def made(self, attempt: AttemptId, node: NodeId, at_s: float) -> None:
        """An attempt is launched without a slot."""
        self._waiting[attempt] = _Reservation(node, at_s)

    def ready(self, attempt: AttemptId, at_s: float) -> None:
        """It has all that it reads; does nothing if it has a slot or has ended."""
        known = self._waiting.get(attempt)
        if known is not None:
            known.ready_s = at_s

    def ended(self, attempt: AttemptId, how: str, at_s: float) -> None:
        """It has a slot, or was killed, or has failed; does nothing if that was said before."""
        known = self._waiting.pop(attempt, None)
        if known is None:
            return
        common = {
            "name": attempt,
            "cat": CATEGORY,
            "id": attempt,
            "pid": self._numbers[known.node],
            "tid": 0,
        }
        begins: dict[str, Any] = {"ph": "b", "ts": known.since_s * 1e6, "args": {"outcome": how}}
        self._rows.append({**common, **begins})
        if known.ready_s is not None:
            self._rows.append({**common, "name": "ready", "ph": "n", "ts": known.ready_s * 1e6})
        self._rows.append({**common, "ph": "e", "ts": at_s * 1e6})

    def lost(self, node: NodeId, at_s: float) -> None:
        """All of a node's end with it."""
        for attempt in [a for a, known in self._waiting.items() if known.node == node]:
            self.ended(attempt, "lost with its node", at_s)


# An optical switch in Chrome's trace format: which coflow's circuit each port had when.
#
# A circuit holds two ports and is shown at both, dark and then lit.  A port with several
# wavelengths has a lane for each that was in use.  Pure.


NAME = "optical ports"
#: Circuits this close follow one another: microseconds, rounded.
_SAME_TIME_S = 1e-9


def optical_rows(circuits: Sequence[CircuitUse], process: int) -> list[dict[str, Any]]:
    """The rows for these circuits, in a "process" of that number; none without circuits."""
    lanes: dict[str, list[float]] = {}  #: {port: until when each of its lanes is taken}
    shown = [
        (port, _take_lane(lanes.setdefault(port, []), use), use)
        for use in sorted(circuits, key=lambda use: (use.begin_s, use.src, use.dst))
        for port in (f"{use.src}.ocs.up", f"{use.dst}.ocs.down")
    ]
    number = {
        (port, lane): place
        for place, (port, lane) in enumerate(
            (port, lane) for port in sorted(lanes, key=_natural) for lane in range(len(lanes[port]))
        )
    }
    rows = [row_name("thread_name", process, place, port) for (port, _), place in number.items()]
    if rows:
        rows.insert(0, row_name("process_name", process, 0, NAME))
    for port, lane, use in shown:
        rows += _circuit_phases(use, {"pid": process, "tid": number[port, lane]})
    return rows


def _take_lane(until_s: list[float], use: CircuitUse) -> int:
    for lane, taken_s in enumerate(until_s):
        if taken_s <= use.begin_s + _SAME_TIME_S:
            until_s[lane] = use.end_s
            return lane
    until_s.append(use.end_s)
    return len(until_s) - 1


def _circuit_phases(use: CircuitUse, where: dict[str, int]) -> list[dict[str, Any]]:
    """The time in which it was dark, if it was, and that in which it carried, if it did."""
    lit_s = use.end_s if use.lit_s is None else use.lit_s
    args = {"coflow": use.coflow, "from": use.src, "to": use.dst}
    return [
        {
            "name": name,
            "cat": "circuit",
            "ph": "X",
            "ts": begin_s * 1e6,
            "dur": (end_s - begin_s) * 1e6,
            **where,
            "args": {**args, "phase": phase},
        }
        for name, phase, begin_s, end_s in (
            (f"dark for {use.coflow}", "dark", use.begin_s, lit_s),
            (use.coflow, "lit", lit_s, use.end_s),
        )
        if end_s > begin_s
    ]


def _natural(port: str) -> tuple[bool, int]:
    """Outgoing ports come first, r2's before r10's."""
    return port.endswith(".down"), int(re.findall(r"\d+", port)[0])


def row_name(kind: str, process: int, lane: int, name: str) -> dict[str, Any]:
    """The event that names a process or one of its lanes; ``kind``: "thread_name", say."""
    return {"name": kind, "ph": "M", "pid": process, "tid": lane, "args": {"name": name}}


# Links and circuits as counters in Chrome's trace format.  Pure.
#
# A link's counter is its rate in Gbps from one sample of the network's record to the next; a link
# without a sample carried as much as before.  The circuits' counter has how many are lit and dark.


def link_rows(samples: Sequence[Sample], process: int) -> list[dict[str, Any]]:
    """Counters of the links that carried anything, in a "process" of that number."""
    rows: list[dict[str, Any]] = []
    totals: dict[str, int] = {}
    shown: dict[str, float] = {}
    if samples:
        totals |= samples[0].bytes
    for (begin_s, *_), (end_s, now, _) in pairwise(samples):
        rates = {
            link: (total - totals.get(link, 0)) * 8e-9 / (end_s - begin_s)
            for link, total in now.items()
            if end_s > begin_s
        }
        totals |= now
        for link in [*rates, *(link for link in shown if link not in rates)]:
            rate = round(rates.get(link, 0.0), 6)
            if rate != shown.get(link, 0.0):
                rows.append(_counter(link, begin_s, process, {"Gbps": rate}))
            shown[link] = rate
    if samples:
        rows += [
            _counter(link, samples[-1][0], process, {"Gbps": 0.0})
            for link, rate in shown.items()
            if rate
        ]
    return [row_name("process_name", process, 0, "links"), *rows] if rows else []


def circuit_counters(circuits: Sequence[CircuitUse], process: int) -> Iterator[dict[str, Any]]:
    """How many circuits are lit and dark, whenever that changes."""
    changes: dict[float, Counter[str]] = {}
    for use in circuits:
        lit_s = use.end_s if use.lit_s is None else use.lit_s
        for state, begin_s, end_s in (("dark", use.begin_s, lit_s), ("lit", lit_s, use.end_s)):
            if end_s > begin_s:
                changes.setdefault(begin_s, Counter())[state] += 1
                changes.setdefault(end_s, Counter())[state] -= 1
    now = {"lit": 0, "dark": 0}
    for at_s, by in sorted(changes.items()):
        now = {state: count + by[state] for state, count in now.items()}
        yield _counter("circuits", at_s, process, now)


def _counter(name: str, at_s: float, process: int, values: Mapping[str, float]) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": at_s * 1e6, "pid": process, "tid": 0, "args": values}
