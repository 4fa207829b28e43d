"""The two ends of a transfer: the one way in which bulk bytes move between processes.

The sender's end never sends more than it was granted, nor more than a window ahead of what the
receiver took; the receiver's acknowledgement ends it, since a message that was handed to a socket
may still be lost with its sender.  Neither end knows sockets: ``netemu.switchboard`` brings them
and their messages together.  All bytes here are stored (real) ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from railyard.cluster.errors import RailyardError
from railyard.cluster.messaging.wire import Message
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed

Buffer = bytes | bytearray | memoryview
#: Sends a message to the other end; False if that is gone.
Send = Callable[[Message, bytes | memoryview | None], bool]

#: The largest payload frame; measured best for ZeroMQ without copies.
CHUNK_BYTES = 2**20
#: How far the sender may be ahead of what the receiver took: hides the way there and back.
WINDOW_BYTES = 8 * 2**20
#: The receiver tells at least this often what it took.
ACKNOWLEDGE_BYTES = 2 * 2**20


class Source(Protocol):
    """Bytes that are read one after the other, each once it may be sent."""

    @property
    def left(self) -> int:
        """How many were not read yet."""

    def read(self, size: int) -> bytes | memoryview:
        """At least one and at most ``size`` of the next bytes; they stay unchanged.

        ``OSError``, ``MemoryError`` or ``RailyardError``, if they cannot be had, fail the transfer.
        """

    def close(self) -> None:
        """No more is read.  Called once, whether or not all was."""


class _End:
    """What both ends have in common: how they end.

    ``on_done`` or ``on_failed`` is called once, except after ``drop``.
    """

    def __init__(
        self,
        transfer: str,
        send: Send,
        on_done: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self.transfer = transfer
        self.progress = 0  #: bytes that the receiver took, as far as is known here
        self.over = False
        self._send = send
        self._on_done = on_done
        self._on_failed = on_failed

    def fail(self, reason: str) -> None:
        """Give up: the other end is told, then ``on_failed(reason)`` is called."""
        if not self.over:
            self._send(TransferFailed(transfer=self.transfer, reason=reason), None)
            self.failed(reason)

    def failed(self, reason: str) -> None:
        """Handle the other end's giving up, or its process's end."""
        if not self.over:
            self.drop()
            self._on_failed(reason)

    def drop(self) -> None:
        """Forget the transfer without telling anybody."""
        self.over = True


class OutgoingTransfer(_End):
    """The sender's end.

    ``data`` is sent without copies: leave it unchanged until the end.  What is not in memory is a
    ``Source``, which belongs to the transfer from then on.  A transfer whose data come bit by bit
    states ``stored_total`` and gets the rest by ``extend``.
    """

    def __init__(
        self,
        transfer: str,
        data: Buffer | Source,
        send: Send,
        on_done: Callable[[], None],
        on_failed: Callable[[str], None],
        stored_total: int | None = None,
    ) -> None:
        super().__init__(transfer, send, on_done, on_failed)
        self.sent = 0
        self._sources: deque[Source] = deque()  # what is held and not sent; none is empty
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
        """Permit ``total`` bytes in all; the client's ``on_grant`` may be this very method."""
        self._allowed = max(self._allowed, total)
        self._begin()
        self._pump()

    def take(self, message: ChunkTaken) -> None:
        """Handle the receiver's acknowledgement."""
        if self.over:
            return
        if message.stored_bytes > self.sent:
            self.fail(f"the receiver claims {message.stored_bytes} bytes of {self.sent} sent")
            return
        self.progress = max(self.progress, message.stored_bytes)
        if self._begun and self.progress == self.total:
            self.drop()
            self._on_done()
        else:
            self._pump()

    def drop(self) -> None:
        """Forget the transfer without telling anybody."""
        super().drop()
        while self._sources:
            self._sources.popleft().close()

    def probe(self) -> None:
        """Find out whether the receiver still exists; fails the transfer if it does not."""
        if self._begun and not self.over:
            self._send_chunk(b"")

    def _hold(self, data: Buffer | Source) -> None:
        source = _Held(data) if isinstance(data, Buffer) else data
        if source.left and not self.over:
            self._sources.append(source)
        else:
            source.close()

    def _begin(self) -> None:
        # An empty transfer has a chunk too: how else would the receiver hear of it?
        if not self._begun and not self.over:
            self._begun = True
            if self.total == 0:
                self._send_chunk(b"")

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

    ``take(data)`` gets the bytes in order; what it took counts as being in the receiver's hands.
    An ``OSError`` that it raises (a full disk), or a ``RailyardError``, fails the transfer.
    """

    def __init__(
        self,
        transfer: str,
        take: Callable[[memoryview], None],
        send: Send,
        on_done: Callable[[], None],
        on_failed: Callable[[str], None],
        stored_total: int | None = None,
    ) -> None:
        super().__init__(transfer, send, on_done, on_failed)
        self.total = stored_total  #: None until the first chunk tells
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
        """Find out whether the sender still exists; fails the transfer if it does not."""
        if not self.over:
            self._tell()

    def _problem(self, message: Chunk, payload: memoryview | None) -> str:
        end = message.stored_offset + (len(payload) if payload is not None else 0)
        if payload is None:
            return "a chunk without its payload frame"
        if message.stored_offset != self.progress:
            return f"a chunk at {message.stored_offset}, after {self.progress} bytes"
        if self.total is not None and message.stored_total != self.total:
            return f"a chunk of {message.stored_total} bytes in all: need {self.total}"
        if end > message.stored_total:
            return f"a chunk that ends at {end} of {message.stored_total} bytes"
        return ""

    def _acknowledge(self) -> None:
        complete = self.progress == self.total
        if complete or self.progress - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._tell()
        if complete and not self.over:
            self.drop()
            self._on_done()

    def _tell(self) -> None:
        self._acknowledged = self.progress
        if not self._send(ChunkTaken(transfer=self.transfer, stored_bytes=self.progress), None):
            self.failed("the sender is gone")
