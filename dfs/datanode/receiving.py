"""A block that is being received at one node and passed on to the next at the same time."""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import PeerError, RailyardError
from railyard.cluster.files.resources import cause_of, is_full
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.blockfile import BlockWriter
from railyard.dfs.messages import BlockId, BlockWritten
from railyard.dfs.peers import OutgoingBlock
from railyard.netemu.client.transfer import IncomingTransfer


class CannotStore(RailyardError):
    """The disk does not take a block's bytes."""


class BlockReceiver:
    """Ends with one call of ``on_end``: who has the block, or why it failed here.

    A node further down that fails does not fail the others: the NameNode will see to a new
    replica.  A failure here ends everything, since whoever is further down gets its bytes from
    here.
    """

    def __init__(
        self,
        node: NodeId,
        block: BlockId,
        writer: BlockWriter,
        publish: Callable[[BlockWriter, Callable[[OSError | None], None]], None],
        on_end: Callable[[BlockWritten | Refusal], None],
    ) -> None:
        self.node = node
        self.block = block
        self._writer = writer
        self._publish = publish  #: makes what was received complete; may take a while
        self._on_end = on_end
        self._transfer: IncomingTransfer | None = None
        self._next: OutgoingBlock | None = None
        self._passed_on: BlockWritten | None = BlockWritten(nodes=())
        self._stored = False
        self._is_full = False  #: the disk, which may pass
        self._unwanted = ""  #: why it is given up, though all its bytes are here

    def receive_by(self, transfer: IncomingTransfer) -> None:
        """Say by which transfer the bytes come."""
        self._transfer = transfer

    def pass_on(self, start: Callable[[Callable[[BlockWritten], None]], OutgoingBlock]) -> None:
        """Pass the bytes on by what ``start(on_end)`` makes."""
        self._passed_on = None
        try:
            self._next = start(self._next_ended)
        except PeerError as error:  # this node stores it all the same
            self._passed_on = BlockWritten(nodes=(), reason=str(error))

    def take(self, data: memoryview) -> None:
        """Store the next bytes; ``CannotStore`` or ``WrongChecksum`` if that fails."""
        try:
            self._writer.write(data)
        except OSError as error:
            raise self._cannot_store(error) from error
        if self._next is not None:
            self._next.extend(data)

    def done(self) -> None:
        """All bytes are here."""
        try:
            self._writer.seal()
        except OSError as error:
            self.failed(str(self._cannot_store(error)))
        else:
            self._publish(self._writer, self._published)

    def _published(self, error: OSError | None) -> None:
        if error is not None:
            self.failed(str(self._cannot_store(error)))
            return
        if self._unwanted:
            self._writer.withdraw()
            self.failed(self._unwanted)
            return
        self._stored = True
        self._maybe_end()

    def failed(self, reason: str) -> None:
        """The bytes that are missing will not come."""
        self._writer.abort()
        if self._next is not None:
            self._next.abort(reason)
        self._on_end(Refusal(reason=reason, unable=self._is_full))

    def abort(self, reason: str) -> None:
        """Give the block up, as far as it is not stored."""
        if self._transfer is not None and not self._stored:
            self._unwanted = reason
            self._transfer.fail(reason)  # nothing happens if it has ended

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
            self._on_end(BlockWritten(nodes=nodes, reason=self._passed_on.reason))
