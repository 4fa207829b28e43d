"""The block scanner: verifies a rack's replicas, at once on request and slowly all the others.

So damage is found before the last sound replica is lost, and a replica is deleted as damaged only
right after it was verified.  Verifying is done in slices, between which the DataNode serves others:
requests take at most half of its time, the background scan at most ``scan_rate`` bytes/s.

Blocks in the page cache are verified there: damage of the disk below shows only once the system
reads it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping

from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.cluster.messaging.wire import Event
from railyard.cluster.topologies.tables import Storage
from railyard.dfs.blockfile import ReplicaDamaged, ReplicaError
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import (
    DeleteDamaged,
    Finding,
    ReplicasDeleted,
    ReplicaVerified,
    VerifyReplica,
)

log = logging.getLogger(__name__)

#: Bytes that are verified without a pause: less than a millisecond, unless the disk is slow.
SLICE_BYTES = 2**18
#: Shortest pause of the background scan: waking for each small block would cost more than the scan.
_PAUSE_S = 0.05

Ask = VerifyReplica | DeleteDamaged
#: Yields the number of bytes verified after each slice; returns the finding and its reason.
Look = Generator[int, None, tuple[Finding, str]]


def look_at(store: BlockStore, block: BlockId, stored_length: int | None = None) -> Look:
    """Verify a whole replica, and its length if ``stored_length`` is given."""
    try:
        length = store.length(block)
        if stored_length not in (None, length) or length <= 0:
            return "damaged", f"block {block} has {length} bytes: need {stored_length or 1}"
        for offset in range(0, length, SLICE_BYTES):
            size = min(SLICE_BYTES, length - offset)
            store.read(block, offset, size)
            yield size
    except ReplicaDamaged as error:
        return "damaged", str(error)
    except ReplicaError as error:
        return "unreadable", str(error)
    return "sound", ""


class Scanner:
    """Verifies replicas while its reactor runs; ``report`` sends facts to the NameNode."""

    def __init__(
        self,
        reactor: Reactor,
        stores: Mapping[NodeId, BlockStore],
        storage: Storage,
        report: Callable[[Event], None],
    ) -> None:
        self._reactor = reactor
        self._stores = stores
        self._period_s = storage.scan_period
        self._bytes_per_s_max = storage.scan_rate
        self._report = report
        #: the NameNode's requests, oldest first; the first is being carried out
        self._asked: dict[Ask, None] = {}
        self._answering: Generator[int, None, None] | None = None
        self._repeat(self._round(), self._period_s)

    # Requests of the NameNode --------------------------------------------------------------------
    def ask(self, command: Ask) -> None:
        """Verify a replica soon and report the finding."""
        self._asked[command] = None
        if self._answering is None:
            self._answering = self._answer_all()
            self._reactor.call_later(0, self._go_on_answering)

    def _go_on_answering(self) -> None:
        begin_s = now_s()
        if self._answering is not None and next(self._answering, None) is not None:
            # leave as much time to others as this slice has taken
            self._reactor.call_later(now_s() - begin_s, self._go_on_answering)
        else:
            self._answering = None

    def _answer_all(self) -> Generator[int, None, None]:
        while self._asked:
            command = next(iter(self._asked))
            yield from self._answer(command)
            del self._asked[command]
            yield 0

    def _answer(self, command: Ask) -> Generator[int, None, None]:
        store = self._stores.get(command.node)
        if store is None:
            return  # the node is lost; the heartbeat reports that
        found, reason = yield from look_at(store, command.block, command.stored_length)
        if found != "sound":
            log.warning("block %d on %s is %s: %s", command.block, command.node, found, reason)
        if found == "damaged" and isinstance(command, DeleteDamaged):
            try:
                store.delete(command.block)
            except OSError as error:
                found, reason = "unreadable", f"it cannot be deleted: {error.strerror}"
            else:
                self._report(ReplicasDeleted(node=command.node, blocks=(command.block,)))
                return
        self._report(
            ReplicaVerified(block=command.block, node=command.node, found=found, reason=reason)
        )

    # The background scan -------------------------------------------------------------------------
    def _repeat(self, work: Generator[float, None, None], pause_s: float) -> None:
        """Continue the background scan after a pause; it yields the next pause."""
        self._reactor.call_later(pause_s, lambda: self._repeat(work, next(work)))

    def _round(self) -> Generator[float, None, None]:
        """Verify all blocks, for ever; yields pauses in seconds."""
        while True:
            blocks = [(node, block) for node in tuple(self._stores) for block in self._blocks(node)]
            begin_s, owed_s = now_s(), 0.0
            for node, block in blocks:
                due_s = self._period_s / len(blocks)  # spread over the whole period
                for checked_bytes in self._scan(node, block):
                    owed_s += checked_bytes / self._bytes_per_s_max
                    due_s -= checked_bytes / self._bytes_per_s_max
                    if owed_s >= _PAUSE_S:
                        yield owed_s
                        owed_s = 0.0
                owed_s += max(due_s, 0.0)
            yield max(_PAUSE_S, owed_s, begin_s + self._period_s - now_s())

    def _blocks(self, node: NodeId) -> list[BlockId]:
        try:
            return self._stores[node].blocks()
        except (KeyError, OSError) as error:
            log.warning("the blocks of %s cannot be scanned now: %s", node, error)
            return []

    def _scan(self, node: NodeId, block: BlockId) -> Generator[int, None, None]:
        store = self._stores.get(node)
        if store is None or not store.has(block):
            return  # lost or deleted since
        found, reason = yield from look_at(store, block)
        if found == "damaged" and store.has(block):
            log.warning("block %d on %s is damaged: %s", block, node, reason)
            self._report(ReplicaVerified(block=block, node=node, found=found, reason=reason))
