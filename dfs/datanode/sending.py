"""A range of a replica on its way to a reader, or to the node that is to have one too."""

from __future__ import annotations

from collections.abc import Callable

from railyard.dfs.blockfile import READ_BYTES, ReplicaError
from railyard.dfs.checksums import CHECKED_BYTES
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages import BlockId


class BlockSource:
    """A ``netemu.transfer.Source``: what leaves was read and checked right before.

    Raises ``ReplicaError`` if the range cannot be read.  What is found out later, while it is
    being sent, is given to ``on_error`` too.
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
        self._at = offset  #: where the next read begins
        self._end = offset + length
        self._ready = memoryview(b"")  #: read and not sent
        try:
            #: the checksums of the range, as they travel
            self.packed_sums = self._opened.packed_sums(offset, length)
            if length <= READ_BYTES:  # holds no descriptor while it waits to be sent
                self._load()
        except BaseException:
            self._opened.close()
            raise

    @property
    def left(self) -> int:
        """How many bytes were not taken yet."""
        return self._end - self._at + len(self._ready)

    def read(self, size: int) -> memoryview:
        """At most ``size`` of the next bytes."""
        if not len(self._ready):
            try:
                self._load()
            except ReplicaError as error:
                self._on_error(error)
                raise
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()
        self._ready = memoryview(b"")

    def _load(self) -> None:
        """Read up to the end of a piece, so that the next read begins with a whole one."""
        size = min(self._end - self._at, READ_BYTES - self._at % CHECKED_BYTES)
        self._ready = self._opened.read(self._at, size)
        self._at += size
        if self._at == self._end:
            self._opened.close()
