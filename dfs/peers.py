"""Connections to DataNodes, one per rack, and blocks being sent to one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import zmq

from railyard.cluster.errors import PeerLost, PeerUnable
from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.machine import exhausted
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import BlockId, BlockWritten, WriteBlock
from railyard.netemu.client import NetworkClient
from railyard.netemu.transfers import LinkTransfers, Source

#: Time limit for connecting to a DataNode, which answers at once unless it was killed.
CONNECT_S = 2.0
#: A connected DataNode that accepts none of a block's bytes, or does not acknowledge the block, for
#: so long is given up.  Each node behind it in the pipeline adds as much, so that the node right
#: before the failed one notices first and the nodes before it keep the block.
STALLED_S = 10.0


@dataclass(frozen=True, slots=True)
class Peer:
    """The link to a rack's DataNode, and the transfers on it."""

    link: Link
    transfers: LinkTransfers


class Peers:
    """Links to DataNodes, made when first needed and remade after a loss."""

    def __init__(self, transport: Transport, me: str) -> None:
        self._transport = transport
        self.reactor = transport.reactor
        self._prefix = f"{me}-{os.getpid()}"
        self._numbers = itertools.count(1)
        self._peers: dict[RackId, Peer] = {}

    def new_name(self) -> str:
        return f"block-{self._prefix}-{next(self._numbers)}"

    def of(self, node: NodeId) -> Peer:
        """The DataNode of a node; raises ``PeerUnable`` if this process has no descriptor left."""
        rack = rack_of(node)
        peer = self._peers.get(rack)
        if peer is None or peer.link.lost:
            if peer is not None:
                peer.link.close()
            peer = self._peers[rack] = self._connect(rack)
        return peer

    def is_lost(self, node: NodeId) -> bool:
        peer = self._peers.get(rack_of(node))
        return peer is not None and peer.link.lost

    def close(self) -> None:
        for peer in self._peers.values():
            peer.link.close()
        self._peers.clear()

    def _connect(self, rack: RackId) -> Peer:
        def lost() -> None:
            transfers.fail_all(f"{link.name} is gone")

        name = f"datanode-{rack}"
        try:
            link = self._transport.link(name, on_lost=lost, patience_s=CONNECT_S)
        except (OSError, zmq.ZMQError) as error:
            cause = exhausted(error)
            if cause is None:
                raise
            raise PeerUnable(f"{name} cannot be connected to: {cause}") from error
        transfers = LinkTransfers(link)
        return Peer(link, transfers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What reading and writing files takes, and where it is done."""

    transport: Transport
    topology: Topology
    namenode: LastingLink
    peers: Peers
    network: NetworkClient | None  #: None: bytes between nodes move at full speed
    node: NodeId | None  #: None: outside of the racks
    held_bytes: int  #: of a file that is written, at once
    read_bytes: dict[str, int]  #: {"local", "rack" or "remote": stored bytes read so far}


class OutgoingBlock:
    """Sends a block to the first of ``nodes``, which forwards it along the pipeline.

    Its bytes are given to ``extend``, in pieces of any size, and must not change; ``packed_sums``
    are their checksums.  With ``network`` they move as a flow of it from ``source``, a node or
    ``OUTSIDE``; without, at full speed.
    ``on_end`` is called once with the first node's answer: the nodes that have the block (none if
    it failed) and the reason if any has not.  What it refers to never refers to it once it has
    ended, so that it is freed at once, with what ``on_end`` refers to.
    """

    def __init__(
        self,
        peers: Peers,
        network: NetworkClient | None,
        source: NodeId,
        block: BlockId,
        stored_length: int,
        packed_sums: bytes,
        nodes: tuple[NodeId, ...],
        on_end: Callable[[BlockWritten], None],
    ) -> None:
        self._on_end = on_end
        self._ended = False
        self._reactor = peers.reactor
        self._patience_s = STALLED_S * len(nodes)
        name = peers.new_name()
        flow = FlowId(name)
        cancel: Callable[[], None]
        cancel = (lambda: None) if network is None else partial(network.cancel, flow)
        self._cancel = cancel
        self._peer = peer = peers.of(nodes[0])
        peer.link.request(
            WriteBlock(transfer=name, block=block, stored_length=stored_length, nodes=nodes),
            BlockWritten,
            self._answered,
            packed_sums,
        )
        self._transfer = peer.transfers.outgoing(
            name,
            b"",
            on_done=lambda: None,
            on_failed=lambda _: cancel(),
            stored_total=stored_length,
        )
        if network is None:
            self._transfer.allow(stored_length)
        else:
            network.open(
                flow,
                source,
                nodes[0],
                stored_length,
                on_grant=self._transfer.allow,
                on_refused=self._transfer.fail,
            )
        self._watch()

    def extend(self, *pieces: memoryview | Source) -> None:
        for piece in pieces:
            self._transfer.extend(piece)

    def abort(self, reason: str) -> None:
        """Cancel the transfer; ``on_end`` follows, since the first node answers this too."""
        self._transfer.fail(reason)

    def _answered(self, answer: BlockWritten | Refusal | PeerLost, _: memoryview | None) -> None:
        if not isinstance(answer, BlockWritten):
            full = isinstance(answer, Refusal) and answer.unable
            answer = BlockWritten(nodes=(), reason=str(answer), is_full=full)
        if self._ended:
            return  # too late
        self._ended = True
        self._timer.cancel()
        self._peer.transfers.drop(self._transfer.transfer)
        self._cancel()
        self._on_end(answer)

    def _watch(self) -> None:
        """Fail the transfer if the node makes no progress for ``_patience_s``."""
        taken, sent = self._transfer.progress, self._transfer.sent

        def look() -> None:
            # Stalled: it left sent bytes unaccepted, or has all bytes and has not answered.
            if self._transfer.progress == taken and (sent > taken or sent == self._transfer.total):
                name = self._peer.link.name
                reason = f"{name} has taken nothing for {self._patience_s:g} s"
                self._transfer.fail(reason)
                self._answered(PeerLost(reason), None)
            else:
                self._watch()

        self._timer = self._reactor.call_later(self._patience_s, look)
