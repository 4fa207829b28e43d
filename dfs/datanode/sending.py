"""Reads a range of a replica for a reader, or for the node that gets a copy."""

from __future__ import annotations

from collections.abc import Callable

from railyard.dfs.blockfile import READ_BYTES, ReplicaError
from railyard.dfs.checksums import CHECKED_BYTES
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages.blocks import BlockId


class BlockSource:
    """A ``netemu.transfer.Source`` that verifies each piece right before it is sent.

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
        """Bytes of the range that were not yet read by the transfer."""
        return self._end - self._at + len(self._ready)

    def read(self, size: int) -> memoryview:
        """Return at most ``size`` of the next bytes."""
        if not len(self._ready):
            try:
                self._load()
            except ReplicaError as error:
                self._on_error(error)
                raise
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def close(self) -> None:
        """Close the file."""
        self._opened.close()
        self._ready = memoryview(b"")

    def _load(self) -> None:
        """Read up to a piece boundary, so that the next read begins with a whole piece."""
        size = min(self._end - self._at, READ_BYTES - self._at % CHECKED_BYTES)
        self._ready = self._opened.read(self._at, size)
        self._at += size
        if self._at == self._end:
            self._opened.close()
