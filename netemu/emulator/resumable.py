"""A fabric that another can go on for, as the emulator's does after a restart.

What flows have sent is told by those who send them.  What flow schedulers know of coflows beside
that is a ``CoflowPast``.

    pasts = fabric.pasts()                                  while the first one lives
    later.register_coflow(name, pasts.get(name))            in the one that goes on
    later.go_on(spec, sent_bytes)

From then on rates are those that the first one would have set, where they follow from what flows
and coflows have sent and when they came.  Circuits are set up anew.  ``afap`` hands out all
bandwidth again: what a flow of it has held so far is not known.
"""

from __future__ import annotations

from railyard.cluster.ids import CoflowId
from railyard.netemu.fabric.carried import sent_bytes
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import CoflowPast, FlowSpec
from railyard.netemu.model.openflows import Flow


class ResumableFabric(Fabric):
    """A ``Fabric`` whose flows and coflows may have a past.  It takes no rows of flows."""

    def go_on(self, spec: FlowSpec, sent_bytes: float) -> None:
        """Open a flow now of which another fabric has carried ``sent_bytes``.

        Raises ``ValueError`` as ``start`` does, and if it has fewer bytes than that.
        """
        if not 0 <= sent_bytes <= spec.size_bytes:
            right = f"need 0 to its size, {spec.size_bytes}"
            raise ValueError(f'flow "{spec.flow}" has sent {sent_bytes} bytes: {right}')
        opened: list[Flow] = []
        self._open((spec,), opened)
        self._recent.note_started(self._context.now_s, opened)
        [flow] = opened
        flow.sent_bytes = flow.booked_bytes = float(sent_bytes)
        self._ways.group_of(spec).has_sent(flow.sent_bytes)
        self._send(flow)

    def register_coflow(self, coflow: CoflowId, past: CoflowPast | None = None) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered.

        Times of its ``past`` are on this fabric's clock.
        """
        super().register_coflow(coflow)
        if past is not None:
            self._coflows[coflow].started_s = past.arrived_s
            self._ways.take_up(coflow, past)

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """The pasts of the coflows that have had flows.  O(open flows)."""
        found: dict[CoflowId, CoflowPast] = {}
        for name, coflow in self._coflows.items():
            if coflow.started_s is not None:
                open_bytes = sum(sent_bytes([self._flows[flow] for flow in coflow.flows]))
                ended_bytes = max(self._ways.sent_bytes_of(name) - open_bytes, 0.0)
                found[name] = CoflowPast(coflow.started_s, ended_bytes)
        return found
