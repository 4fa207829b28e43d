"""Writing a file: split into blocks, several of which are sent at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from railyard.cluster.errors import NotDone
from railyard.cluster.ids import OUTSIDE, NodeId, rack_of
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.blockfile import pack_sums, sums_of
from railyard.dfs.messages import (
    AddBlock,
    BlockAdded,
    BlockId,
    BlockWritten,
    FileCreated,
    FileReopened,
    StoredBlock,
)
from railyard.dfs.paths import LOCKED, SAFE_MODE
from railyard.dfs.peers import OutgoingBlock, Services

Buffer = bytes | bytearray | memoryview

#: Bytes of a file that are held at once, unless the writer says otherwise; or one block of it.
HELD_BYTES = 128 * 2**20
#: Blocks in flight at once: enough for an upload from outside to use many nodes' links.  A writer
#: in the cluster sends one at a time, as in HDFS: more flows would take a larger share of its link.
IN_FLIGHT_BLOCKS = 16
#: Pauses in seconds before the tries to write a block, each on other nodes while there are any.
#: After the last the write fails.  The later ones are for conditions that pass, as a full disk.
PAUSES_S = (0.0, 0.2, 0.6, 1.5, 3.0)
TRIES = 1 + len(PAUSES_S)


class NoRoom(NotDone):
    """A block could not be written because disks are full."""


class BlockWrite:
    """The write of one block, with retries until nodes have it or the last try has failed."""

    def __init__(self, services: Services, path: str, file: int, pieces: list[memoryview]) -> None:
        self.stored: StoredBlock | None = None
        self.failure = ""
        self._services = services
        self._path = path
        self._file = file
        self._pieces = pieces
        self.stored_length = sum(map(len, pieces))
        self._failed_nodes: tuple[NodeId, ...] = ()
        self._tries = 0
        self.is_full = False  #: the last failure was a full disk
        self._block: BlockAdded | None = None
        self._sending: OutgoingBlock | None = None
        self._ask_for_block(None)

    @property
    def over(self) -> bool:
        return self.stored is not None or bool(self.failure)

    def abort(self) -> None:
        self.failure = self.failure or "given up"
        if self._sending is not None:
            self._sending.abort("the writer gave up")

    def _ask_for_block(self, instead_of: BlockId | None) -> None:
        self._tries += 1
        request = AddBlock(
            file=self._file,
            stored_length=self.stored_length,
            instead_of=instead_of,
            exclude=self._failed_nodes,
        )
        self._services.namenode.insist(request, BlockAdded, self._added)

    def _added(self, answer: BlockAdded | Refusal, _: memoryview | None) -> None:
        if self.over:
            return
        if not isinstance(answer, BlockAdded):
            self.is_full = answer.unable and answer.kind not in (SAFE_MODE, LOCKED)
            if answer.kind != LOCKED and (self._failed_nodes or answer.unable):
                self._failed_nodes = ()  # no other node is left: they may have recovered
                self._try_again(str(answer))
            else:
                self._fail(str(answer))
            return
        self._block = answer
        services = self._services
        self._sending = OutgoingBlock(
            services.peers,
            services.network,
            services.node or OUTSIDE,
            answer.block,
            self.stored_length,
            pack_sums(sums_of(answer.block, self._pieces)),
            answer.nodes,
            self._ended,
        )
        self._sending.extend(*self._pieces)

    def _ended(self, answer: BlockWritten) -> None:
        self._sending = None
        if self.over or self._block is None:
            return
        if answer.nodes:
            self.stored = StoredBlock(block=self._block.block, nodes=answer.nodes)
            self._pieces.clear()
            return
        first = self._block.nodes[0]
        lost = [first]
        if self._services.peers.is_lost(first):  # the DataNode of its rack
            nodes = self._services.topology.nodes()
            lost = [node.id for node in nodes if node.rack == rack_of(first)]
        self._failed_nodes += tuple(lost)
        self.is_full = answer.is_full
        self._try_again(answer.reason)

    def _try_again(self, reason: str) -> None:
        if self._tries == TRIES:
            self._fail(reason)
            return

        def ask() -> None:
            if not self.over:
                self._ask_for_block(None if self._block is None else self._block.block)

        self._services.transport.reactor.call_later(PAUSES_S[self._tries - 1], ask)

    def _fail(self, reason: str) -> None:
        tries = f"try {self._tries} of {TRIES}"
        self.failure = f"{self._path}: a block could not be written ({tries}): {reason}"
        self._pieces.clear()


def write_blocks(
    services: Services, path: str, opened: FileCreated | FileReopened, data: Iterable[Buffer]
) -> tuple[StoredBlock, ...]:
    """Write ``data`` as blocks of an open file; raises ``NotDone`` if a block cannot be written."""
    most = 1 if services.node is not None else IN_FLIGHT_BLOCKS
    writes: list[BlockWrite] = []
    pending: list[BlockWrite] = []
    collected = 0  #: bytes that no block has yet

    def has_room(left: list[BlockWrite]) -> bool:
        return not left or collected + sum(w.stored_length for w in left) <= services.held_bytes

    def paced() -> Iterator[Buffer]:
        """The data; the next of it once there is room beside what is held already."""
        nonlocal collected, pending
        for buffer in data:
            collected += memoryview(buffer).nbytes
            yield buffer
            pending = _wait(services.transport.reactor, pending, has_room)

    try:
        for pieces in cut(paced(), opened.stored_block_bytes):
            pending = _wait(services.transport.reactor, pending, lambda left: len(left) < most)
            writes.append(BlockWrite(services, path, opened.file, pieces))
            pending.append(writes[-1])
            collected -= writes[-1].stored_length
        _wait(services.transport.reactor, pending, lambda left: not left)
    except BaseException:
        for write in pending:
            write.abort()
        raise
    return tuple(write.stored for write in writes if write.stored is not None)


def cut(data: Iterable[Buffer], size: int) -> Iterator[list[memoryview]]:
    """Split ``data`` into parts of ``size`` bytes, the last one shorter; views, no copies."""
    part: list[memoryview] = []
    room = size
    for buffer in data:
        view = memoryview(buffer).cast("B")
        while len(view):
            piece, view = view[:room], view[room:]
            part.append(piece)
            room -= len(piece)
            if room == 0:
                yield part
                part, room = [], size
    if part:
        yield part


def _wait(
    reactor: Reactor, pending: list[BlockWrite], goes_on: Callable[[list[BlockWrite]], bool]
) -> list[BlockWrite]:
    """Run the reactor until it ``goes_on`` with the pending writes; ``NotDone`` if one fails."""

    def left() -> list[BlockWrite]:
        return [write for write in pending if not write.over]

    reactor.run_until(lambda: any(write.failure for write in pending) or goes_on(left()))
    for write in pending:
        if write.failure:
            raise (NoRoom if write.is_full else NotDone)(write.failure)
    return left()
