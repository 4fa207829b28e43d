"""The simulated network: starts flows in the fabric and reports their ends in virtual time.

Each flow ends with exactly one call of its ``on_end``: all bytes have arrived, or one of its nodes
went down.  For a cancelled flow there is no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

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
        self.finished += sum(1 if isinstance(end, Finished) else len(end) for end in ended)
        self.arrived_bytes += fabric.finished_bytes - before
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

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        for flow in list(self.fabric.coflow(coflow).flows):
            self.cancel(flow)
        self.fabric.finish_coflow(coflow)

    def end_flows_of(self, node: NodeId, reason: str) -> None:
        """End all flows from or to a node, with the reason.  O(flows)."""
        broken = [flow for flow, (at, _) in self._flows.items() if node in (at.src, at.dst)]
        for flow in broken:
            known = self._flows.pop(flow, None)
            if known is None:
                continue  # the end of another flow has cancelled this one
            spec, on_end = known
            missing = spec.size_bytes
            if self.fabric.is_open(flow):
                missing -= self.fabric.sent_bytes(flow)
                self._close(spec)
            on_end(missing, reason)

    def ends(self, flow: FlowId) -> tuple[NodeId, NodeId, int]:
        """A flow's source, destination and size in bytes; ``KeyError`` if it is not open."""
        spec, _ = self._flows[flow]
        return spec.src, spec.dst, spec.size_bytes

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        fabric = self.fabric
        by_link = fabric.bytes_by_link()
        return NetworkStats(
            active_s=self._active_s,
            cross_rack_room_bytes=self._room_bytes,
            bytes=fabric.bytes_by_category(),
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
        if self.fabric.cancel(spec.flow):
            self.cancelled += 1
            self.lost_bytes += spec.size_bytes

    def _arrived(self, flow: FlowId) -> None:
        known = self._flows.pop(flow, None)
        if known is not None:
            known[1](0, "")
