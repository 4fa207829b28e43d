"""The simulated network: starts flows in the fabric and reports their ends in virtual time.

Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its nodes
went down.  For a cancelled flow there is no call.  Links are reported to a scheduler that wants to
know them, as the emulator does.

Never here: rates (``netemu.fabric``), and a network that dies or is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.messaging.wire import Event
from railyard.netemu.fabric.fabric import Fabric, Order, StartFlows
from railyard.netemu.messages import (
    CloseFlow,
    FinishCoflow,
    LinksObserved,
    NetworkStats,
    RegisterCoflow,
    SetCapacity,
)
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import Finished, FlowRows, FlowSpec
from railyard.netemu.model.network import ObservedLinks
from railyard.resourcemanager.core.shuffling.fetches import CancelFetch, StartFetches
from railyard.resourcemanager.core.shuffling.loops import STAGE_SHIFT
from railyard.resourcemanager.interface.recipe import LinksConfig
from railyard.simulator.clock import EventHeap, EventPriority

#: Called with the number of bytes that did not arrive and the reason; 0 and "" on success.
OnEnd = Callable[[int, str], None]


#: Whether a flow is a fetch, where these go by their numbers.
_is_number = int.__instancecheck__


def _call_each(ends: Iterable[OnEnd | Numbers]) -> None:
    for on_end in ends:
        assert callable(on_end), "nobody takes rows"
        on_end(0, "")


class SimulatedNetwork:
    """Flows between nodes.  ``latency_s``: from a flow's last byte until its end is reported."""

    def __init__(
        self, fabric: Fabric, heap: EventHeap, latency_s: float = 0.0, *, names_matter: bool = False
    ) -> None:
        self.fabric = fabric
        #: whether it matters for what flows share how they are called
        self._names_matter = names_matter
        self._numbers: dict[FlowId, int] = {}  #: if so, of open fetches
        self.opened = 0  #: flows started; those within a node are in none of these numbers
        self.finished = 0  #: flows that sent all their bytes
        self.cancelled = 0  #: flows that were cancelled, or lost a node
        self.lost_bytes = 0  #: total size of the cancelled flows, which sent only a part
        #: calls each of the ``on_end`` of flows that have sent all their bytes, in this order
        self.call_each: Callable[[Iterator[OnEnd | Numbers]], None] = _call_each
        self._heap = heap
        self._latency_s = latency_s
        self._flows: dict[FlowId, tuple[FlowSpec, OnEnd]] = {}

    # Time ----------------------------------------------------------------------------------------
    def next_s(self) -> float:
        """The time of the fabric's next event; first sets the rates of new flows."""
        return self.fabric.next_event_s()

    def advance(self) -> None:
        """Advance the fabric to the heap's time, and report the flows that have ended by then."""
        self._report(self._advanced(self._heap.now_s))

    def _advanced(self, now_s: float) -> Sequence[Finished]:
        ended = self.fabric.handle(None, now_s)
        self.finished += len(ended)
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
        numbers = self._numbers if self._names_matter else None
        is_fetch = _is_number if numbers is None else numbers.__contains__
        for are_fetches, ends in groupby([end.flow for end in ended], is_fetch):
            if are_fetches:
                flows = list(ends) if numbers is None else [numbers.pop(flow) for flow in ends]
                yield np.array(flows, np.int64)
                continue
            for flow in ends:
                known = self._flows.pop(flow, None)
                if known is not None:  # otherwise the end of another flow has cancelled this one
                    yield known[1]

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
        self.opened += len(crossing)
        self._order(StartFlows(crossing))

    def carry_fetches(self, start: StartFetches) -> None:
        """Start the flows of fetches, in this order; those within a node are left to the caller.

        ``call_each`` gets the numbers of those that end.
        """
        crossing = ((start.src != start.dst) & (start.size_bytes > 0)).nonzero()[0]
        fetches, src, dst, size_bytes = (
            column[crossing] for column in (start.fetches, start.src, start.dst, start.size_bytes)
        )
        self.opened += len(fetches)
        numbers, stages = fetches.tolist(), fetches >> STAGE_SHIFT
        names: list[FlowId | int] = numbers
        if self._names_matter:
            names = [start.stages[number >> STAGE_SHIFT].name(number) for number in numbers]
            self._numbers.update(zip(cast("list[FlowId]", names), numbers, strict=True))
        asks = [start.asks[at] for at in crossing.tolist()] if start.asks else ()
        there, coflow = stages[:1], np.zeros(len(stages), np.int64)
        if len(start.stages) > 1:
            there, coflow = np.unique(stages, return_inverse=True)
        coflows = [start.stages[stage].coflow for stage in there.tolist()]
        self._order(FlowRows(names, src, dst, size_bytes, coflow, coflows, asks))

    def cancel_fetch(self, order: CancelFetch) -> None:
        started = order.started
        name = started.flow if self._names_matter else cast("FlowId", order.fetch)
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
        self._order(RegisterCoflow(coflow=coflow))

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        for flow in self._flows_of(coflow):
            self.cancel(flow)
        self._order(FinishCoflow(coflow=coflow))

    def _flows_of(self, coflow: CoflowId) -> Sequence[FlowId]:
        return self.fabric.flows_of(coflow)

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        self._order(SetCapacity(link=link, bytes_per_s=bytes_per_s))

    def _order(self, order: Order) -> None:
        self.fabric.handle(order, self.fabric.now_s)

    def end_flows_of(self, node: NodeId, reason: str) -> None:
        """End all flows from or to a node, with the reason.  O(flows)."""
        self._end(
            [flow for flow, (at, _) in self._flows.items() if node in (at.src, at.dst)], reason
        )

    def _end(self, flows: Iterable[FlowId], reason: str) -> None:
        for flow in flows:
            known = self._flows.pop(flow, None)
            if known is None:
                continue  # the end of another flow has cancelled this one
            spec, on_end = known
            sent_bytes = self._sent_bytes(flow)
            self._close(spec)
            on_end(spec.size_bytes - sent_bytes, reason)

    def _sent_bytes(self, flow: FlowId) -> int:
        return self.fabric.sent_bytes(flow) if self.fabric.is_open(flow) else 0

    def flows(self) -> dict[FlowId, tuple[FlowSpec, OnEnd]]:
        """All flows that have not ended, and how their ends are to be reported; read only."""
        return self._flows

    def stats(self) -> NetworkStats:
        return self.fabric.stats(self.opened, self.finished, self.cancelled)

    def _close(self, spec: FlowSpec) -> None:
        """Cancel a flow in the fabric, if it is open there, and count it."""
        if self.fabric.is_open(spec.flow):
            self.fabric.handle(CloseFlow(flow=spec.flow), self.fabric.now_s)
            self.cancelled += 1
            self.lost_bytes += spec.size_bytes

    def _arrived(self, flow: FlowId) -> None:
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")


@dataclass(eq=False)
class LinkWatch:
    """Reports the links between racks to the core each ``period_s`` in which rates were set.

    It observes after all else of that time, so that the rates are those that hold from then on.
    """

    _network: SimulatedNetwork
    _heap: EventHeap
    _config: LinksConfig
    _report: Callable[[Event], None]
    _periods: int = 0  #: the last observation was, or is to be, so many periods from the start
    _is_planned: bool = False  #: whether it is to be

    def __post_init__(self) -> None:
        self._observed = ObservedLinks(self._network.fabric.network, self._config.change)
        self._decided = self._rates_set()  #: as of the last observation

    def _rates_set(self) -> object:
        """A number that is another one once rates have been set."""
        return self._network.fabric.decided

    def review(self) -> None:
        """Plan to observe if rates were set since then; to be called before time passes."""
        if self._is_planned or self._rates_set() == self._decided:
            return
        self._is_planned = True
        period_s = self._config.period_s
        self._periods = max(self._periods + 1, math.ceil(self._heap.now_s / period_s))
        self._heap.at(self._periods * period_s, self._observe, priority=EventPriority.OBSERVATION)

    def _observe(self) -> None:
        self._is_planned = False
        changed = self._observed.look(self._network.fabric)
        self._decided = self._rates_set()
        if changed:
            self._report(LinksObserved(links=changed))
