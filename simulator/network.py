"""Flows of the simulated network so far, over fabrics that died and the one there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import Protocol, cast

import numpy as np

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.messaging.wire import Event
from railyard.netemu.emulator.statistics import plus
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
from railyard.netemu.model.network import LinkState, ObservedLinks
from railyard.resourcemanager.core.shuffling.fetches import CancelFetch, StartFetches
from railyard.resourcemanager.core.shuffling.loops import STAGE_SHIFT
from railyard.resourcemanager.interface.recipe import LinksConfig
from railyard.simulator.clock import EventHeap, EventPriority


class Counts:
    """Flows and bytes.  Flows within a node are not among them."""

    def __init__(self) -> None:
        self.opened = 0  #: flows started
        self.finished = 0  #: flows that sent all their bytes
        self.cancelled = 0  #: flows that were cancelled, or lost a node
        self.arrived_bytes = 0  #: total size of the finished flows
        self.lost_bytes = 0  #: total size of the cancelled flows, which sent only a part
        self.dead: list[Fabric] = []  #: fabrics of networks that have died
        self._sent_before: dict[FlowId, int] = {}  #: {flow: bytes it had sent over dead fabrics}

    def end(self, ended: Sequence[Finished], size_bytes: int) -> None:
        """Flows have sent all their bytes, so many together."""
        self.finished += len(ended)
        self.arrived_bytes += size_bytes
        if self._sent_before:  # what these had sent over fabrics that died is counted already
            self.arrived_bytes -= sum(self._sent_before.pop(end.flow, 0) for end in ended)

    def cancel(self, spec: FlowSpec) -> None:
        """A flow was cancelled before it had sent all its bytes."""
        self.cancelled += 1
        self.lost_bytes += spec.size_bytes - self._sent_before.pop(spec.flow, 0)

    def note_sent(self, flow: FlowId, sent_bytes: int) -> None:
        """A fabric has died when so much of a flow had been sent over it and those before."""
        self.arrived_bytes += sent_bytes - self._sent_before.get(flow, 0)
        self._sent_before[flow] = sent_bytes

    def sent_before_bytes(self, flow: FlowId) -> int:
        """What a flow had sent over fabrics that died."""
        return self._sent_before.get(flow, 0)


# The simulated network: starts flows in the fabric and reports their ends in virtual time.
#
# Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its
# nodes went down.  For a cancelled flow there is no call.
#
# Never here: a network that is stopped or dies, and daemons that are stopped
# (``simulator.silence``).


#: Called with the number of bytes that did not arrive and the reason; 0 and "" on success.
OnEnd = Callable[[int, str], None]


#: Whether a flow is a fetch, where these go by their numbers.
_is_number = int.__instancecheck__


def _call_each(ends: Iterable[OnEnd | Numbers]) -> None:
    for on_end in ends:
        assert callable(on_end), "nobody takes rows"
        on_end(0, "")


class Carrier(Protocol):
    """Who carries the flows: a ``Fabric``, or what stands between the network and one."""

    def handle(self, order: Order | None, now_s: float) -> Sequence[Finished]:
        """As of a ``Fabric``."""

    def is_open(self, flow: FlowId) -> bool:
        """Whether there is such a flow, and it has not finished."""


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
        before = self.fabric.finished_bytes
        ended = self._carrier.handle(None, now_s)
        if ended:
            self.counts.end(ended, self.fabric.finished_bytes - before)
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
        numbers = self._numbers if self._looks_at_names else None
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
        self.counts.opened += len(crossing)
        if self.on_start is not None:
            self.on_start(crossing)
        self._order(StartFlows(crossing))

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
        self._order(FlowRows(names, src, dst, size_bytes, coflow, coflows, asks))

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
        self._order(RegisterCoflow(coflow=coflow))

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        del self._coflows[coflow]
        for flow in self._flows_of(coflow):
            self.cancel(flow)
        self._order(FinishCoflow(coflow=coflow))

    def _flows_of(self, coflow: CoflowId) -> Sequence[FlowId]:
        return self.fabric.flows_of(coflow)

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity."""
        self._order(SetCapacity(link=link, bytes_per_s=bytes_per_s))

    def hears(self, call: Callable[[], object]) -> None:
        """Have this called when the network hears of it, which is now."""
        call()

    def _order(self, order: Order) -> None:
        """Have an order carried out when the network hears of it, which is now."""
        self._carrier.handle(order, self.fabric.now_s)

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
        return _sums([each.bytes_by_category() for each in self._fabrics()])

    def bytes_by_link(self) -> dict[str, int]:
        """The same for each link."""
        return _sums([each.bytes_by_link() for each in self._fabrics()])

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        counts, parts = self.counts, [each.stats() for each in self.counts.dead]
        parts.append(self.fabric.stats(counts.opened, counts.finished, counts.cancelled))
        return reduce(plus, parts)

    def _fabrics(self) -> list[Fabric]:
        """Those of networks that have died, and the one there is."""
        return [*self.counts.dead, self.fabric]

    def _close(self, spec: FlowSpec) -> None:
        """Cancel a flow in the fabric, if it is open there, and count it."""
        if self._carrier.is_open(spec.flow):
            self._carrier.handle(CloseFlow(flow=spec.flow), self.fabric.now_s)
            self.counts.cancel(spec)

    def _arrived(self, flow: FlowId) -> None:
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")


def _sums(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The sums of the values of each key."""
    return {name: sum(each.get(name, 0) for each in parts) for part in parts for name in part}


# Reports the links between racks to the core, as the emulator does, if its scheduler asks.
#
# They are looked at every so often, as long as rates change: after all else of that time, so that
# the rates are those that hold from then on.


class LinkWatch:
    """Looks at the links each ``period_s`` in which rates were set."""

    def __init__(
        self,
        network: SimulatedNetwork,
        heap: EventHeap,
        config: LinksConfig,
        report: Callable[[Event], None],
    ) -> None:
        self._network = network
        self._heap = heap
        self._period_s = config.period_s
        self._report = report
        self._change = config.change
        self._observed = ObservedLinks(network.fabric.network, config.change)
        self._periods = 0  #: the last look was, or is to be, so many periods from the start
        self._looking = False  #: whether it is to be
        self._decided = self._fabrics  #: as of the last look
        self._not_before_s = 0.0  #: of the next look
        self._asked = 0  #: how often a ResourceManager that was restarted has asked

    def begin_again(self, known: Mapping[str, LinkState]) -> None:
        """Report what differs from what a ResourceManager that was restarted knows."""
        self._asked += 1
        self._answer(known, self._asked)

    def _answer(self, known: Mapping[str, LinkState], asked: int) -> None:
        if self._network.is_stopped:  # it hears later what it was asked
            self._network.hears(partial(self._heap.after, 0.0, self._answer, known, asked))
            return
        if asked != self._asked:
            return  # whoever asked is dead
        self._observed = ObservedLinks(self._network.fabric.network, self._change)
        self._observed.look(self._network.fabric)
        links = self._observed.all()
        changed = {name: link for name, link in links.items() if known.get(name) != link}
        self._not_before_s = self._heap.now_s + self._period_s
        if changed:
            self._report(LinksObserved(links=changed))

    @property
    def _fabrics(self) -> tuple[int, int]:
        """How many networks have died, and how many times this one has set rates."""
        return self._network.deaths, self._network.fabric.decided

    def review(self) -> None:
        """Plan to look, if rates were set since the last time; to be called before time passes."""
        if self._looking or self._fabrics == self._decided or self._network.is_stopped:
            return
        self._looking = True
        self._periods = max(self._periods + 1, math.ceil(self._heap.now_s / self._period_s))
        at_s = self._periods * self._period_s
        self._heap.at(at_s, self._look, priority=EventPriority.OBSERVATION)

    def _look(self) -> None:
        self._looking = False
        if self._network.is_stopped:
            return  # so is who looks: it does so when it goes on
        if self._heap.now_s < self._not_before_s:
            return  # it was asked for in between
        changed = self._observed.look(self._network.fabric)
        self._decided = self._fabrics
        if changed:
            self._report(LinksObserved(links=changed))
