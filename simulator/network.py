"""The simulated network: starts flows in the fabric and reports their ends in virtual time.

Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its nodes
went down.  For a cancelled flow there is no call.

The network may die: its flows then stop where they are, and are told to a new fabric by those who
send, for what they have not sent yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import Finished, FlowSpec
from railyard.simulator.heap import EventHeap

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
        self.opened = 0  #: flows started in the fabric; those within a node are not
        self.finished = 0  #: flows of the fabric that sent all their bytes
        self.cancelled = 0  #: flows of the fabric that were cancelled, or lost a node
        self.arrived_bytes = 0  #: total size of the finished flows
        self.lost_bytes = 0  #: total size of the cancelled flows, which sent only a part
        #: calls each of the ``on_end`` of flows that have sent all their bytes, in this order
        self.call_each: Callable[[Iterator[OnEnd | Numbers]], None] = _call_each
        self._heap = heap
        self._latency_s = latency_s
        self._flows: dict[FlowId, tuple[FlowSpec, OnEnd]] = {}
        self._active_s = 0.0
        self._room_bytes = 0.0
        self._coflows: dict[CoflowId, None] = {}  #: those that are open
        #: {flow: itself, for what it has not sent} of those that wait for a new fabric
        self._waiting: dict[FlowId, FlowSpec] = {}
        self._sent_before: dict[FlowId, int] = {}  #: {flow: bytes it had sent over dead fabrics}
        self._dead: list[Fabric] = []
        self.is_down = False

    # Time ----------------------------------------------------------------------------------------
    def next_s(self) -> float:
        """The time of the fabric's next event; first sets the rates of new flows."""
        return self.fabric.next_event_s()

    def advance(self) -> None:
        """Advance the fabric to the heap's time, and report the flows that have ended by then."""
        fabric, now_s = self.fabric, self._heap.now_s
        passed_s = now_s - fabric.now_s
        if passed_s > 0 and fabric.open_flows:
            self._active_s += passed_s
            self._room_bytes += passed_s * fabric.cross_rack_bytes_per_s
        before = fabric.finished_bytes
        ended = fabric.advance_all(now_s)
        if not ended:
            return
        self.finished += sum(1 if isinstance(end, Finished) else len(end) for end in ended)
        self.arrived_bytes += fabric.finished_bytes - before
        if self._sent_before:
            self._check_sizes(ended, fabric.finished_bytes - before)
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
        self.opened += len(crossing)
        if self.is_down:
            self._waiting |= {spec.flow: spec for spec in crossing}
        else:
            self.fabric.start_all(crossing)

    def carry_rows(self, src: Numbers, dst: Numbers, size_bytes: Numbers, names: Numbers) -> None:
        """Start flows that have numbers for names; see ``Fabric.start_rows``.

        ``call_each`` gets the names of those that end, until ``Fabric.name_rows`` names them.
        """
        if len(src):
            self.opened += len(src)
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
            self._close(known[0])

    def open_coflow(self, coflow: CoflowId) -> None:
        """Register a coflow, before its flows start."""
        self._coflows[coflow] = None
        self.fabric.register_coflow(coflow)

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        del self._coflows[coflow]
        waiting = [flow for flow, spec in self._waiting.items() if spec.coflow == coflow]
        for flow in [*self.fabric.coflow(coflow).flows, *waiting]:
            self.cancel(flow)
        self.fabric.finish_coflow(coflow)

    def end_flows_of(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """End all flows from or to a node, or some of them, with the reason.  O(flows)."""
        broken = [
            flow
            for flow, (at, on_end) in self._flows.items()
            if node in (at.src, at.dst) and which(on_end)
        ]
        for flow in broken:
            known = self._flows.pop(flow, None)
            if known is None:
                continue  # the end of another flow has cancelled this one
            spec, on_end = known
            missing = spec.size_bytes - self._sent_before.get(flow, 0)
            if self.fabric.is_open(flow):
                missing -= self.fabric.sent_bytes(flow)
            self._close(spec)
            on_end(missing, reason)

    def flows(self) -> dict[FlowId, tuple[FlowSpec, OnEnd]]:
        """All flows that have not ended, and how their ends are to be reported; read only."""
        return self._flows

    def coflows(self) -> list[CoflowId]:
        """The coflows that are open."""
        return list(self._coflows)

    # How it dies and comes back ------------------------------------------------------------------
    def go_down(self, fresh: Fabric) -> None:
        """The network dies: nothing is sent until its successor, with a fresh fabric, is there."""
        dead, self.fabric, self.is_down = self.fabric, fresh, True
        self._dead.append(dead)
        fresh.advance(self._heap.now_s)
        for link, bytes_per_s in dead.capacities_bytes_per_s().items():
            if math.isfinite(bytes_per_s):
                fresh.set_capacity(link, bytes_per_s)
        for coflow in self._coflows:
            fresh.register_coflow(coflow)
        for flow, (spec, _) in self._flows.items():
            if dead.is_open(flow):
                self._waiting[flow] = self._rest(spec, dead.sent_bytes(flow))

    @property
    def deaths(self) -> int:
        """How many times the network has died."""
        return len(self._dead)

    def come_back(self) -> None:
        """The flows that wait are told to the fabric, and sent from where they stopped."""
        self.is_down = False
        waiting, self._waiting = list(self._waiting.values()), {}
        self.fabric.start_all(waiting)

    def _check_sizes(self, ended: Iterable[Finished | Numbers], sent_bytes: int) -> None:
        """Over all fabrics together, each flow that has ended has sent its size."""
        rest_bytes = 0
        for end in ended:
            assert isinstance(end, Finished), "rows are not told again"
            size_bytes = self._flows[end.flow][0].size_bytes
            rest_bytes += size_bytes - self._sent_before.get(end.flow, 0)
        if sent_bytes != rest_bytes:
            raise InvariantError(f"flows were granted {sent_bytes} bytes of {rest_bytes} to send")

    def _rest(self, spec: FlowSpec, sent_bytes: int) -> FlowSpec:
        """What is left of a flow of which so much was sent since the fabric that died was told."""
        self.arrived_bytes += sent_bytes
        sent = self._sent_before[spec.flow] = self._sent_before.get(spec.flow, 0) + sent_bytes
        return msgspec.structs.replace(spec, size_bytes=spec.size_bytes - sent)

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far, over all fabrics; see ``Fabric.bytes_by_category``."""
        return _sums([fabric.bytes_by_category() for fabric in (*self._dead, self.fabric)])

    def bytes_by_link(self) -> dict[str, int]:
        """The same for each link."""
        return _sums([fabric.bytes_by_link() for fabric in (*self._dead, self.fabric)])

    def ends(self, flow: FlowId) -> tuple[NodeId, NodeId, int]:
        """A flow's source, destination and size in bytes; ``KeyError`` if it is not open."""
        spec, _ = self._flows[flow]
        return spec.src, spec.dst, spec.size_bytes

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        fabric = self.fabric
        by_link = self.bytes_by_link()
        return NetworkStats(
            active_s=self._active_s,
            cross_rack_room_bytes=self._room_bytes,
            bytes=self.bytes_by_category(),
            cross_rack_links={name: by_link[name] for name in fabric.network.cross_rack},
            ports={name: by_link[name] for name in fabric.network.ports},
            grant_lags=(),
            cpu_samples=0,
            cpu_saturated=0,
            flows_opened=self.opened,
            flows_finished=self.finished,
            flows_cancelled=self.cancelled,
            flows_open=fabric.open_flows,
        )

    def _close(self, spec: FlowSpec) -> None:
        """Cancel a flow in the fabric, if it is open there, and count it."""
        waiting = self._waiting.pop(spec.flow, None)
        if self.fabric.cancel(spec.flow) or waiting is not None:
            self.cancelled += 1
            self.lost_bytes += spec.size_bytes - self._sent_before.get(spec.flow, 0)

    def _arrived(self, flow: FlowId) -> None:
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")


def _sums(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The sums of the values of each key."""
    return {name: sum(each.get(name, 0) for each in parts) for part in parts for name in part}
