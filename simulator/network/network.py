"""The simulated network: starts flows in the fabric and reports their ends in virtual time.

Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its nodes
went down.  For a cancelled flow there is no call.

The network may die: its flows then stop where they are, and are told to its successor by those who
send, with what they have sent (``successor.py``).  It may be stopped, and so may daemons that hold
ends of flows (``stopped.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.emulator.resumable import ResumableFabric
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import CoflowPast, Finished, FlowSpec
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.counts import Counts
from railyard.simulator.network.stopped import StandingFlows, Unheard
from railyard.simulator.network.successor import Successor, Untold

#: Called with the number of bytes that did not arrive and the reason; 0 and "" on success.
OnEnd = Callable[[int, str], None]


def _call_each(ends: Iterable[OnEnd | Numbers]) -> None:
    for on_end in ends:
        assert callable(on_end), "nobody takes rows"
        on_end(0, "")


class SimulatedNetwork:
    """Flows between nodes.  ``latency_s``: from a flow's last byte until its end is reported."""

    def __init__(self, fabric: Fabric, heap: EventHeap, latency_s: float = 0.0) -> None:
        self.fabric = fabric
        self.counts = Counts()
        #: calls each of the ``on_end`` of flows that have sent all their bytes, in this order
        self.call_each: Callable[[Iterator[OnEnd | Numbers]], None] = _call_each
        #: called with flows that are about to start, if there is somebody to call
        self.on_start: Callable[[Sequence[FlowSpec]], None] | None = None
        self._heap = heap
        self._latency_s = latency_s
        self._flows: dict[FlowId, tuple[FlowSpec, OnEnd]] = {}
        self._coflows: dict[CoflowId, None] = {}  #: those that are open
        self._waiting: dict[FlowId, Untold] = {}  #: flows that wait for a successor
        self.is_down = False  #: dead, stopped, or not told yet what there is
        self._successor: Successor | None = None  #: until it has been told
        self._pasts: dict[CoflowId, CoflowPast] = {}  #: of the network that died last
        self._unheard: Unheard | None = None  #: while it is stopped
        self._standing = StandingFlows()

    # Time ----------------------------------------------------------------------------------------
    def next_s(self) -> float:
        """The time of the fabric's next event; first sets the rates of new flows."""
        return self.fabric.next_event_s() if self._unheard is None else math.inf

    def advance(self) -> None:
        """Advance the fabric to the heap's time, and report the flows that have ended by then."""
        if self._unheard is None:
            self._report(self._advanced(self._heap.now_s))

    def _advanced(self, now_s: float) -> list[Finished | Numbers]:
        """Advance the fabric, and return and count the flows that have ended."""
        fabric = self.fabric
        passed_s = now_s - fabric.now_s
        if passed_s > 0:
            self.counts.pass_time(fabric, passed_s)
        before = fabric.finished_bytes
        ended: list[Finished | Numbers]
        if self._successor is None:
            ended = fabric.advance_all(now_s)
        else:
            ended = [*self._successor.advance(now_s)]
        if ended:
            self.counts.end(ended, fabric.finished_bytes - before)
        return ended

    def _report(self, ended: list[Finished | Numbers]) -> None:
        if not ended:
            return
        if self._latency_s:
            for end in ended:
                assert isinstance(end, Finished), "rows have no latency"
                self._heap.after(self._latency_s, self._arrived, end.flow)
            return
        self.call_each(self._known(ended))

    def _known(self, ended: list[Finished | Numbers]) -> Iterator[OnEnd | Numbers]:
        pop = self._flows.pop
        for end in ended:
            if not isinstance(end, Finished):
                yield end
                continue
            if self._standing and self._stands_still(end.flow):
                continue
            known = pop(end.flow, None)
            if known is not None:  # otherwise the end of another flow has cancelled this one
                yield known[1]

    # Flows ---------------------------------------------------------------------------------------
    def carry(
        self,
        flow: FlowId,
        src: NodeId,
        dst: NodeId,
        size_bytes: int,
        on_end: OnEnd,
        coflow: CoflowId | None = None,
        weight: float = 1.0,
        priority: tuple[float, ...] = (),
    ) -> None:
        """Start a flow.  One of 0 bytes, or within a node, takes only the latency."""
        spec = FlowSpec(
            flow=flow,
            src=src,
            dst=dst,
            size_bytes=size_bytes,
            coflow=coflow,
            weight=weight,
            priority=priority,
        )
        self.carry_all(((spec, on_end),))

    def carry_all(self, flows: Sequence[tuple[FlowSpec, OnEnd]]) -> None:
        """Start flows, in this order; cheaper than one by one."""
        known, after, crossing = self._flows, self._heap.after, list[FlowSpec]()
        for each in flows:
            spec = each[0]
            known[spec.flow] = each
            if spec.src == spec.dst or spec.size_bytes == 0:
                after(self._latency_s, self._arrived, spec.flow)
            else:
                crossing.append(spec)
        self.counts.opened += len(crossing)
        if self.on_start is not None:
            self.on_start(crossing)
        if self.is_down:
            self._start_later(crossing)
        else:
            self.fabric.start_all(crossing)

    def _start_later(self, flows: Sequence[FlowSpec]) -> None:
        if self._unheard is not None:
            start = partial(self.fabric.start_all, flows)
            self._unheard.add(start, given_s=self._heap.now_s)
        elif self._successor is not None:
            for spec in flows:
                self._successor.carry(spec)
        else:
            self._waiting |= {spec.flow: Untold(spec) for spec in flows}

    def carry_rows(self, src: Numbers, dst: Numbers, size_bytes: Numbers, names: Numbers) -> None:
        """Start flows that have numbers for names; see ``Fabric.start_rows``.

        ``call_each`` gets the names of those that end, until ``Fabric.name_rows`` names them.
        """
        if len(src):
            self.counts.opened += len(src)
            self.fabric.start_rows(src, dst, size_bytes, names)

    def know(self, spec: FlowSpec, on_end: OnEnd) -> None:
        """Say how the end of a flow is to be reported that was a row so far."""
        self._flows[spec.flow] = spec, on_end

    def take(self, flow: FlowId) -> OnEnd | None:
        """How the end of a flow is to be reported, which the caller does; None: it is cancelled."""
        known = self._flows.pop(flow, None)
        return None if known is None else known[1]

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow; does nothing if it is not open."""
        known = self._flows.pop(flow, None)
        if known is not None:
            self._standing.held.pop(flow, None)
            self._close(known[0])

    # Flows whose bytes nobody takes yet ----------------------------------------------------------
    @property
    def has_held(self) -> bool:
        """Whether any flow is held."""
        return bool(self._standing.held)

    def hold(self, flow: FlowId) -> None:
        """Do not report the end of an open flow before it is released."""
        self._standing.held.setdefault(flow, False)

    def is_held(self, flow: FlowId) -> bool:
        """Whether it is."""
        return flow in self._standing.held

    def release(self, flow: FlowId) -> None:
        """Report the end of a flow that is held from now on."""
        if self._standing.held.pop(flow):
            self._heap.after(0.0, self._arrived, flow)

    # Coflows, links and nodes --------------------------------------------------------------------
    def open_coflow(self, coflow: CoflowId) -> None:
        """Register a coflow, before its flows start."""
        self._coflows[coflow] = None
        if self._unheard is not None:
            self._unheard.add(partial(self.fabric.register_coflow, coflow))
        elif not self.is_down:
            self.fabric.register_coflow(coflow)
        elif self._successor is not None:
            self._successor.open_coflow(coflow)

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        del self._coflows[coflow]
        if not self.is_down:
            for flow in (*self.fabric.coflow(coflow).flows, *self._held_of(coflow)):
                self.cancel(flow)
            self.fabric.finish_coflow(coflow)
            return
        for flow in [flow for flow, (spec, _) in self._flows.items() if spec.coflow == coflow]:
            self.cancel(flow)
        if self._unheard is not None:
            self._unheard.add(partial(self.fabric.finish_coflow, coflow))
        elif self._successor is not None:
            self._successor.close_coflow(coflow)

    def _held_of(self, coflow: CoflowId) -> list[FlowId]:
        held = self._standing.held
        return [flow for flow in held if self._flows[flow][0].coflow == coflow]

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity."""
        if self._unheard is None:
            self.fabric.set_capacity(link, bytes_per_s)
        else:
            self._unheard.add(partial(self.fabric.set_capacity, link, bytes_per_s))

    def end_flows_of(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """End all flows from or to a node, or some of them, with the reason.  O(flows).

        Those that are held go on: nobody but the network has any part in them.
        """
        held = self._standing.held
        broken = [
            flow
            for flow, (at, on_end) in self._flows.items()
            if node in (at.src, at.dst) and which(on_end) and flow not in held
        ]
        for flow in broken:
            known = self._flows.pop(flow, None)
            if known is None:
                continue  # the end of another flow has cancelled this one
            spec, on_end = known
            sent_bytes = self.counts.sent_before_bytes(flow)
            if self.fabric.is_open(flow):
                sent_bytes = self.fabric.sent_bytes(flow)
            self._close(spec)
            on_end(spec.size_bytes - sent_bytes, reason)

    def flows(self) -> dict[FlowId, tuple[FlowSpec, OnEnd]]:
        """All flows that have not ended, and how their ends are to be reported; read only."""
        return self._flows

    def coflows(self) -> list[CoflowId]:
        """The coflows that are open."""
        return list(self._coflows)

    # How it is stopped, dies and comes back -------------------------------------------------------
    @property
    def is_stopped(self) -> bool:
        """Whether it hears and grants nothing just now, and goes on later."""
        return self._unheard is not None

    def stop(self, lasts_s: float, *, hears_first: bool) -> None:
        """It is stopped for a while; does nothing if it is dead, or stopped already.

        ``hears_first``: once it goes on, it hears orders before it looks at its clock, so that
        flows count from when they were opened; otherwise all count from then on.
        """
        if not self.is_down:
            self.is_down, self._unheard = True, Unheard()
            self._heap.after(lasts_s, self._go_on, self._unheard, hears_first)

    def when_heard(self, call: Callable[[], None]) -> None:
        """Have this called when one that is stopped hears what it is told now."""
        assert self._unheard is not None, "it hears at once"
        self._unheard.add(call)

    def _go_on(self, orders: Unheard, hears_first: bool) -> None:
        if self._unheard is not orders:
            return  # it has died since
        self.is_down, self._unheard = False, None
        now_s = self._heap.now_s
        ended = [] if hears_first else self._caught_up(now_s, orders)
        for until_s in orders.in_turn(self.fabric.now_s, now_s):
            ended += self._caught_up(until_s, orders)
        ended += self._caught_up(now_s, orders)
        self._report(ended)

    def _caught_up(self, now_s: float, orders: Unheard) -> list[Finished | Numbers]:
        """Advance the fabric; returns the flows that have ended and that somebody waits for."""
        return [
            end
            for end in self._advanced(now_s)
            if not (isinstance(end, Finished) and orders.is_cancelled(end.flow))
        ]

    @property
    def is_dead(self) -> bool:
        """Whether it is, and there is no successor yet."""
        return self.is_down and self._unheard is None and self._successor is None

    def go_down(self, fresh: ResumableFabric) -> None:
        """The network dies: nothing is sent until its successor, with a fresh fabric, is there."""
        if self._unheard is not None:
            orders, self._unheard, self.is_down = self._unheard, None, False
            orders.all_at_once()  # nothing is sent any more: its successor is told what there is
        for flow in list(self._standing.held):
            self.cancel(flow)  # nobody will tell its successor of these
        dead, before, self.is_down = self.fabric, self._successor, True
        assert isinstance(dead, ResumableFabric), "nobody can go on for it"
        self._pasts = dead.pasts() if before is None else before.pasts()
        self.fabric, self._successor = fresh, None
        self.counts.dead.append(dead)
        fresh.advance(self._heap.now_s)
        for link, bytes_per_s in dead.capacities_bytes_per_s().items():
            if math.isfinite(bytes_per_s):
                fresh.set_capacity(link, bytes_per_s)
        untold = {} if before is None else before.untold()
        for flow, (spec, _) in self._flows.items():
            if dead.is_open(flow):
                self.counts.note_sent(flow, dead.sent_bytes(flow))
            elif before is None or flow not in before.flows:
                continue  # all of it was sent, or it needs no network
            is_known = flow not in untold or untold[flow].is_known
            self._waiting[flow] = Untold(spec, self.counts.sent_before_bytes(flow), is_known)

    @property
    def deaths(self) -> int:
        """How many times the network has died."""
        return len(self.counts.dead)

    def come_back(self) -> list[str]:
        """There is a successor; returns who has to tell it flows, beside the ResourceManager."""
        assert isinstance(self.fabric, ResumableFabric)
        waiting, self._waiting = self._waiting, {}
        self._successor = Successor(self.fabric, self._pasts, waiting.values())
        return list(self._successor.silent)

    @property
    def awaits_coflows(self) -> bool:
        """Whether it is a successor that the ResourceManager has yet to tell what there is."""
        return self._successor is not None and not self._successor.is_resumed

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager tells a successor which coflows and flows of them there are.

        Does nothing where it has been told all by everybody.
        """
        if self._successor is not None:
            self._successor.resume(coflows, flows)
            self._look_if_told()

    def tells(self, sender: str) -> None:
        """A sender tells a successor its flows, unless it has, or is stopped."""
        if self._successor is not None and not self._standing.is_stopped(sender):
            self._successor.tells(sender)
            self._look_if_told()

    def _look_if_told(self) -> None:
        if self._successor is not None and self._successor.knows_all:
            self.is_down, self._successor = False, None

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far, over all fabrics; see ``Fabric.bytes_by_category``."""
        return self.counts.bytes_by_category(self.fabric)

    def bytes_by_link(self) -> dict[str, int]:
        """The same for each link."""
        return self.counts.bytes_by_link(self.fabric)

    def ends(self, flow: FlowId) -> tuple[NodeId, NodeId, int]:
        """A flow's source, destination and size in bytes; ``KeyError`` if it is not open."""
        spec, _ = self._flows[flow]
        return spec.src, spec.dst, spec.size_bytes

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        return self.counts.stats(self.fabric)

    def _close(self, spec: FlowSpec) -> None:
        """Cancel a flow in the fabric, if it is open there, and count it."""
        if self._unheard is not None:
            self._unheard.add_cancel(spec.flow, partial(self._close, spec))
            return
        if not self.is_down:
            was_open = self.fabric.cancel(spec.flow)
        elif self._successor is not None:
            was_open = self._successor.close(spec.flow)
        else:
            was_open = self._waiting.pop(spec.flow, None) is not None
        if was_open:
            self.counts.cancel(spec)

    # Daemons that are stopped ---------------------------------------------------------------------
    def daemon_stops(self, daemon: str) -> None:
        """A daemon that may hold ends of flows is stopped."""
        self._standing.stop(daemon)

    def daemon_goes_on(self, daemon: str) -> None:
        """It goes on: at once, it sends or takes what was granted meanwhile."""
        for spec in self._standing.go_on(daemon):
            known = self._flows.get(spec.flow)
            if known is not None and known[0] is spec:
                self._arrived(spec.flow)
        self.tells(daemon)

    def daemon_is_gone(self, daemon: str) -> None:
        """It has died, stopped or not, and its flows were ended."""
        self._standing.go_on(daemon)
        self.tells(daemon)

    def _stands_still(self, flow: FlowId) -> bool:
        """Whether a flow that was granted ends later, as a daemon that holds an end is stopped."""
        known = self._flows.get(flow)
        return known is not None and self._standing.wait(known[0])

    def _arrived(self, flow: FlowId) -> None:
        if self._standing and self._stands_still(flow):
            return
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")
