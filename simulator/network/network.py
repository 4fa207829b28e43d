"""The simulated network: starts flows in the fabric and reports their ends in virtual time.

Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its nodes
went down.  For a cancelled flow there is no call.

Never here: a network that is stopped or dies, and daemons that are stopped (``simulator.silence``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Protocol, cast

import numpy as np

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import Finished, FlowRows, FlowSpec
from railyard.resourcemanager.core.shuffling.loops import STAGE_SHIFT
from railyard.resourcemanager.core.shuffling.messages import CancelFetch, StartFetches
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.counts import Counts

#: Called with the number of bytes that did not arrive and the reason; 0 and "" on success.
OnEnd = Callable[[int, str], None]


#: What ends of flows are: arrays of the numbers of fetches, fetches by their names, other flows.
_FETCHES, _OTHERS = "fetches", "others"


def _call_each(ends: Iterable[OnEnd | Numbers]) -> None:
    for on_end in ends:
        assert callable(on_end), "nobody takes rows"
        on_end(0, "")


class Carrier(Protocol):
    """Who carries the flows: a ``Fabric``, or what stands between the network and one."""

    def start_all(self, specs: Sequence[FlowSpec]) -> None:
        """Start flows, in this order."""

    def start_rows(self, rows: FlowRows) -> None:
        """The same of flows that are many."""

    def cancel(self, flow: FlowId) -> bool:
        """Cancel a flow; returns whether it was open."""

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow."""

    def finish_coflow(self, coflow: CoflowId) -> object:
        """Forget a coflow and all its flows."""

    def advance(self, now_s: float) -> Sequence[Finished]:
        """Let time pass; returns the flows that have ended."""


class SimulatedNetwork:
    """Flows between nodes.  ``latency_s``: from a flow's last byte until its end is reported."""

    def __init__(
        self,
        fabric: Fabric,
        heap: EventHeap,
        latency_s: float = 0.0,
        *,
        looks_at_names: bool = False,
    ) -> None:
        self.fabric = fabric
        #: whether it matters for what flows share how they are called
        self._looks_at_names = looks_at_names
        self._numbers: dict[FlowId, int] = {}  #: if so, of open fetches
        self.counts = Counts()
        self.is_stopped = False  #: whether it hears and grants nothing just now, and goes on later
        #: calls each of the ``on_end`` of flows that have sent all their bytes, in this order
        self.call_each: Callable[[Iterator[OnEnd | Numbers]], None] = _call_each
        #: called with flows that are about to start, if there is somebody to call
        self.on_start: Callable[[Sequence[FlowSpec]], None] | None = None
        self._heap = heap
        self._latency_s = latency_s
        self._carrier: Carrier = fabric
        self._flows: dict[FlowId, tuple[FlowSpec, OnEnd]] = {}
        self._coflows: dict[CoflowId, None] = {}  #: those that are open

    # Time ----------------------------------------------------------------------------------------
    def next_s(self) -> float:
        """The time of the fabric's next event; first sets the rates of new flows."""
        return self.fabric.next_event_s()

    def advance(self) -> None:
        """Advance the fabric to the heap's time, and report the flows that have ended by then."""
        self._report(self._advanced(self._heap.now_s))

    def _advanced(self, now_s: float) -> Sequence[Finished]:
        """Advance the fabric, and return and count the flows that have ended."""
        fabric = self.fabric
        passed_s = now_s - fabric.now_s
        if passed_s > 0:
            self.counts.pass_time(fabric, passed_s)
        before = fabric.finished_bytes
        ended = self._carrier.advance(now_s)
        if ended:
            self.counts.end(ended, fabric.finished_bytes - before)
        return ended

    def _report(self, ended: Sequence[Finished]) -> None:
        if not ended:
            return
        if self._latency_s:
            for end in ended:
                self._heap.after(self._latency_s, self._arrived, end.flow)
            return
        self.call_each(self._known(ended))

    def _known(self, ended: Iterable[Finished]) -> Iterator[OnEnd | Numbers]:
        pop, numbers = self._flows.pop, self._numbers
        for kind, ends in groupby(ended, self._kind):
            flows = [end.flow for end in ends]
            if kind is _FETCHES:
                yield np.array([numbers.pop(flow, flow) for flow in flows], np.int64)
                continue
            for flow in flows:
                known = pop(flow, None)
                if known is not None:  # otherwise the end of another flow has cancelled this one
                    yield known[1]

    def _kind(self, end: Finished) -> str:
        return _FETCHES if isinstance(end.flow, int) or end.flow in self._numbers else _OTHERS

    # Flows ---------------------------------------------------------------------------------------
    def carry(self, flow: FlowId, src: NodeId, dst: NodeId, size_bytes: int, on_end: OnEnd) -> None:
        """Start a flow.  One of 0 bytes, or within a node, takes only the latency."""
        self.carry_all(((FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes), on_end),))

    def carry_all(self, flows: Sequence[tuple[FlowSpec, OnEnd]]) -> None:
        """Start flows, in this order; cheaper than one by one."""
        known, after = self._flows, self._heap.after
        crossing: list[FlowSpec] = []
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
        self._start(crossing)

    def _start(self, flows: Sequence[FlowSpec]) -> None:
        self._carrier.start_all(flows)

    def carry_fetches(self, start: StartFetches) -> None:
        """Start the flows of fetches, in this order; those within a node are left to the caller.

        ``call_each`` gets the numbers of those that end.
        """
        crossing = ((start.src != start.dst) & (start.size_bytes > 0)).nonzero()[0]
        fetches, src, dst, size_bytes = (
            column[crossing] for column in (start.fetches, start.src, start.dst, start.size_bytes)
        )
        self.counts.opened += len(fetches)
        numbers, stages = fetches.tolist(), fetches >> STAGE_SHIFT
        names: list[FlowId | int] = numbers
        if self._looks_at_names:
            names = [start.stages[number >> STAGE_SHIFT].name(number) for number in numbers]
            self._numbers.update(zip(cast("list[FlowId]", names), numbers, strict=True))
        asks = [start.asks[at] for at in crossing.tolist()] if start.asks else ()
        there, coflow = stages[:1], np.zeros(len(stages), np.int64)
        if len(start.stages) > 1:
            there, coflow = np.unique(stages, return_inverse=True)
        coflows = [start.stages[stage].coflow for stage in there.tolist()]
        self._start_rows(FlowRows(names, src, dst, size_bytes, coflow, coflows, asks))

    def _start_rows(self, rows: FlowRows) -> None:
        self._carrier.start_rows(rows)

    def cancel_fetch(self, order: CancelFetch) -> None:
        """Cancel the flow of a fetch; does nothing if it is not open."""
        started = order.started
        name = started.flow if self._looks_at_names else cast("FlowId", order.fetch)
        self._numbers.pop(name, None)
        size_bytes = started.size_bytes
        spec = FlowSpec(flow=name, src=started.src, dst=started.dst, size_bytes=size_bytes)
        self._close(spec)

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow; does nothing if it is not open."""
        known = self._flows.pop(flow, None)
        if known is not None:
            self._close(known[0])

    # Coflows, links and nodes --------------------------------------------------------------------
    def open_coflow(self, coflow: CoflowId) -> None:
        """Register a coflow, before its flows start."""
        self._coflows[coflow] = None
        self.hears(partial(self._carrier.register_coflow, coflow))

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        del self._coflows[coflow]
        for flow in self._flows_of(coflow):
            self.cancel(flow)
        self.hears(partial(self._carrier.finish_coflow, coflow))

    def _flows_of(self, coflow: CoflowId) -> Sequence[FlowId]:
        return tuple(self.fabric.coflow(coflow).flows)

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity."""
        self.hears(partial(self.fabric.set_capacity, link, bytes_per_s))

    def hears(self, order: Callable[[], object]) -> None:
        """Have an order carried out when the network hears of it, which is now."""
        order()

    def end_flows_of(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """End all flows from or to a node, or some of them, with the reason.  O(flows)."""
        for flow in self._at_node(node, which):
            known = self._flows.pop(flow, None)
            if known is None:
                continue  # the end of another flow has cancelled this one
            spec, on_end = known
            sent_bytes = self.counts.sent_before_bytes(flow)
            if self.fabric.is_open(flow):
                sent_bytes = self.fabric.sent_bytes(flow)
            self._close(spec)
            on_end(spec.size_bytes - sent_bytes, reason)

    def _at_node(self, node: NodeId, which: Callable[[OnEnd], bool]) -> list[FlowId]:
        return [
            flow
            for flow, (at, on_end) in self._flows.items()
            if node in (at.src, at.dst) and which(on_end)
        ]

    def flows(self) -> dict[FlowId, tuple[FlowSpec, OnEnd]]:
        """All flows that have not ended, and how their ends are to be reported; read only."""
        return self._flows

    def coflows(self) -> list[CoflowId]:
        """The coflows that are open."""
        return list(self._coflows)

    @property
    def deaths(self) -> int:
        """How many times the network has died."""
        return len(self.counts.dead)

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far, over all fabrics; see ``Fabric.bytes_by_category``."""
        return self.counts.bytes_by_category(self.fabric)

    def bytes_by_link(self) -> dict[str, int]:
        """The same for each link."""
        return self.counts.bytes_by_link(self.fabric)

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        return self.counts.stats(self.fabric)

    def _close(self, spec: FlowSpec) -> None:
        """Cancel a flow in the fabric, if it is open there, and count it."""
        if self._carrier.cancel(spec.flow):
            self.counts.cancel(spec)

    def _arrived(self, flow: FlowId) -> None:
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")
