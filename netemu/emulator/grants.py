"""Turns the fabric's rates into grants for the processes that send.  Pure, like the fabric.

A grant is a total: how many bytes of a flow may have been sent by now.  It follows the fabric's
clock, so after a late grant the sender catches up.  The last grant of a flow is due exactly when
the flow finishes in the model.  Before that, a grant is due once it adds enough bytes to be worth a
message.  A flow whose rate was 0, since its circuit was being set up, gets a grant as soon as it
has a rate; otherwise setting up would seem to take longer than it does.

The order to open a flow and the message of its sender may arrive in either order.  A sender that
has connected again is another peer: it attaches to its flows again, and gets their grants from the
beginning.

A ledger in place of one whose process died has no flows.  Senders say which they have, and what
they were granted: a flow goes on from there, so nothing is carried or granted twice.  It is the
ResourceManager that says which flows of jobs there are; their senders wait for that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from railyard.cluster.ids import CoflowId, FlowId
from railyard.netemu.emulator.statistics import lateness_class
from railyard.netemu.fabric.fabric import Fabric, Order, StartFlows, TakeUpCoflow
from railyard.netemu.messages import CloseFlow, FinishCoflow, Grants, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import CoflowPast, Finished, FlowSpec

#: Shortest and longest time between two checks of all flows; with many flows the shortest is so
#: much for each, so that the checks take at most about a tenth of the emulator's time.
TICK_S_MIN = 0.005
TICK_S_MIN_EACH = 2e-5
TICK_S_MAX = 0.05
#: A grant before the end of a flow has at least so many stored bytes ...
GRANT_STORED_BYTES = 64 * 2**10
#: ... or comes after this time, for a slow flow.  At most so many slow flows get grants in one
#: check, those that have waited longest first: the receivers of all messages compete for few cores.
GRANT_AFTER_S = 0.5
SLOW_AT_ONCE = 8
#: Idle flows are checked this long after an event: a fixed time, and some for each of them, so that
#: the checks take at most about a tenth of the emulator's time.
IDLE_CHECK_AFTER_S = 0.0001
IDLE_CHECK_AFTER_S_EACH = 5e-6
#: How long a finished flow waits for its sender, and a sender for its flow, before it is dropped.
KEEP_S = 600.0

Peer = bytes


@dataclass(slots=True)
class _Sender:
    """A process that gets a flow's grants."""

    peer: Peer
    owner: bool  #: whether it opened the flow, too: then the flow ends when the process is gone
    granted_s: float  #: when that was, or since when it has been here
    granted_bytes: int = 0


@dataclass(slots=True)
class _Outbox:
    """The grants that a peer will be sent."""

    total_bytes: dict[FlowId, int] = field(default_factory=dict)
    finished: list[FlowId] = field(default_factory=list)


class Ledger:
    """Flows and their senders, on the fabric's clock; ``pasts``: of the ledger that it replaces."""

    def __init__(
        self, fabric: Fabric, scale: int, pasts: Mapping[CoflowId, CoflowPast] | None = None
    ) -> None:
        self.fabric = fabric
        self._pasts = pasts or {}
        #: whether the ResourceManager has yet to say which coflows there are
        self._awaits_coflows = pasts is not None
        self.opened = 0
        self.finished = 0
        self.cancelled = 0
        self.lags: Counter[int] = Counter()  #: {``lateness_class``: grants}
        self._scale = scale
        self._worth_bytes = GRANT_STORED_BYTES * scale
        self.coflows: dict[CoflowId, None] = {}  #: those that are registered
        self._senders: dict[FlowId, _Sender] = {}  #: of open flows
        #: flows that had nothing new to send at their last check, or were not checked yet:
        #: {flow: whether it was checked}
        self._idle: dict[FlowId, bool] = {}
        self._early: dict[FlowId, _Sender] = {}  #: those whose flows are not open yet
        #: flows that finished in the model before their senders came
        self._unclaimed: dict[FlowId, Finished] = {}
        self._expected: dict[FlowId, FlowSpec] = {}  #: flows to be opened when their senders come
        self._out: defaultdict[Peer, _Outbox] = defaultdict(_Outbox)
        self._tick_s = 0.0  #: when all flows are checked next
        self._idle_check_s = math.inf  #: when the idle flows are checked next
        #: idle flows to be checked at once: they may have bytes to send already, since their
        #: circuit is ready or their sender came late
        self._check_now: dict[FlowId, None] = {}

    # Orders and time ---------------------------------------------------------------------------
    def advance(self, now_s: float) -> None:
        if now_s < self.fabric.now_s:
            return
        if self._idle and now_s > self.fabric.now_s:  # within an instant, more may change
            ready_s = self.next_ready_s()
            if min(self.fabric.next_event_s(), ready_s) <= now_s:
                self._check_idle_soon(now_s)
            if ready_s <= now_s:
                self._check_now.update(dict.fromkeys(self._idle))
        for ended in self.fabric.handle(None, now_s):
            self.finished += 1
            sender = self._remove_sender(ended.flow)
            if sender is None:
                self._unclaimed[ended.flow] = ended
            else:
                self._out[sender.peer].finished.append(ended.flow)
                self.lags[lateness_class(now_s - ended.finished_s)] += 1

    def open(
        self, spec: FlowSpec, sender: Peer | None, again: bool = False, sent_bytes: int = 0
    ) -> None:
        """Start a flow now; ``ValueError`` if that can't be.

        With ``again`` the flow may be open already: its sender has connected again, as this peer.
        If it is not, it goes on from ``sent_bytes``, which its sender was granted.
        """
        if again and (spec.flow in self._unclaimed or self.fabric.is_open(spec.flow)):
            if sender is not None:
                self._come_back(spec, sender)
            return
        self._check_name(spec, sender, again)
        early = self._early.get(spec.flow)
        if early is not None:
            sent_bytes = min(early.granted_bytes, spec.size_bytes)
        self._order(StartFlows((spec,), sent_bytes))
        self.opened += 1
        self._expected.pop(spec.flow, None)
        self._early.pop(spec.flow, None)
        if sender is not None:
            self._add_sender(spec.flow, sender, owner=True, granted_bytes=sent_bytes)
        elif early is not None:
            self._add_sender(spec.flow, early.peer, owner=False, granted_bytes=sent_bytes)

    def attach(self, flow: FlowId, sender: Peer, again: bool = False, sent_bytes: int = 0) -> None:
        """Send a flow's grants to this peer; ``ValueError`` if it has a sender already.

        With ``again`` its sender has connected again, as this peer; ``ValueError`` if the flow is
        over.  ``sent_bytes`` is as in ``open``.
        """
        if again:
            was_early = self._early.pop(flow, None) is not None
            self._remove_sender(flow)
            if not (was_early or self._awaits_coflows or self._may_be_attached_to(flow)):
                raise ValueError(f'flow "{flow}" is over')
        if flow in self._senders or flow in self._early:
            raise ValueError(f'flow "{flow}" has a sender already')
        if self._unclaimed.pop(flow, None) is not None:
            self._out[sender].finished.append(flow)
        elif self.fabric.is_open(flow):
            self._add_sender(flow, sender, owner=False)
            self._check_at_once(flow)
        else:
            self._early[flow] = _Sender(sender, False, self.fabric.now_s, sent_bytes)
            if flow in self._expected:
                self.open(self._expected.pop(flow), None)

    def close(self, flow: FlowId) -> None:
        self._cancel(flow)
        self._early.pop(flow, None)
        self._unclaimed.pop(flow, None)
        self._expected.pop(flow, None)

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """What another ledger should know of coflows, if it comes in place of this one."""
        return {**self._pasts, **self.fabric.pasts()}

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered."""
        past = self._pasts.get(coflow)
        self._order(RegisterCoflow(coflow=coflow) if past is None else TakeUpCoflow(coflow, past))
        self.coflows[coflow] = None

    def finish_coflow(self, coflow: CoflowId) -> None:
        self.coflows.pop(coflow, None)
        flows = self.fabric.flows_of(coflow)
        self._order(FinishCoflow(coflow=coflow))
        for flow in flows:
            self._cancelled(flow)
        for known in (self._unclaimed, self._expected):
            for flow in [flow for flow, each in known.items() if each.coflow == coflow]:
                del known[flow]

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """Keep these coflows and flows, of which some may be over; close all others of coflows."""
        wanted, specs = dict.fromkeys(coflows), {spec.flow: spec for spec in flows}
        for coflow in list(self.coflows):
            if coflow not in wanted:
                self.finish_coflow(coflow)
        for coflow in wanted:
            if coflow not in self.coflows:
                self.register_coflow(coflow)
        self._awaits_coflows, self._pasts = False, {}
        known = [flow for coflow in self.coflows for flow in self.fabric.flows_of(coflow)]
        known += [flow for flow, ended in self._unclaimed.items() if ended.coflow is not None]
        for flow in known:
            if flow not in specs:
                self.close(flow)
        self._expected = {}
        for flow, spec in specs.items():
            if flow in self._early:
                self.open(spec, None)
            elif not self._may_be_attached_to(flow):
                self._expected[flow] = spec

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity; ``ValueError`` if that can't be."""
        self._order(SetCapacity(link=link, bytes_per_s=bytes_per_s))
        self._check_idle_soon(self.fabric.now_s)

    def peer_gone(self, peer: Peer) -> None:
        """Forget a sender that is gone: flows that it opened end, those of others go on."""
        for flow, sender in list(self._senders.items()):
            if sender.peer == peer:
                self._remove_sender(flow)
                if sender.owner:
                    self._cancel(flow)
        for flow, early in list(self._early.items()):
            if early.peer == peer:
                del self._early[flow]

    def drop_forgotten(self) -> None:
        """Drop flows whose sender never came, and senders whose flow was never opened."""
        oldest_s = self.fabric.now_s - KEEP_S
        early, late = self._early.items(), self._unclaimed.items()
        self._early = {flow: each for flow, each in early if each.granted_s >= oldest_s}
        self._unclaimed = {flow: each for flow, each in late if each.finished_s >= oldest_s}

    # Grants ------------------------------------------------------------------------------------
    def next_due_s(self) -> float:
        if self._out or self._check_now:
            return self.fabric.now_s
        due_s = min(self.fabric.next_event_s(), self._idle_check_s, self.next_ready_s())
        return min(due_s, self._tick_s) if self._senders else due_s

    def next_ready_s(self) -> float:
        """When a circuit is ready that a flow waits for: perhaps no event of the fabric."""
        return self.fabric.next_ready_s() if self._idle else math.inf

    def take_grants(self) -> dict[Peer, Grants]:
        """The grants that are due now, for each peer; they count as sent."""
        if self._senders and self.fabric.now_s >= self._tick_s:
            self._tick(self.fabric.now_s)
        if self.fabric.now_s >= self._idle_check_s:
            self._idle_check_s = math.inf
            self._check_idle(list(self._idle))
        elif self._check_now:
            self._check_idle([flow for flow in self._check_now if flow in self._idle])
        self._check_now.clear()
        out, self._out = self._out, defaultdict(_Outbox)
        return {
            peer: Grants(total_bytes=box.total_bytes, finished=tuple(box.finished))
            for peer, box in out.items()
        }

    # Helpers -----------------------------------------------------------------------------------
    def _order(self, order: Order) -> None:
        """Have the fabric carry out an order, at the time it was brought up to."""
        self.fabric.handle(order, self.fabric.now_s)

    def _come_back(self, spec: FlowSpec, sender: Peer) -> None:
        """A process that opened a flow, which may have ended, is back, as another peer."""
        if self._unclaimed.pop(spec.flow, None) is not None:
            self._out[sender].finished.append(spec.flow)
            return
        self._remove_sender(spec.flow)
        self._add_sender(spec.flow, sender, owner=True)
        self._check_at_once(spec.flow)

    def _check_name(self, spec: FlowSpec, sender: Peer | None, again: bool) -> None:
        """Check that a flow that is not open may be opened: its name may be another's."""
        flow = spec.flow
        if flow in self._unclaimed:
            raise ValueError(f'flow "{flow}" was opened before, and is over')
        if sender is not None and flow in self._early:
            raise ValueError(f'flow "{flow}" has a sender already')
        # the ResourceManager's own order may come after it has said that there is this flow
        expected = self._expected.get(flow)
        if not (again or expected is None or (sender is None and spec == expected)):
            raise ValueError(f'flow "{flow}" is open already')

    def _may_be_attached_to(self, flow: FlowId) -> bool:
        return flow in self._unclaimed or flow in self._expected or self.fabric.is_open(flow)

    def _check_at_once(self, flow: FlowId) -> None:
        self._idle[flow] = True  # as if a check had found nothing: the next one grants at once
        self._check_now[flow] = None

    def _add_sender(self, flow: FlowId, peer: Peer, owner: bool, granted_bytes: int = 0) -> None:
        now_s = self.fabric.now_s
        if not self._senders:
            self._tick_s = now_s + TICK_S_MIN
        self._senders[flow] = _Sender(peer, owner, now_s, granted_bytes)
        self._idle[flow] = False
        self._check_idle_soon(now_s)

    def _remove_sender(self, flow: FlowId) -> _Sender | None:
        self._idle.pop(flow, None)
        return self._senders.pop(flow, None)

    def _check_idle_soon(self, now_s: float) -> None:
        after_s = max(IDLE_CHECK_AFTER_S, IDLE_CHECK_AFTER_S_EACH * len(self._idle))
        self._idle_check_s = min(self._idle_check_s, now_s + after_s)

    def _check_idle(self, flows: list[FlowId]) -> None:
        """Grant bytes to those of these idle flows that can send some now."""
        for flow in flows:
            sender, sent_bytes = self._senders[flow], self.fabric.sent_bytes(flow)
            if sent_bytes - sender.granted_bytes < self._scale:
                self._idle[flow] = True
            elif self._idle.pop(flow):
                self._grant(flow, sender, sent_bytes)

    def _tick(self, now_s: float) -> None:
        """Make the grants that are worth a message; check again when the fastest flow has one."""
        self.lags[lateness_class(now_s - self._tick_s)] += 1
        fastest_bytes_per_s = 0.0
        slow: list[tuple[float, FlowId, _Sender, int]] = []
        for flow, sender in self._senders.items():
            sent_bytes = self.fabric.sent_bytes(flow)
            more_bytes = sent_bytes - sender.granted_bytes
            waited_s = now_s - sender.granted_s
            if (
                waited_s and more_bytes > fastest_bytes_per_s * waited_s
            ):  # so not of a flow that has just begun
                fastest_bytes_per_s = more_bytes / waited_s
            if more_bytes >= self._worth_bytes:
                self._grant(flow, sender, sent_bytes)
            elif more_bytes == 0:
                self._idle[flow] = True
            elif waited_s >= GRANT_AFTER_S:
                slow.append((sender.granted_s, flow, sender, sent_bytes))
        slow.sort(key=itemgetter(0))
        for _, flow, sender, sent_bytes in slow[:SLOW_AT_ONCE]:
            self._grant(flow, sender, sent_bytes)
        after_s = self._worth_bytes / fastest_bytes_per_s if fastest_bytes_per_s else TICK_S_MAX
        if len(slow) > SLOW_AT_ONCE:
            after_s = 0.0
        shortest_s = max(TICK_S_MIN, TICK_S_MIN_EACH * len(self._senders))
        self._tick_s = now_s + max(min(after_s, TICK_S_MAX), shortest_s)

    def _grant(self, flow: FlowId, sender: _Sender, sent_bytes: int) -> None:
        sender.granted_bytes = sent_bytes
        sender.granted_s = self.fabric.now_s
        self._out[sender.peer].total_bytes[flow] = sent_bytes

    def _cancel(self, flow: FlowId) -> None:
        if self.fabric.is_open(flow):
            self._order(CloseFlow(flow=flow))
            self._cancelled(flow)

    def _cancelled(self, flow: FlowId) -> None:
        self.cancelled += 1
        self._remove_sender(flow)
        self._check_idle_soon(self.fabric.now_s)
