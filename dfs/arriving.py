"""Reads a range of a block from another node's DataNode and checks it as it arrives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from railyard.cluster.errors import PeerError, PeerLost
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.dfs.checksums import CheckedRange, WrongChecksum, unpack_sums
from railyard.dfs.messages.blocks import BlockId, ReadBlock
from railyard.dfs.peers import Peers


class ArrivingRange:
    """Requests a range of a replica and holds its verified bytes until ``taken`` hands them out.

    ``on_damage`` is called with the reason if a checksum does not match.
    """

    def __init__(
        self,
        peers: Peers,
        block: BlockId,
        node: NodeId,
        offset: int,
        length: int,
        reader: NodeId | None,
        on_damage: Callable[[str], None],
    ) -> None:
        self.failure: str | None = None  #: why the transfer failed; "" once all bytes are here
        self._block = block
        self._offset = offset
        self._length = length
        self._on_damage = on_damage
        self._pieces: deque[memoryview] = deque()
        self._checked: CheckedRange | None = None  #: None until the checksums have arrived
        peer, name = peers.of(node), peers.new_name()
        self._incoming = peer.transfers.incoming(
            name,
            take=self._take,
            on_done=lambda: self._end(""),
            on_failed=self._end,
            stored_total=length,
        )
        request = ReadBlock(
            transfer=name,
            block=block,
            node=node,
            stored_offset=offset,
            stored_length=length,
            reader=reader,
        )
        peer.link.request(request, Done, self._answered)

    @property
    def moved(self) -> bool:
        """Whether there are bytes to take, or the transfer has ended."""
        return bool(self._pieces) or self.failure is not None

    @property
    def arrived_bytes(self) -> int:
        """Number of bytes received, verified or not."""
        return self._incoming.progress

    def taken(self) -> Iterator[memoryview]:
        """Yield the verified bytes received so far, each once."""
        while self._pieces:
            yield self._pieces.popleft()

    def stop(self) -> None:
        """Cancel the transfer; does nothing if it has ended."""
        self._incoming.fail("the reader has stopped")

    def _answered(self, answer: Done | Refusal | PeerLost, payload: memoryview | None) -> None:
        if not isinstance(answer, Done):
            self._incoming.failed(str(answer))
            return
        try:
            sums = unpack_sums(payload, self._offset, self._length)
        except PeerError as error:
            self._incoming.fail(str(error))
        else:
            self._checked = CheckedRange(self._block, self._offset, self._length, sums)

    def _take(self, data: memoryview) -> None:
        if self._checked is None:
            raise PeerError("bytes came before their checksums")
        try:
            self._pieces.extend(self._checked.add(data))
        except WrongChecksum as error:
            self._on_damage(str(error))
            raise

    def _end(self, reason: str) -> None:
        self.failure = reason
