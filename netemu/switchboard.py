"""All transfers over one socket: hands each message to the end of a transfer that it belongs to.

Make one ``LinkTransfers`` for a link, or one ``ServerTransfers`` for a server, before the first
message arrives.  A transfer's name is chosen by whoever asks for it, and is one of a kind between
two processes for as long as the transfer lasts, whichever direction it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from cluster.errors import PeerError
from cluster.reactor import Reactor
from cluster.transport import Link, Payload, Request, Server
from cluster.wire import Message
from netemu.messages import Chunk, ChunkTaken, TransferFailed
from netemu.transfer import Data, IncomingTransfer, OutgoingTransfer, Send

#: How often a server looks for peers that vanished in the middle of a transfer.
PROBE_S = 2.0

P = ParamSpec("P")

Take = Callable[[memoryview], None]
OnDone = Callable[[], None]
OnFailed = Callable[[str], None]


class _Transfers:
    """The transfers under way, by peer and name."""

    def __init__(self) -> None:
        self._ends: dict[tuple[bytes, str], OutgoingTransfer | IncomingTransfer] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def _outgoing(
        self,
        peer: bytes,
        send: Send,
        transfer: str,
        data: Data,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None,
    ) -> OutgoingTransfer:
        key = self._key(peer, transfer)
        end = OutgoingTransfer(
            transfer,
            data,
            send,
            on_done=self._forgetting(key, on_done),
            on_failed=self._forgetting(key, on_failed),
            stored_total=stored_total,
        )
        self._ends[key] = end
        return end

    def _incoming(
        self,
        peer: bytes,
        send: Send,
        transfer: str,
        take: Take,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None,
    ) -> IncomingTransfer:
        key = self._key(peer, transfer)
        end = IncomingTransfer(
            transfer,
            take,
            send,
            on_done=self._forgetting(key, on_done),
            on_failed=self._forgetting(key, on_failed),
            stored_total=stored_total,
        )
        self._ends[key] = end
        return end

    def _key(self, peer: bytes, transfer: str) -> tuple[bytes, str]:
        key = (peer, transfer)
        known = self._ends.get(key)
        if known is not None and not known.over:
            raise PeerError(f'transfer "{transfer}" is under way already')
        return key

    def _forgetting(self, key: tuple[bytes, str], call: Callable[P, None]) -> Callable[P, None]:
        """``call``, but first the transfer is forgotten."""

        def ended(*args: P.args, **kwargs: P.kwargs) -> None:
            self._ends.pop(key, None)
            call(*args, **kwargs)

        return ended

    def _drop(self, peer: bytes, transfer: str) -> None:
        end = self._ends.pop((peer, transfer), None)
        if end is not None:
            end.drop()

    def _chunk(self, peer: bytes, message: Chunk, payload: memoryview | None, send: Send) -> None:
        end = self._ends.get((peer, message.transfer))
        if isinstance(end, IncomingTransfer):
            end.chunk(message, payload)
        else:
            # Chunks that were under way when their transfer ended come here: their sender stops.
            reason = "the receiver knows of no such transfer"
            send(TransferFailed(transfer=message.transfer, reason=reason), None)

    def _taken(self, peer: bytes, message: ChunkTaken) -> None:
        end = self._ends.get((peer, message.transfer))
        if isinstance(end, OutgoingTransfer):
            end.take(message)

    def _failed(self, peer: bytes, message: TransferFailed) -> None:
        end = self._ends.get((peer, message.transfer))
        if end is not None:
            end.failed(message.reason)


class LinkTransfers(_Transfers):
    """The transfers between this process and the server of one link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        link.on(Chunk, lambda message, data: self._chunk(b"", message, data, self._send))
        link.on(ChunkTaken, lambda message, _: self._taken(b"", message))
        link.on(TransferFailed, lambda message, _: self._failed(b"", message))

    def outgoing(
        self,
        transfer: str,
        data: Data,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> OutgoingTransfer:
        """Begin to send ``data``; nothing leaves before ``allow``."""
        return self._outgoing(b"", self._send, transfer, data, on_done, on_failed, stored_total)

    def incoming(
        self,
        transfer: str,
        take: Take,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> IncomingTransfer:
        """Expect bytes; to be called before the other side is asked for them."""
        return self._incoming(b"", self._send, transfer, take, on_done, on_failed, stored_total)

    def drop(self, transfer: str) -> None:
        """Forget a transfer, without a word; nothing happens if there is none."""
        self._drop(b"", transfer)

    def fail_all(self, reason: str) -> None:
        """Fail every transfer: for the link's ``on_lost``."""
        for end in list(self._ends.values()):
            end.failed(reason)

    def _send(self, message: Message, payload: Payload) -> bool:
        self._link.send(message, payload)
        return not self._link.lost


class ServerTransfers(_Transfers):
    """The transfers between this process and all peers of one server.

    A server is not told when a peer ends, so transfers that stand still are probed.
    """

    def __init__(self, server: Server, reactor: Reactor) -> None:
        super().__init__()
        self._server = server
        self._seen: dict[tuple[bytes, str], int] = {}
        server.on(Chunk, self._on_chunk)
        server.on(ChunkTaken, self._on_taken)
        server.on(TransferFailed, self._on_failed)
        reactor.call_every(PROBE_S, self._probe)

    def outgoing(
        self,
        peer: bytes,
        transfer: str,
        data: Data,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> OutgoingTransfer:
        """Begin to send ``data`` to a peer; nothing leaves before ``allow``.

        Raises ``PeerError`` if the peer has a transfer of that name under way.
        """
        send = self._sender(peer)
        return self._outgoing(peer, send, transfer, data, on_done, on_failed, stored_total)

    def incoming(
        self,
        peer: bytes,
        transfer: str,
        take: Take,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> IncomingTransfer:
        """Expect bytes from a peer; to be called before it is told to send them.

        Raises ``PeerError`` if the peer has a transfer of that name under way.
        """
        send = self._sender(peer)
        return self._incoming(peer, send, transfer, take, on_done, on_failed, stored_total)

    def drop(self, peer: bytes, transfer: str) -> None:
        """Forget a transfer, without a word; nothing happens if there is none."""
        self._drop(peer, transfer)

    def _sender(self, peer: bytes) -> Send:
        return lambda message, payload: self._server.push(peer, message, payload)

    def _on_chunk(self, request: Request) -> None:
        assert isinstance(request.message, Chunk)
        self._chunk(request.peer, request.message, request.payload, self._sender(request.peer))

    def _on_taken(self, request: Request) -> None:
        assert isinstance(request.message, ChunkTaken)
        self._taken(request.peer, request.message)

    def _on_failed(self, request: Request) -> None:
        assert isinstance(request.message, TransferFailed)
        self._failed(request.peer, request.message)

    def _probe(self) -> None:
        before, self._seen = self._seen, {}
        for key, end in list(self._ends.items()):
            done = end.acknowledged if isinstance(end, OutgoingTransfer) else end.received
            if before.get(key) == done:
                end.probe()
            self._seen[key] = done
