"""A process's connection to the network emulator: opens flows and passes on their grants.

Callers count stored (real) bytes, the emulator the model's bytes, ``topology.scale`` times as many.
Nobody sends a byte of a flow before ``on_grant`` permits it.

If the emulator dies, another takes its place, which knows nothing of flows.  Each is requested
again, with what was granted of it, and its grants go on from there.  What was granted may still be
sent meanwhile: the network has carried it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from railyard.cluster.errors import PeerLost
from railyard.cluster.ids import FlowId, NodeId
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.cluster.topology import Topology
from railyard.netemu.messages import AttachFlow, CloseFlow, Grants, OpenFlow

log = logging.getLogger(__name__)

#: Called with the stored bytes that the flow may have sent so far, in total.
OnGrant = Callable[[int], None]
#: Called with the reason why there will be no (more) grants.
OnRefused = Callable[[str], None]


@dataclass(slots=True)
class _Waiting:
    """A flow whose grants go to this process."""

    ends: tuple[NodeId, NodeId] | None  #: source and target; None: another process opened it
    stored_bytes: int  #: its size
    on_grant: OnGrant
    on_refused: OnRefused | None  #: None: the reason is logged
    is_known: bool = False  #: the emulator has confirmed it
    granted_bytes: int = 0  #: what may have been sent so far, of the model

    @property
    def is_local(self) -> bool:
        """Whether it stays within a node: then the emulator is not involved."""
        return self.ends is not None and self.ends[0] == self.ends[1]


class NetworkClient:
    """Opens and attaches to flows.  All callbacks come from the reactor, never from within a call.

    A flow is forgotten once all its bytes are granted.  If the emulator refuses a flow,
    ``on_refused`` is called (by default the reason is logged).  While the emulator can't be
    reached, flows wait; once there is a connection again, they are requested again.
    """

    def __init__(self, transport: Transport, topology: Topology) -> None:
        self._reactor = transport.reactor
        self._scale = topology.scale
        self._flows: dict[FlowId, _Waiting] = {}
        self._transport = transport

    def open(
        self,
        flow: FlowId,
        src: NodeId,
        dst: NodeId,
        stored_bytes: int,
        on_grant: OnGrant,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Start a flow that this process sends; no other flow of the cluster may have its name.

        ``on_grant(total)`` is called until ``total == stored_bytes``, and at least once even if
        that is 0.  With ``src == dst`` all is granted at once, without the network.
        """
        self._add(flow, _Waiting((src, dst), stored_bytes, on_grant, on_refused))

    def attach(
        self,
        flow: FlowId,
        stored_bytes: int,
        on_grant: OnGrant,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Get the grants of a flow that the ResourceManager has opened, or is about to open.

        What the flow could have sent before this call is granted at once.
        """
        self._add(flow, _Waiting(None, stored_bytes, on_grant, on_refused))

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow: it gets no more grants, and its bandwidth is free for others."""
        if self._flows.pop(flow, None) is not None:
            self._link.send(CloseFlow(flow=flow))

    def close(self) -> None:
        self._flows.clear()
        if "_link" in vars(self):
            self._link.close()

    @cached_property
    def _link(self) -> LastingLink:
        """The connection, made when first needed: most attempts never need a flow of their own."""
        link = LastingLink(self._transport, "network", self._request_all_again)
        link.on(Grants, self._on_grants)
        return link

    def _add(self, flow: FlowId, waiting: _Waiting) -> None:
        self._flows[flow] = waiting

        def grant() -> None:
            if self._flows.get(flow) is waiting:  # else it was cancelled
                self._finish(flow)

        if waiting.is_local:
            self._reactor.call_later(0, grant)
        else:
            self._request(flow)

    def _request_all_again(self) -> None:
        for flow, waiting in self._flows.items():
            if not waiting.is_local:
                self._request(flow, again=True)

    def _request(self, flow: FlowId, again: bool = False) -> None:
        """Request a flow; ``again``: over a new connection."""
        waiting = self._flows[flow]
        order: OpenFlow | AttachFlow
        if waiting.ends is None:
            # if the first request was lost, this one is the first to arrive
            known = again and waiting.is_known
            order = AttachFlow(flow=flow, again=known, sent_bytes=waiting.granted_bytes)
        else:
            order = OpenFlow(
                flow=flow,
                src=waiting.ends[0],
                dst=waiting.ends[1],
                size_bytes=waiting.stored_bytes * self._scale,
                attach=True,
                again=again,
                sent_bytes=waiting.granted_bytes,
                given_s=now_s(),
            )
        self._link.request(order, Done, lambda answer, _: self._on_answer(flow, answer))

    def _on_answer(self, flow: FlowId, answer: Done | Refusal | PeerLost) -> None:
        waiting = self._flows.get(flow)
        if waiting is None or isinstance(answer, PeerLost):
            return  # it is over, or will be requested again
        if isinstance(answer, Done):
            waiting.is_known = True
        else:
            del self._flows[flow]
            refused = waiting.on_refused or partial(log.error, "flow %s: %s", flow)
            refused(str(answer))

    def _on_grants(self, grants: Grants, _: memoryview | None) -> None:
        for flow, total_bytes in grants.total_bytes.items():
            waiting = self._flows.get(flow)
            if waiting is not None:
                waiting.granted_bytes = max(waiting.granted_bytes, total_bytes)
                waiting.on_grant(min(total_bytes // self._scale, waiting.stored_bytes))
        for flow in grants.finished:
            self._finish(flow)

    def _finish(self, flow: FlowId) -> None:
        waiting = self._flows.pop(flow, None)
        if waiting is not None:
            waiting.on_grant(waiting.stored_bytes)
