"""A replica that is read for another node, and one that is received and forwarded as it arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from railyard.cluster.errors import PeerError, RailyardError
from railyard.cluster.ids import NodeId
from railyard.cluster.machine import cause_of, is_full
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.blockfile import CHECKED_BYTES, READ_BYTES, BlockWriter, ReplicaError
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages import BlockId, BlockWritten
from railyard.dfs.peers import OutgoingBlock
from railyard.netemu.transfers import IncomingTransfer


class BlockSource:
    """A ``netemu.transfers.Source`` that verifies each piece right before it is sent.

    Raises ``ReplicaError`` if the range cannot be read.  An error while the range is being sent is
    passed to ``on_error`` too.
    """

    def __init__(
        self,
        store: BlockStore,
        block: BlockId,
        offset: int,
        length: int,
        on_error: Callable[[ReplicaError], None],
    ) -> None:
        self._opened = store.open(block)
        self._on_error = on_error
        self._at = offset  #: offset in the block of the next read
        self._end = offset + length
        self._ready = memoryview(b"")  #: verified and not yet sent
        try:
            #: the checksums of the range in wire format
            self.packed_sums = self._opened.packed_sums(offset, length)
            if length <= READ_BYTES:  # holds no descriptor while it waits to be sent
                self._load()
        except BaseException:
            self._opened.close()
            raise

    @property
    def left(self) -> int:
        return self._end - self._at + len(self._ready)

    def read(self, size: int) -> memoryview:
        if not len(self._ready):
            try:
                self._load()
            except ReplicaError as error:
                self._on_error(error)
                raise
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def close(self) -> None:
        self._opened.close()
        self._ready = memoryview(b"")

    def _load(self) -> None:
        """Read up to a piece boundary, so that the next read begins with a whole piece."""
        size = min(self._end - self._at, READ_BYTES - self._at % CHECKED_BYTES)
        self._ready = self._opened.read(self._at, size)
        self._at += size
        if self._at == self._end:
            self._opened.close()


class CannotStore(RailyardError):
    """A block's bytes cannot be written to the disk."""


@dataclass(eq=False)
class BlockReceiver:
    """Receives one block; calls ``on_end`` once with the nodes that have it, or the failure.

    A failure downstream does not fail this node: the NameNode will have the missing replica made.
    A failure here ends the pipeline downstream too, since its bytes come from here.

    Once it has ended it refers to nothing that refers to it, so that it is freed at once: the
    request that ``on_end`` answers holds a receive buffer of ZeroMQ, of 18 KB.
    """

    node: NodeId
    block: BlockId
    _writer: BlockWriter
    #: completes the block; may take a while
    _publish: Callable[[BlockWriter, Callable[[OSError | None], None]], None]
    _on_end: Callable[[BlockWritten | Refusal], None] | None

    def __post_init__(self) -> None:
        self.transfer: IncomingTransfer | None = None  #: by which it comes
        self._next: OutgoingBlock | None = None
        self._passed_on: BlockWritten | None = BlockWritten(nodes=())
        self._stored = False
        self._is_full = False  #: the disk is full
        self._unwanted = ""  #: why the block is dropped although it was received whole

    def pass_on(self, start: Callable[[Callable[[BlockWritten], None]], OutgoingBlock]) -> None:
        """Forward the bytes through the ``OutgoingBlock`` that ``start(on_end)`` returns."""
        self._passed_on = None
        try:
            self._next = start(self._next_ended)
        except PeerError as error:  # this node stores the block nevertheless
            self._passed_on = BlockWritten(nodes=(), reason=str(error))

    def take(self, data: memoryview) -> None:
        """Store and forward the next bytes; raises ``CannotStore`` or ``WrongChecksum``."""
        try:
            self._writer.write(data)
        except OSError as error:
            raise self._cannot_store(error) from error
        if self._next is not None:
            self._next.extend(data)

    def done(self) -> None:
        try:
            self._writer.seal()
        except OSError as error:
            self.failed(str(self._cannot_store(error)))
        else:
            self._publish(self._writer, self._published)

    def _published(self, error: OSError | None) -> None:
        if error is not None:
            self.failed(str(self._cannot_store(error)))
        elif self._unwanted:
            self._writer.withdraw()
            self.failed(self._unwanted)
        else:
            self._stored = True
            self._maybe_end()

    def failed(self, reason: str) -> None:
        """The transfer failed; the remaining bytes will not come."""
        self._writer.abort()
        if self._next is not None:
            self._next.abort(reason)
        self._end(Refusal(reason=reason, unable=self._is_full))

    def abort(self, reason: str) -> None:
        if self.transfer is not None and not self._stored:
            self._unwanted = reason
            self.transfer.fail(reason)  # does nothing if it has ended

    def _cannot_store(self, error: OSError) -> CannotStore:
        self._is_full = is_full(error)
        return CannotStore(f"{self.node} cannot store it: {cause_of(error, self._writer.folder)}")

    def _next_ended(self, answer: BlockWritten) -> None:
        self._next = None
        self._passed_on = answer
        self._maybe_end()

    def _maybe_end(self) -> None:
        if self._stored and self._passed_on is not None:
            nodes = (self.node, *self._passed_on.nodes)
            self._end(BlockWritten(nodes=nodes, reason=self._passed_on.reason))

    def _end(self, answer: BlockWritten | Refusal) -> None:
        on_end, self._on_end, self.transfer = self._on_end, None, None
        if on_end is not None:
            on_end(answer)
