"""Flows of the simulated network so far, over fabrics that died and the one there is."""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.ids import FlowId
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import Finished, FlowSpec


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
