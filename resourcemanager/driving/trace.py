"""A run as Chrome's trace format, for Perfetto: who held which slot when, and what was shuffled.

A node is a "process" with a lane for each slot; "network" is one with a lane for each coflow,
"optical ports" one with lanes for each port that had circuits, "links" has counters.  An attempt is
a slice named after its job and stage, with a slice for each of its phases in it; an attempt without
a slot is an asynchronous event of its node.  A fetch from another node is an event of its coflow,
and an arrow from the map output's slice to the reader's.  Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from railyard.cluster.ids import AttemptId, CoflowId, stage_of
from railyard.netemu.record import CircuitUse, Sample
from railyard.resourcemanager.driving.eventlog import Step
from railyard.resourcemanager.driving.history import (
    AttemptSpan,
    CoflowSpan,
    FetchSpan,
    History,
    NodeSpan,
)

_NETWORK = 0  #: number of the network's "process"; nodes are numbered from 1
#: The category of attempts without a slot.
CATEGORY = "reservation"
#: The "process" of optical ports.
NAME = "optical ports"
#: Outcomes of attempts whose output was kept for a while, for the copies policy to choose.
TAKEN, NOT_TAKEN = "kept, then taken", "kept, then not taken"
#: So many arrows are in a trace; viewers cannot show more, and each flow is shown by itself, too.
ARROWS_MAX = 20_000
#: Circuits this close follow one another: microseconds, rounded.
_SAME_TIME_S = 1e-9


def chrome_trace(
    steps: Iterable[Step], circuits: Sequence[CircuitUse] = (), samples: Sequence[Sample] = ()
) -> dict[str, Any]:
    """The trace of a replayed run; ``json.dump`` it to a file for ui.perfetto.dev.

    ``steps``: as they are replayed, not a list.  ``samples``: of the links' bytes over time.
    """
    trace = _Trace()
    for step in steps:
        trace.take(step)
    trace.name_what_was_taken()
    number = len(trace.history.nodes) + 1
    optical = [*optical_rows(circuits, number), *circuit_counters(circuits, number)]
    links = link_rows(samples, number + 1)
    return {"traceEvents": trace.rows + optical + links, "displayTimeUnit": "ms"}


class _Trace:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = [row_name("process_name", _NETWORK, 0, "network")]
        self.history = History()
        self._lanes: dict[int, int] = {}  #: {number of a node: how many lanes are named}
        self._succeeded: dict[AttemptId, AttemptSpan] = {}
        #: {attempt that has not ended: its fetches from other nodes, as they ended}
        self._fetched: dict[AttemptId, list[FetchSpan]] = {}
        self._arrows = 0
        self._coflows: dict[CoflowId, int] = {}  #: lane of each
        #: attempts with kept output, each with the "args" of its row
        self._kept: list[tuple[AttemptSpan, dict[str, Any]]] = []

    def take(self, step: Step) -> None:
        for what, span in self.history.take(step.state, step.at_s, step.event, step.commands):
            match span:
                case NodeSpan():
                    self._node(span)
                case AttemptSpan(slot_s=None) if what == "ended":
                    self._reserved(span, span.outcome, step.at_s)
                case AttemptSpan() if what == "ended":
                    self._held(span, step.at_s)
                case AttemptSpan(reserved=True) if what == "slot":
                    self._reserved(span, "got a slot", step.at_s)
                case FetchSpan() if what == "ended" and span.crosses:
                    self._fetch(span, step.at_s)
                case CoflowSpan():
                    self._coflow(span, "E" if what == "ended" else "B", step.at_s)

    def name_what_was_taken(self) -> None:
        """At the end: of kept outputs it is known now whether they count."""
        for span, args in self._kept:
            state = span.attempt.state if span.attempt is not None else "killed"
            args["outcome"] = NOT_TAKEN if state in ("kept", "killed") else TAKEN

    def _node(self, node: NodeSpan) -> None:
        if node.number not in self._lanes:
            self.rows.append(row_name("process_name", node.number, 0, node.id))
        for lane in range(self._lanes.get(node.number, 0), len(node.lanes)):
            self.rows.append(row_name("thread_name", node.number, lane, f"slot {lane}"))
        self._lanes[node.number] = len(node.lanes)

    def _reserved(self, span: AttemptSpan, how: str, at_s: float) -> None:
        """Add the rows of a reservation that has got a slot or has ended."""
        where = {"pid": span.node.number, "tid": 0}
        common = {"name": span.id, "cat": CATEGORY, "id": span.id, **where}
        begins: dict[str, Any] = {"ph": "b", "ts": span.launched_s * 1e6, "args": {"outcome": how}}
        self.rows.append({**common, **begins})
        if span.ready_s is not None:
            self.rows.append({**common, "name": "ready", "ph": "n", "ts": span.ready_s * 1e6})
        self.rows.append({**common, "ph": "e", "ts": at_s * 1e6})

    def _held(self, span: AttemptSpan, at_s: float) -> None:
        """Add the rows of an attempt that had a slot and has ended."""
        since_s, attempt = span.slot_s or 0.0, span.attempt
        job = "" if attempt is None else attempt.task.stage.job.name
        late = span.success is not None and span.outcome == "killed"
        phases = span.phases_s()
        args: dict[str, Any] = {
            "outcome": "too late" if late else span.outcome,
            "attempt": span.id,
            "job": job,
            "locality": None if attempt is None or span.reserved else attempt.level,
            "phases_s": phases,
        }
        where = {"pid": span.node.number, "tid": span.lane}
        name = f"{job} {stage_of(span.id).partition('.')[2]}"
        self.rows.append(_slice(name, "attempt", since_s, at_s - since_s, where) | {"args": args})
        for phase, length_s in phases.items():
            self.rows.append(_slice(phase, "phase", since_s, length_s, where))
            since_s += length_s
        fetched = self._fetched.pop(span.id, [])
        if span.success is not None:
            self._succeeded[span.id] = span
            if self._arrows < ARROWS_MAX:
                arrows = [row for fetch in fetched for row in self._arrow(span, fetch)]
                self._arrows += len(arrows) // 2
                self.rows += arrows
            if span.outcome == "kept":
                self._kept.append((span, args))

    def _arrow(self, reader: AttemptSpan, fetch: FetchSpan) -> list[dict[str, Any]]:
        """Two rows for a fetch: where its bytes were made, and where they arrived."""
        order = fetch.order
        sources = [self._succeeded[name] for name in order.outputs if name in self._succeeded]
        if not sources:
            return []
        source = max(sources, key=lambda one: one.ended_s or 0.0)
        begin_s, end_s = source.slot_s or 0.0, source.ended_s or 0.0
        left_s = begin_s + 0.999 * (end_s - begin_s)  # within the slice, so that viewers find it
        arrived_s = max(fetch.ended_s or 0.0, reader.slot_s or 0.0)
        common = {"name": "shuffle", "cat": "shuffle", "id": order.flow}
        at_source = {"ts": left_s * 1e6, "pid": source.node.number, "tid": source.lane}
        at_reader = {"ts": arrived_s * 1e6, "pid": reader.node.number, "tid": reader.lane}
        return [{**common, "ph": "s", **at_source}, {**common, "ph": "f", "bp": "e", **at_reader}]

    def _fetch(self, fetch: FetchSpan, at_s: float) -> None:
        order = fetch.order
        if fetch.outcome == "finished":
            self._fetched.setdefault(order.reader, []).append(fetch)
        common = {"name": f"{order.src} to {order.dst}", "cat": "flow", "id": order.flow}
        lane = {"pid": _NETWORK, "tid": self._lane(order.coflow)}
        outputs = len(order.outputs)
        args = {"bytes": order.size_bytes, "outcome": fetch.outcome, "outputs": outputs}
        self.rows.append({**common, **lane, "ph": "b", "ts": fetch.began_s * 1e6, "args": args})
        self.rows.append({**common, **lane, "ph": "e", "ts": at_s * 1e6})

    def _coflow(self, span: CoflowSpan, phase: str, at_s: float) -> None:
        row = {"name": f"coflow {span.id}", "cat": "coflow", "ph": phase, "ts": at_s * 1e6}
        self.rows.append({**row, "pid": _NETWORK, "tid": self._lane(span.id)})

    def _lane(self, coflow: CoflowId) -> int:
        if coflow not in self._coflows:
            self._coflows[coflow] = len(self._coflows)
            self.rows.append(row_name("thread_name", _NETWORK, self._coflows[coflow], coflow))
        return self._coflows[coflow]


def _slice(
    name: str, category: str, begin_s: float, length_s: float, where: Mapping[str, int]
) -> dict[str, Any]:
    times = {"ts": begin_s * 1e6, "dur": length_s * 1e6}
    return {"name": name, "cat": category, "ph": "X", **times, **where}


# Optical ports and links -------------------------------------------------------------------------
def optical_rows(circuits: Sequence[CircuitUse], process: int) -> list[dict[str, Any]]:
    """The rows for these circuits, in a "process" of that number; none without circuits.

    A circuit holds two ports and is shown at both, dark and then lit.
    """
    lanes: dict[str, list[float]] = {}  #: {port: until when each of its lanes is taken}
    shown = [
        (port, _take_lane(lanes.setdefault(port, []), use), use)
        for use in sorted(circuits, key=lambda use: (use.begin_s, use.src, use.dst))
        for port in (f"{use.src}.ocs.up", f"{use.dst}.ocs.down")
    ]
    # outgoing ports come first, r2's before r10's
    ports = sorted(lanes, key=lambda port: (port.endswith(".down"), int(port[1 : port.index(".")])))
    ends = [(port, lane) for port in ports for lane in range(len(lanes[port]))]
    number = {end: place for place, end in enumerate(ends)}
    rows = [row_name("thread_name", process, place, port) for (port, _), place in number.items()]
    if rows:
        rows.insert(0, row_name("process_name", process, 0, NAME))
    for port, lane, use in shown:
        where = {"pid": process, "tid": number[port, lane]}
        about = {"coflow": use.coflow, "from": use.src, "to": use.dst}
        for phase, begin_s, end_s in _dark_and_lit(use):
            name = use.coflow if phase == "lit" else f"dark for {use.coflow}"
            row = _slice(name, "circuit", begin_s, end_s - begin_s, where)
            rows.append(row | {"args": {**about, "phase": phase}})
    return rows


def _take_lane(until_s: list[float], use: CircuitUse) -> int:
    for lane, taken_s in enumerate(until_s):
        if taken_s <= use.begin_s + _SAME_TIME_S:
            until_s[lane] = use.end_s
            return lane
    until_s.append(use.end_s)
    return len(until_s) - 1


def _dark_and_lit(use: CircuitUse) -> Iterator[tuple[str, float, float]]:
    """The time in which it was dark, if it was, and that in which it carried, if it did."""
    lit_s = use.end_s if use.lit_s is None else use.lit_s
    for phase, begin_s, end_s in (("dark", use.begin_s, lit_s), ("lit", lit_s, use.end_s)):
        if end_s > begin_s:
            yield phase, begin_s, end_s


def row_name(kind: str, process: int, lane: int, name: str) -> dict[str, Any]:
    """The event that names a process or one of its lanes; ``kind``: "thread_name", say."""
    return {"name": kind, "ph": "M", "pid": process, "tid": lane, "args": {"name": name}}


def link_rows(samples: Sequence[Sample], process: int) -> list[dict[str, Any]]:
    """Counters of the links that carried anything, in a "process" of that number.

    A link's counter is its rate in Gbps from one sample of the network's record to the next; a link
    without a sample carried as much as before.
    """
    rows: list[dict[str, Any]] = []
    totals = dict(samples[0].bytes) if samples else {}
    shown: dict[str, float] = {}
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
    carrying = [link for link, rate in shown.items() if rate]
    rows += [_counter(link, samples[-1][0], process, {"Gbps": 0.0}) for link in carrying]
    return [row_name("process_name", process, 0, "links"), *rows] if rows else []


def circuit_counters(circuits: Sequence[CircuitUse], process: int) -> Iterator[dict[str, Any]]:
    """How many circuits are lit and dark, whenever that changes."""
    changes: dict[float, Counter[str]] = {}
    for use in circuits:
        for state, begin_s, end_s in _dark_and_lit(use):
            changes.setdefault(begin_s, Counter())[state] += 1
            changes.setdefault(end_s, Counter())[state] -= 1
    now = {"lit": 0, "dark": 0}
    for at_s, by in sorted(changes.items()):
        now = {state: count + by[state] for state, count in now.items()}
        yield _counter("circuits", at_s, process, now)


def _counter(name: str, at_s: float, process: int, values: Mapping[str, float]) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": at_s * 1e6, "pid": process, "tid": 0, "args": values}
