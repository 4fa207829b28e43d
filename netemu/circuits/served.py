"""A class of flows on a circuit, which keeps its own service.

Groups on circuits are many, small and short-lived, so arrays would cost more than objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from railyard.netemu.model.openflows import KEEPS, SERVICE_BYTES_MAX, Flow, FlowClass


class ServedClass(FlowClass, eq=False, kw_only=True):
    """Flows of one circuit with the same limits, and the service that they get."""

    weight: float = 0.0  #: sum of its flows' weights
    served: float = 0.0  #: bytes per unit of weight
    total: float = 0.0  #: sum over its flows of weight * ``needs``, in bytes
    rate: float = 0.0  #: bytes/s per unit of weight

    def enter(self, flow: Flow) -> None:
        """Add a flow; ``served`` must be as of now."""
        sent, weight = flow.sent_bytes, flow.weight
        if self.members and self.served * weight > SERVICE_BYTES_MAX:
            self.begin_anew(self.served)
            self.served = 0.0
            self.weight, self.total = self.sums()
        served = self.served
        flow.flow_class = self
        flow.sent_before = sent
        flow.joined_at = served
        flow.needs = needs = served + (flow.size_bytes - sent) / weight
        self.join(flow)
        self.weight += weight
        self.total += weight * needs

    def leave(self, flow: Flow) -> None:
        """Remove a flow; ``served`` must be as of now."""
        flow.sent_bytes = flow.sent_at(self.served)
        self.release(flow)
        self.less([flow])

    def less(self, flows: Iterable[Flow]) -> None:
        """Subtract flows that were removed from ``weight`` and ``total``."""
        if not self.members:
            self.weight = self.total = 0.0
            return
        enough, enough_bytes = self.weight * KEEPS, self.total * KEEPS
        for flow in flows:
            self.weight -= flow.weight
            self.total -= flow.weight * flow.needs
        if self.weight < enough or self.total < enough_bytes:
            self.weight, self.total = self.sums()

    def left_bytes(self) -> float:
        """Bytes that its flows have left to send; ``served`` must be as of now."""
        return max(self.total - self.served * self.weight, 0.0)
