"""Reading a file: each block from the nearest sound replica, falling back to the next one.

No byte is returned before the reader itself has verified its checksum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import InitVar, dataclass

from railyard.cluster.errors import PeerError, PeerLost, PeerUnable, RailyardError
from railyard.cluster.files import new_buffer
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.dfs.blockfile import (
    CHECKED_BYTES,
    READ_BYTES,
    CheckedRange,
    OpenBlock,
    ReplicaDamaged,
    ReplicaError,
    WrongChecksum,
    blocks_folder,
    unpack_sums,
)
from railyard.dfs.messages import (
    BlockId,
    BlockLocation,
    BlocksLocated,
    FileBlocks,
    LocateBlocks,
    ReadBlock,
    ReplicaFailed,
)
from railyard.dfs.peers import Peers, Services
from railyard.dfs.placement import distance, nearest_first

#: A DataNode that sends nothing for so long is given up, in seconds.
STALLED_S = 60.0
#: Pauses in seconds before each request for new locations once all replicas have failed: the
#: NameNode may have had new replicas made meanwhile.
RETRY_PAUSES_S = (0.1, 0.5, 2.0)
_DISTANCES = ("local", "rack", "remote")  #: 0, 1 and 2


@dataclass(eq=False)
class ArrivingRange:
    """Requests a range of a replica and holds its verified bytes in ``pieces``, to be taken."""

    peers: InitVar[Peers]
    _block: BlockId
    node: InitVar[NodeId]
    _offset: int
    _length: int
    reader: InitVar[NodeId | None]
    _on_damage: Callable[[str], None]

    def __post_init__(self, peers: Peers, node: NodeId, reader: NodeId | None) -> None:
        self.failure: str | None = None  #: why the transfer failed; "" once all bytes are here
        self.pieces: deque[memoryview] = deque()  #: verified, to be taken
        self._checked: CheckedRange | None = None  #: None until the checksums have arrived
        peer, name = peers.of(node), peers.new_name()
        self.incoming = peer.transfers.incoming(
            name,
            take=self._take,
            on_done=lambda: self._end(""),
            on_failed=self._end,
            stored_total=self._length,
        )
        request = ReadBlock(
            transfer=name,
            block=self._block,
            node=node,
            stored_offset=self._offset,
            stored_length=self._length,
            reader=reader,
        )
        peer.link.request(request, Done, self._answered)

    def _answered(self, answer: Done | Refusal | PeerLost, payload: memoryview | None) -> None:
        if not isinstance(answer, Done):
            self.incoming.failed(str(answer))
            return
        try:
            sums = unpack_sums(payload, self._offset, self._length)
        except PeerError as error:
            self.incoming.fail(str(error))
        else:
            self._checked = CheckedRange(self._block, self._offset, self._length, sums)

    def _take(self, data: memoryview) -> None:
        if self._checked is None:
            raise PeerError("bytes came before their checksums")
        try:
            self.pieces.extend(self._checked.add(data))
        except WrongChecksum as error:
            self._on_damage(str(error))
            raise

    def _end(self, reason: str) -> None:
        self.failure = reason


class BlockUnavailable(RailyardError):
    """No replica of a block can be read."""


class _Failed(RailyardError):
    """A replica could not be read, or not to the end of the range."""


class DfsFile:
    """A complete file that is open for reading; its content never changes."""

    def __init__(self, services: Services, blocks: FileBlocks) -> None:
        self.path = blocks.path
        self.stored_bytes = blocks.stored_length
        self.waited_s = 0.0  #: total over all reads: waiting for remote bytes or for new replicas
        self._services = services
        self._blocks = blocks.blocks

    def stream(self, offset: int = 0, length: int | None = None) -> Generator[memoryview]:
        """Yield the bytes from ``offset`` on, up to the end of the file; ``BlockUnavailable``."""
        end = self.stored_bytes if length is None else min(offset + length, self.stored_bytes)
        return self._stream(offset, end, at_once=False)

    def read(self, offset: int, length: int) -> memoryview:
        """Read a range, shorter at the end of the file; without a copy where possible."""
        wanted = max(0, min(offset + length, self.stored_bytes) - offset)
        data, filled = memoryview(b""), 0
        for piece in self._stream(offset, offset + wanted, at_once=True):
            if len(piece) == wanted:
                return piece
            if not len(data):
                data = new_buffer(wanted)
            data[filled : filled + len(piece)] = piece
            filled += len(piece)
        return data

    def _stream(self, offset: int, end: int, *, at_once: bool) -> Generator[memoryview]:
        """With ``at_once``, a block that is on the reader's own node comes as one piece."""
        for block in self._blocks:
            first = max(offset, block.stored_offset)
            last = min(end, block.stored_offset + block.stored_length)
            if first < last:
                start = block.stored_offset
                yield from self._stream_block(block, first - start, last - first, at_once)

    def _stream_block(
        self, block: BlockLocation, offset: int, length: int, at_once: bool
    ) -> Iterator[memoryview]:
        end = offset + length
        tried: dict[NodeId, str] = {}
        for pause_s in (*RETRY_PAUSES_S, None):
            services = self._services
            sound = nearest_first(services.node, block.nodes, services.peers.is_lost)
            for node in (*sound, *block.doubtful):
                try:
                    for piece in self._read_replica(block, node, offset, end - offset, at_once):
                        offset += len(piece)
                        yield piece
                    return
                except _Failed as error:
                    tried[node] = str(error)
            if pause_s is not None:
                self._wait(lambda: False, pause_s)
                block = self._locate_again(block)
        reasons = "; ".join(f"{node}: {why}" for node, why in tried.items())
        where = f"{self.path}: bytes {block.stored_offset + offset} to {block.stored_offset + end}"
        raise BlockUnavailable(f"{where} cannot be read: {reasons or 'no node has them'}")

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        begin_s = now_s()
        try:
            return self._services.transport.reactor.run_until(done, timeout_s)
        finally:
            self.waited_s += now_s() - begin_s

    def _locate_again(self, block: BlockLocation) -> BlockLocation:
        located = self._services.namenode.ask(LocateBlocks(path=self.path), BlocksLocated)
        now = {known.block: known for file in located.files for known in file.blocks}
        return now.get(block.block, block)

    def _read_replica(
        self, block: BlockLocation, node: NodeId, offset: int, length: int, at_once: bool
    ) -> Iterator[memoryview]:
        apart = distance(self._services.node, node)
        pieces = (
            self._read_own(block, node, offset, length, at_once)
            if apart == 0
            else self._read_other(block, node, offset, length)
        )
        for piece in pieces:
            self._services.read_bytes[_DISTANCES[apart]] += len(piece)
            yield piece

    def _read_own(
        self, block: BlockLocation, node: NodeId, offset: int, length: int, at_once: bool
    ) -> Iterator[memoryview]:
        folder = blocks_folder(self._services.transport.folder, node)
        end = offset + length
        try:
            with closing(OpenBlock(folder, block.block)) as opened:
                while offset < end:
                    most = length if at_once else READ_BYTES - offset % CHECKED_BYTES
                    piece = opened.read(offset, min(end - offset, most))
                    offset += len(piece)
                    yield piece
        except ReplicaError as error:
            if isinstance(error, ReplicaDamaged):
                self._report(block, node, str(error))
            raise _Failed(str(error)) from None

    def _read_other(
        self, block: BlockLocation, node: NodeId, offset: int, length: int
    ) -> Iterator[memoryview]:
        services = self._services
        try:
            arriving = ArrivingRange(
                services.peers,
                block.block,
                node,
                offset,
                length,
                services.node,
                lambda reason: self._report(block, node, reason),
            )
        except PeerUnable as error:  # no descriptor is left: not the replica's fault
            raise _Failed(str(error)) from None
        try:
            while arriving.failure is None:
                before = arriving.incoming.progress
                moved = self._wait(
                    lambda: bool(arriving.pieces) or arriving.failure is not None, STALLED_S
                )
                if not moved and arriving.incoming.progress == before:
                    raise _Failed(f"nothing came for {STALLED_S:g} s")
                while arriving.pieces:
                    yield arriving.pieces.popleft()
        finally:
            arriving.incoming.fail("the reader has stopped")  # unless it has ended
        if arriving.failure:
            raise _Failed(arriving.failure)

    def _report(self, block: BlockLocation, node: NodeId, reason: str) -> None:
        self._services.namenode.send(ReplicaFailed(block=block.block, node=node, reason=reason))
