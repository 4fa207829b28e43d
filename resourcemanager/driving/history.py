"""The history of a run: spans of its nodes, attempts, fetches, coflows, by events and commands.

Whoever shows a run goes by these: its trace, its page, its explanations, the reports on its tasks.
(Circuits have spans of the network's own, ``netemu.record``.)  Pure.

Never here: how a span is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from railyard.cluster.ids import AttemptId, CoflowId, FlowId, NodeId, rack_of
from railyard.cluster.messages import (
    AttemptFact,
    AttemptFailed,
    AttemptKilled,
    AttemptReady,
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
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.jobs import Attempt
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow


class NodeSpan(msgspec.Struct, eq=False):
    """A node, and who is in which of its slots."""

    id: NodeId
    number: int  #: from 1, in the order in which nodes joined
    lanes: list[AttemptSpan | None] = []  #: one for each slot that it ever had


class AttemptSpan(msgspec.Struct, eq=False):
    """An attempt, from its launch to its end."""

    id: AttemptId
    node: NodeSpan
    attempt: Attempt | None  #: the core's; None: it ended in the event that launched it
    launched_s: float
    reserved: bool  #: whether it was launched without a slot
    slot_s: float | None = None  #: when it got its slot
    lane: int = 0  #: which of its node's slots
    started_s: float | None = None  #: when its process ran
    ready_s: float | None = None  #: when it had all that it reads, if it had no slot then
    open_fetches: int = 0
    fetched_s: float | None = None  #: when its latest fetch ended
    shuffled_s: float | None = None  #: likewise, of those from other nodes
    #: bytes from its node, its rack, other racks
    fetched_bytes: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])
    ended_s: float | None = None
    #: "failed", "killed", "lost with its node", "given up" (a reservation); or of one that did its
    #: task its state then: "succeeded", "kept", "killed" (too late), "failed" (refused)
    outcome: str = ""
    reason: str = ""  #: why it failed, or its node was lost
    success: AttemptSucceeded | None = None  #: without its partitions' bytes
    shuffle_bytes: int = 0  #: the sum of these

    def phases_s(self) -> dict[str, float]:
        """Seconds of each phase that took time, in order; of one that failed, only its start.

        An attempt computes while it reads on: lengths are right, and the order is by when each
        began.  Nothing if it had no slot.
        """
        if self.slot_s is None or self.ended_s is None:
            return {}
        started_s = self.slot_s if self.started_s is None else self.started_s
        begin_s = min(max(started_s, self.slot_s), self.ended_s)
        phases = {"start": begin_s - self.slot_s}
        if self.success is not None:
            left_s = self.ended_s - begin_s
            if self.shuffled_s is None:
                phases["read"] = read_s = min(self.success.read_s, left_s)
            else:
                phases["shuffle"] = read_s = min(max(0.0, self.shuffled_s - begin_s), left_s)
            left_s -= read_s
            phases["compute"] = min(self.success.computed_s, left_s)
            phases["sort, write"] = left_s - phases["compute"]
        return {name: length_s for name, length_s in phases.items() if length_s > 1e-6}


class FetchSpan(msgspec.Struct, eq=False):
    """A flow that brings outputs of one node to an attempt."""

    order: StartFlow
    reader: AttemptSpan | None
    began_s: float
    ended_s: float | None = None
    outcome: str = ""  #: "finished", "failed", "cancelled"
    reason: str = ""  #: why it failed

    @property
    def crosses(self) -> bool:
        return self.order.src != self.order.dst


class CoflowSpan(msgspec.Struct, eq=False):
    """The coflow of a stage."""

    id: CoflowId
    opened_s: float
    closed_s: float | None = None


Span = NodeSpan | AttemptSpan | FetchSpan | CoflowSpan


#: "slot": an attempt has got its slot; "changed": a node's slots are others than before
What = Literal["began", "slot", "ended", "changed"]


class Change(NamedTuple):
    """What an event has changed."""

    what: What
    span: Span


class History:
    """Follows the events of a core; what has ended is forgotten, unless others keep it."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodeSpan] = {}
        self.reserved: dict[AttemptId, AttemptSpan] = {}  #: attempts without a slot
        self.held: dict[AttemptId, AttemptSpan] = {}  #: attempts with one, as they got it
        self._fetches: dict[FlowId, FetchSpan] = {}  #: those under way
        self._coflows: dict[CoflowId, CoflowSpan] = {}  #: those that are open
        self._changes: list[Change] = []  #: by the event at hand
        self._state: ClusterState | None = None
        self._handlers: dict[type, Callable[[Any, float], object]] = {
            AttemptStarted: self._started,
            AttemptReady: self._ready,
            AttemptSucceeded: self._succeeded,
            AttemptFailed: lambda event, at_s: self._end(event, "failed", at_s, event.reason),
            AttemptKilled: lambda event, at_s: self._end(event, "killed", at_s),
            NodeJoined: self._joined,
            NodeLost: self._lost,
            NodeRestarted: self._restarted,
            SlotsChanged: lambda event, _: self._resize(event.node, event.slots),
            NodeActivated: lambda event, _: self._resize(event.node, event.slots),
            DrainStarted: lambda event, _: self._resize(event.node, 0),
            LaunchAttempt: self._launch,
            BeginAttempt: self._begin,
            KillAttempt: self._kill,
            StartFlow: self._start_fetch,
            FlowFinished: lambda event, at_s: self._end_fetch(event.flow, "finished", at_s),
            FlowFailed: lambda event, at_s: self._end_fetch(
                event.flow, "failed", at_s, event.reason
            ),
            CancelFlow: lambda order, at_s: self._end_fetch(order.flow, "cancelled", at_s),
            OpenCoflow: self._open_coflow,
            CloseCoflow: self._close_coflow,
        }

    def take(
        self, state: ClusterState, at_s: float, event: Event, commands: Sequence[Command]
    ) -> Sequence[Change]:
        """What an event and its commands have changed, in order; ``state`` is the core's after."""
        self._changes, self._state = [], state
        for message in (event, *commands):
            if (handler := self._handlers.get(type(message))) is not None:
                handler(message, at_s)
        return self._changes

    def _add(self, what: What, span: Span) -> None:
        self._changes.append(Change(what, span))

    # Nodes ---------------------------------------------------------------------------------------
    def _joined(self, event: NodeJoined, at_s: float) -> None:
        self._end_all(event.node, at_s, "")  # what ran there, if it started anew
        self._resize(event.node, event.slots)

    def _lost(self, event: NodeLost, at_s: float) -> None:
        self._end_all(event.node, at_s, f"lost with {event.node}: {event.reason}")
        self._resize(event.node, 0)

    def _restarted(self, event: NodeRestarted, at_s: float) -> None:
        self._end_all(event.node, at_s, f"killed: the NodeManager of {event.node} died")

    def _resize(self, name: NodeId, slots: int) -> None:
        node = self._node(name)
        node.lanes += [None] * (slots - len(node.lanes))
        self._add("changed", node)

    def _node(self, name: NodeId) -> NodeSpan:
        if name not in self.nodes:
            self.nodes[name] = NodeSpan(name, len(self.nodes) + 1)
        return self.nodes[name]

    # Attempts ------------------------------------------------------------------------------------
    def _launch(self, order: LaunchAttempt, at_s: float) -> None:
        attempt = None if self._state is None else self._state.attempt(order.attempt)
        node = self._node(order.node)
        span = AttemptSpan(order.attempt, node, attempt, at_s, reserved=not order.begins)
        self._add("began", span)
        if order.begins:
            self._take_slot(span, at_s)
        else:
            self.reserved[span.id] = span

    def _begin(self, order: BeginAttempt, at_s: float) -> None:
        if (span := self.reserved.pop(order.attempt, None)) is not None:
            self._take_slot(span, at_s)

    def _take_slot(self, span: AttemptSpan, at_s: float) -> None:
        lanes = span.node.lanes
        if None not in lanes:
            lanes.append(None)
        span.lane, span.slot_s = lanes.index(None), at_s
        lanes[span.lane] = self.held[span.id] = span
        self._add("slot", span)

    def _started(self, event: AttemptStarted, at_s: float) -> None:
        if (span := self._open(event.attempt)) is not None:
            span.started_s = at_s

    def _ready(self, event: AttemptReady, at_s: float) -> None:
        if (span := self.reserved.get(event.attempt)) is not None:
            span.ready_s = at_s

    def _succeeded(self, event: AttemptSucceeded, at_s: float) -> None:
        span = self.held.get(event.attempt)
        if span is not None and span.attempt is not None:
            span.success = msgspec.structs.replace(event, partition_bytes=())
            span.shuffle_bytes = sum(event.partition_bytes)
            self._end(event, span.attempt.state, at_s)

    def _kill(self, order: KillAttempt, at_s: float) -> None:
        if order.attempt in self.reserved:  # others have ended once they say so
            self._end(order, "given up", at_s, order.reason)

    def _end(
        self, event: AttemptFact | KillAttempt, outcome: str, at_s: float, reason: str = ""
    ) -> None:
        if (span := self._open(event.attempt)) is not None:
            self._end_span(span, outcome, at_s, reason)

    def _end_all(self, node: NodeId, at_s: float, reason: str) -> None:
        for span in (*self.reserved.values(), *self.held.values()):
            if span.node.id == node:
                self._end_span(span, "lost with its node", at_s, reason)

    def _end_span(self, span: AttemptSpan, outcome: str, at_s: float, reason: str) -> None:
        if span.slot_s is None:
            del self.reserved[span.id]
        else:
            del self.held[span.id]
            span.node.lanes[span.lane] = None
        span.outcome, span.ended_s, span.reason = outcome, at_s, reason
        self._add("ended", span)

    def _open(self, attempt: AttemptId) -> AttemptSpan | None:
        return self.held.get(attempt) or self.reserved.get(attempt)

    # Fetches and coflows -------------------------------------------------------------------------
    def _start_fetch(self, order: StartFlow, at_s: float) -> None:
        fetch = self._fetches[order.flow] = FetchSpan(order, self._open(order.reader), at_s)
        if fetch.reader is not None:
            fetch.reader.open_fetches += 1
        self._add("began", fetch)

    def _end_fetch(self, flow: FlowId, outcome: str, at_s: float, reason: str = "") -> None:
        fetch = self._fetches.pop(flow, None)
        if fetch is None:
            return
        fetch.outcome, fetch.ended_s, fetch.reason = outcome, at_s, reason
        reader, order = fetch.reader, fetch.order
        if reader is not None:
            reader.open_fetches -= 1
            if outcome == "finished":
                reader.fetched_s = at_s
                if fetch.crosses:
                    reader.shuffled_s = at_s
                further = 1 if rack_of(order.src) == rack_of(order.dst) else 2
                reader.fetched_bytes[further if fetch.crosses else 0] += order.size_bytes
        self._add("ended", fetch)

    def _open_coflow(self, order: OpenCoflow, at_s: float) -> None:
        span = self._coflows[order.coflow] = CoflowSpan(order.coflow, at_s)
        self._add("began", span)

    def _close_coflow(self, order: CloseCoflow, at_s: float) -> None:
        if (span := self._coflows.pop(order.coflow, None)) is not None:
            span.closed_s = at_s
            self._add("ended", span)
