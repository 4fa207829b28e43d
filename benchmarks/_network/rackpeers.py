"""The processes that carry the transfers of ``emulated``: one per rack.

Each serves and fetches for its rack's nodes as a NodeManager does, and does nothing else.
"""

from __future__ import annotations

import math

import crc32c

from railyard.cluster.ids import FlowId, NodeId, rack_of
from railyard.cluster.messages import FlowFailed
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Request, Transport
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.netemu.client import NetworkClient
from railyard.netemu.transfers import LinkTransfers, ServerTransfers


class Fetch(Command, frozen=True, kw_only=True):
    """From the driver to a reader: fetch a flow's bytes from this peer."""

    flow: FlowId
    peer: str
    stored_bytes: int


class Serve(Command, frozen=True, kw_only=True):
    """From a reader to a sender: send me a flow's bytes."""

    flow: FlowId
    stored_bytes: int


class Fetched(Event, frozen=True, kw_only=True):
    """All bytes of a flow are here."""

    flow: FlowId
    began_s: float  #: when the first of them were
    finished_s: float
    checksum: int


def peer_name(node: NodeId) -> str:
    """The process that works for a node."""
    return f"peer-{rack_of(node)}"


class RackPeer:
    """Sends the first bytes of ``data`` to whoever asks, and fetches what the driver asks for."""

    def __init__(self, transport: Transport, topology: Topology, name: str, data: bytes) -> None:
        self._transport = transport
        self._data = memoryview(data)
        self._network = NetworkClient(transport, topology)
        self._server = transport.server(name)
        self._serving = ServerTransfers(self._server, transport.reactor)
        self._server.on(Serve, self._serve)
        self._server.on(Fetch, self._fetch)
        self._links: dict[str, tuple[Link, LinkTransfers]] = {}

    def _serve(self, request: Request[Serve]) -> None:
        order = request.message
        transfer = self._serving.with_peer(request.peer).outgoing(
            order.flow,
            self._data[: order.stored_bytes],
            on_done=lambda: None,
            on_failed=lambda _: self._network.cancel(order.flow),
        )
        self._network.attach(order.flow, order.stored_bytes, transfer.allow, transfer.fail)

    def _fetch(self, request: Request[Fetch]) -> None:
        order = request.message
        checksum, began_s = 0, math.inf

        def take(data: memoryview) -> None:
            nonlocal checksum, began_s
            began_s = min(began_s, now_s())
            checksum = crc32c.crc32c(data, checksum)

        def done() -> None:
            finished_s = now_s()
            fetched = Fetched(
                flow=order.flow,
                began_s=min(began_s, finished_s),  # an empty one has no bytes
                finished_s=finished_s,
                checksum=checksum,
            )
            self._server.push(request.peer, fetched)

        def failed(reason: str) -> None:
            self._server.push(request.peer, FlowFailed(flow=order.flow, reason=reason))

        link, transfers = self._link(order.peer)
        transfers.incoming(order.flow, take, done, failed)
        link.send(Serve(flow=order.flow, stored_bytes=order.stored_bytes))

    def _link(self, peer: str) -> tuple[Link, LinkTransfers]:
        if peer not in self._links:
            link = self._transport.link(
                peer, on_lost=lambda: self._links.pop(peer)[1].fail_all(f"{peer} is gone")
            )
            self._links[peer] = link, LinkTransfers(link)
        return self._links[peer]
