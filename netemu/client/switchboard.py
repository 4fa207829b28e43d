"""All transfers over one socket: passes each message to the transfer that it belongs to.

Make one ``LinkTransfers`` for each link, or one ``ServerTransfers`` for each server, before the
first message arrives.  The process that requests a transfer names it.  While it lasts, no other
transfer between the two processes may have that name, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.frames import Payload
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Message
from railyard.netemu.client.transfer import Buffer, IncomingTransfer, OutgoingTransfer, Send, Source
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed

#: How often a server checks for peers that vanished in the middle of a transfer, and acknowledges
#: what it has taken: over a slow link the bytes that are acknowledged anyway may take minutes.
PROBE_S = 2.0

P = ParamSpec("P")
End = TypeVar("End", OutgoingTransfer, IncomingTransfer)
Bulk = TypeVar("Bulk")  #: the bytes to send, or the function that takes them

OnDone = Callable[[], None]
OnFailed = Callable[[str], None]


class Transfers:
    """The transfers between this process and one other, by name."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ends: dict[str, OutgoingTransfer | IncomingTransfer] = {}
        self._progress: dict[str, int] = {}  #: when last probed

    def __len__(self) -> int:
        return len(self._ends)

    def outgoing(
        self,
        transfer: str,
        data: Buffer | Source,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> OutgoingTransfer:
        """Begin to send ``data``; nothing is sent before ``allow``.

        Raises ``PeerError`` if a transfer of that name is under way.
        """
        return self._begin(OutgoingTransfer, transfer, data, on_done, on_failed, stored_total)

    def incoming(
        self,
        transfer: str,
        take: Callable[[memoryview], None],
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> IncomingTransfer:
        """Expect bytes; call it before requesting them from the other side.

        Raises ``PeerError`` if a transfer of that name is under way.
        """
        return self._begin(IncomingTransfer, transfer, take, on_done, on_failed, stored_total)

    def drop(self, transfer: str) -> None:
        """Forget a transfer without notifying anybody; nothing happens if there is none."""
        end = self._ends.pop(transfer, None)
        if end is not None:
            end.drop()

    def fail_all(self, reason: str) -> None:
        """Fail every transfer: the other process is gone."""
        for end in list(self._ends.values()):
            end.failed(reason)

    def probe(self) -> None:
        """Acknowledge what was received; find out if peers of resting transfers are alive."""
        before, self._progress = self._progress, {}
        for name, end in list(self._ends.items()):
            if before.get(name) == end.progress or isinstance(end, IncomingTransfer):
                end.probe()
            self._progress[name] = end.progress

    def take(self, message: Chunk | ChunkTaken, payload: memoryview | None) -> None:
        """Pass a message of the other side to its transfer.

        If that has ended, the other side may not know yet, and is sent a failure.
        """
        end = self._ends.get(message.transfer)
        if isinstance(message, Chunk) and isinstance(end, IncomingTransfer):
            end.chunk(message, payload)
        elif isinstance(message, ChunkTaken) and isinstance(end, OutgoingTransfer):
            end.take(message)
        else:
            reason = "the other side has no transfer of that name"
            self._send(TransferFailed(transfer=message.transfer, reason=reason), None)

    def failed(self, message: TransferFailed) -> None:
        """The other side gave up a transfer."""
        end = self._ends.get(message.transfer)
        if end is not None:
            end.failed(message.reason)

    def _begin(
        self,
        kind: Callable[[str, Bulk, Send, OnDone, OnFailed, int | None], End],
        transfer: str,
        bulk: Bulk,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None,
    ) -> End:
        known = self._ends.get(transfer)
        if known is not None and not known.over:
            raise PeerError(f'transfer "{transfer}" is under way already')
        done, failed = self._forgetting(transfer, on_done), self._forgetting(transfer, on_failed)
        end = kind(transfer, bulk, self._send, done, failed, stored_total)
        self._ends[transfer] = end
        return end

    def _forgetting(self, transfer: str, call: Callable[P, None]) -> Callable[P, None]:
        """``call``, after forgetting the transfer."""

        def ended(*args: P.args, **kwargs: P.kwargs) -> None:
            self._ends.pop(transfer, None)
            call(*args, **kwargs)

        return ended


class LinkTransfers(Transfers):
    """The transfers between this process and the server of one link."""

    def __init__(self, link: Link) -> None:
        def send(message: Message, payload: Payload) -> bool:
            link.send(message, payload)
            return not link.lost

        super().__init__(send)
        link.on(Chunk, self.take)
        link.on(ChunkTaken, self.take)
        link.on(TransferFailed, lambda message, _: self.failed(message))


class ServerTransfers:
    """The transfers between this process and all peers of one server.

    A server gets no notice of a peer's end, so transfers without progress are probed.  A peer gives
    up a server that acknowledges nothing for long, so progress is acknowledged.
    """

    def __init__(self, server: Server, reactor: Reactor) -> None:
        self._server = server
        self._by_peer: dict[bytes, Transfers] = {}
        server.on(Chunk, self._take)
        server.on(ChunkTaken, self._take)
        server.on(TransferFailed, self._failed)
        reactor.call_every(PROBE_S, self._probe)

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    def with_peer(self, peer: bytes) -> Transfers:
        """The transfers with one peer."""
        known = self._by_peer.get(peer)
        if known is None:
            known = self._by_peer[peer] = Transfers(partial(self._server.push, peer))
        return known

    def _take(self, request: Request) -> None:
        assert isinstance(request.message, Chunk | ChunkTaken)
        self.with_peer(request.peer).take(request.message, request.payload)

    def _failed(self, request: Request) -> None:
        assert isinstance(request.message, TransferFailed)
        self.with_peer(request.peer).failed(request.message)

    def _probe(self) -> None:
        for peer, transfers in list(self._by_peer.items()):
            transfers.probe()
            if not transfers:
                del self._by_peer[peer]
