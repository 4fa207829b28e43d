"""Bulk bytes between processes: the two ends of a transfer, and all transfers over one socket.

The sender sends no more than it was granted, and is at most a window ahead of what the receiver has
taken.  It is done when the receiver has acknowledged all: a message in a socket may still be lost.
All bytes are stored (real) bytes.

Make one ``LinkTransfers`` for each link, or one ``ServerTransfers`` for each server, before the
first message arrives.  The process that requests a transfer names it.  While it lasts, no other
transfer between the two processes may have that name, in either direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from railyard.cluster.errors import PeerError, RailyardError
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.sockets import Payload
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Message
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed

Buffer = bytes | bytearray | memoryview
#: Sends a message to the other end; False if that is gone.
Send = Callable[[Message, bytes | memoryview | None], bool]
OnDone = Callable[[], None]
OnFailed = Callable[[str], None]

#: The largest payload frame: measured to be the fastest for ZeroMQ without copies.
CHUNK_BYTES = 2**20
#: How far the sender may be ahead of what the receiver has taken: enough for the round trip.
WINDOW_BYTES = 8 * 2**20
#: The receiver acknowledges at least every so many bytes.
ACKNOWLEDGE_BYTES = 2 * 2**20
#: How often a server checks for peers that vanished in the middle of a transfer, and acknowledges
#: what it has taken: over a slow link the bytes that are acknowledged anyway may take minutes.
PROBE_S = 2.0


class Source(Protocol):
    """Bytes that are read in order, as they may be sent."""

    @property
    def left(self) -> int:
        """Bytes not read yet."""

    def read(self, size: int) -> bytes | memoryview:
        """The next bytes, at least one and at most ``size``; they stay unchanged.

        An ``OSError``, ``MemoryError`` or ``RailyardError`` fails the transfer.
        """

    def close(self) -> None:
        """Called once when no more is read, at the end or earlier."""


class _End:
    """Both ends: ``on_done`` or ``on_failed`` is called once, except after ``drop``."""

    def __init__(self, transfer: str, send: Send, on_done: OnDone, on_failed: OnFailed) -> None:
        self.transfer = transfer
        self.progress = 0  #: bytes that the receiver is known to have taken
        self.over = False
        self._send = send
        self._on_done = on_done
        self._on_failed = on_failed

    def fail(self, reason: str) -> None:
        """Give up: notify the other end, then call ``on_failed(reason)``."""
        if not self.over:
            self._send(TransferFailed(transfer=self.transfer, reason=reason), None)
            self.failed(reason)

    def failed(self, reason: str) -> None:
        """Handle that the other end gave up, or that its process ended."""
        if not self.over:
            self.drop()
            self._on_failed(reason)

    def drop(self) -> None:
        """Forget the transfer without notifying anybody."""
        self.over = True


class OutgoingTransfer(_End):
    """The sender's end.

    ``data`` is sent without copies: leave it unchanged until the end.  Data that is not in memory
    is a ``Source``, which the transfer closes.  A transfer with data that comes in parts has a
    ``stored_total``, and gets the later parts by ``extend``.
    """

    def __init__(
        self,
        transfer: str,
        data: Buffer | Source,
        send: Send,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> None:
        super().__init__(transfer, send, on_done, on_failed)
        self.sent = 0
        self._sources: deque[Source] = deque()  # data not sent yet; none is empty
        self._allowed = 0
        self._begun = False
        self._hold(data)
        held = sum(source.left for source in self._sources)
        self.total = held if stored_total is None else stored_total

    def extend(self, data: Buffer | Source) -> None:
        """Add the next bytes of a transfer that began with fewer than its total."""
        self._hold(data)
        self._pump()

    def allow(self, total: int) -> None:
        """Permit ``total`` bytes in all; this can be a flow's ``on_grant``."""
        self._allowed = max(self._allowed, total)
        if not self._begun and not self.over:
            self._begun = True
            if self.total == 0:  # the receiver would wait for a chunk forever
                self._send_chunk(b"")
        self._pump()

    def take(self, message: ChunkTaken) -> None:
        if self.over:
            return
        if message.stored_bytes > self.sent:
            took = f"{message.stored_bytes} bytes, but {self.sent} were sent"
            self.fail(f"the receiver says that it took {took}")
            return
        self.progress = max(self.progress, message.stored_bytes)
        if self._begun and self.progress == self.total:
            self.drop()
            self._on_done()
        else:
            self._pump()

    def drop(self) -> None:
        super().drop()
        while self._sources:
            self._sources.popleft().close()

    def probe(self) -> None:
        """Fail the transfer if the receiver is gone."""
        if self._begun and not self.over:
            self._send_chunk(b"")

    def _hold(self, data: Buffer | Source) -> None:
        source = _Held(data) if isinstance(data, Buffer) else data
        if source.left and not self.over:
            self._sources.append(source)
        else:
            source.close()

    def _pump(self) -> None:
        while not self.over and self._sources:
            source = self._sources[0]
            room = min(self._allowed, self.progress + WINDOW_BYTES, self.total) - self.sent
            size = min(room, CHUNK_BYTES, source.left)
            if size <= 0:
                return
            try:
                data = source.read(size)
            except (OSError, MemoryError, RailyardError) as error:
                self.fail(f"the sender cannot read it: {error}")
                return
            if not source.left:
                self._sources.popleft().close()
            self._send_chunk(data)

    def _send_chunk(self, payload: bytes | memoryview) -> None:
        chunk = Chunk(transfer=self.transfer, stored_offset=self.sent, stored_total=self.total)
        self.sent += len(payload)
        if not self._send(chunk, payload):
            self.failed("the receiver is gone")


class _Held:
    """A ``Source`` of bytes that are in memory."""

    def __init__(self, data: Buffer) -> None:
        self._rest = memoryview(data).cast("B")

    @property
    def left(self) -> int:
        return len(self._rest)

    def read(self, size: int) -> memoryview:
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def close(self) -> None:
        self._rest = memoryview(b"")


class IncomingTransfer(_End):
    """The receiver's end.

    ``take(data)`` gets the bytes in order; they are acknowledged when it returns.  An ``OSError``
    (a full disk) or a ``RailyardError`` that it raises fails the transfer.
    """

    def __init__(
        self,
        transfer: str,
        take: Callable[[memoryview], None],
        send: Send,
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> None:
        super().__init__(transfer, send, on_done, on_failed)
        self.total = stored_total  #: None until the first chunk
        self._take = take
        self._acknowledged = 0

    def chunk(self, message: Chunk, payload: memoryview | None) -> None:
        """Handle a chunk; one that does not fit fails the transfer."""
        if self.over:
            return
        problem = self._problem(message, payload)
        if problem:
            self.fail(problem)
            return
        self.total = message.stored_total
        if payload is not None and len(payload):
            try:
                self._take(payload)
            except OSError as error:
                self.fail(f"the receiver cannot store it: {error}")
                return
            except RailyardError as error:
                self.fail(str(error))
                return
            self.progress += len(payload)
        if not self.over:  # what took the bytes may have ended the transfer
            self._acknowledge()

    def probe(self) -> None:
        """Acknowledge what was taken so far; fail the transfer if the sender is gone."""
        if not self.over:
            self._send_acknowledgement()

    def _problem(self, message: Chunk, payload: memoryview | None) -> str:
        end = message.stored_offset + (len(payload) if payload is not None else 0)
        if payload is None:
            return "a chunk without its payload frame"
        if message.stored_offset != self.progress:
            return f"a chunk at {message.stored_offset}, after {self.progress} bytes"
        if self.total is not None and message.stored_total != self.total:
            return f"a chunk of a transfer of {message.stored_total} bytes: need {self.total}"
        if end > message.stored_total:
            return f"a chunk that ends at {end} of {message.stored_total} bytes"
        return ""

    def _acknowledge(self) -> None:
        complete = self.progress == self.total
        if complete or self.progress - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._send_acknowledgement()
        if complete and not self.over:
            self.drop()
            self._on_done()

    def _send_acknowledgement(self) -> None:
        self._acknowledged = self.progress
        if not self._send(ChunkTaken(transfer=self.transfer, stored_bytes=self.progress), None):
            self.failed("the sender is gone")


# All transfers over one socket --------------------------------------------------------------------


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
        """Begin to send, but not before ``allow``; ``PeerError`` if that name is under way."""
        ends = self._handlers(transfer, on_done, on_failed)
        end = OutgoingTransfer(transfer, data, self._send, *ends, stored_total)
        self._ends[transfer] = end
        return end

    def incoming(
        self,
        transfer: str,
        take: Callable[[memoryview], None],
        on_done: OnDone,
        on_failed: OnFailed,
        stored_total: int | None = None,
    ) -> IncomingTransfer:
        """Expect bytes, before these are requested; ``PeerError`` if that name is under way."""
        ends = self._handlers(transfer, on_done, on_failed)
        end = IncomingTransfer(transfer, take, self._send, *ends, stored_total)
        self._ends[transfer] = end
        return end

    def drop(self, transfer: str) -> None:
        """Forget a transfer without notifying anybody; nothing happens if there is none."""
        end = self._ends.pop(transfer, None)
        if end is not None:
            end.drop()

    def fail_all(self, reason: str) -> None:
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
        end = self._ends.get(message.transfer)
        if end is not None:
            end.failed(message.reason)

    def _handlers(
        self, transfer: str, on_done: OnDone, on_failed: OnFailed
    ) -> tuple[OnDone, OnFailed]:
        """What a new transfer calls at its end; raises ``PeerError`` if its name is taken."""
        known = self._ends.get(transfer)
        if known is not None and not known.over:
            raise PeerError(f'transfer "{transfer}" is under way already')

        def done() -> None:
            self._ends.pop(transfer, None)
            on_done()

        def failed(reason: str) -> None:
            self._ends.pop(transfer, None)
            on_failed(reason)

        return done, failed


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
        server.on(TransferFailed, lambda sent: self.with_peer(sent.peer).failed(sent.message))
        reactor.call_every(PROBE_S, self._probe)

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    def with_peer(self, peer: bytes) -> Transfers:
        known = self._by_peer.get(peer)
        if known is None:
            known = self._by_peer[peer] = Transfers(partial(self._server.push, peer))
        return known

    def _take(self, request: Request[Chunk | ChunkTaken]) -> None:
        self.with_peer(request.peer).take(request.message, request.payload)

    def _probe(self) -> None:
        for peer, transfers in list(self._by_peer.items()):
            transfers.probe()
            if not transfers:
                del self._by_peer[peer]
