"""What a DataNode does beside requests: block reports, and the verification of its replicas.

A report lists the blocks on disk at that moment, node by node, in pages.  A page costs the NameNode
a pass over its whole block map, so the rate of pages is bounded: many blocks take longer than the
period.  Replicas are verified at once on request and slowly all the others, so that damage is found
before the last sound replica is lost; one is deleted as damaged only right after it was verified.
All is done in slices, between which the DataNode serves others: requests take at most half of its
time, the background scan at most ``scan_rate`` bytes/s.

Blocks in the page cache are verified there: damage of the disk below shows only once the system
reads it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass

from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.cluster.messaging.wire import Event
from railyard.cluster.topologyfile import Storage
from railyard.dfs.blockfile import ReplicaDamaged, ReplicaError
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages import (
    BlockId,
    BlockReport,
    Finding,
    HeldBlock,
    ReplicasDeleted,
    ReplicaVerified,
    VerifyReplica,
)

log = logging.getLogger(__name__)

PAGE_BLOCKS = 2000  #: of a report: 30 KB on the wire
_SLICE_BLOCKS = 50  #: that are looked up without a pause: about a millisecond
LAST_BLOCK = BlockId(2**63 - 1)  #: no block has a larger id
#: Bytes that are verified without a pause: less than a millisecond, unless the disk is slow.
SLICE_BYTES = 2**18
#: Shortest pause of the background scan: waking for each small block would cost more than the scan.
_PAUSE_S = 0.05


def _go_on(reactor: Reactor, work: Iterator[float]) -> None:
    """Do endless work, which yields the pauses in between, in seconds, while the reactor runs."""
    reactor.call_later(next(work), lambda: _go_on(reactor, work))


def report_blocks(
    reactor: Reactor,
    stores: Mapping[NodeId, BlockStore],
    period_s: float,
    send: Callable[[BlockReport], None],
) -> None:
    """Send block reports for all of ``stores`` once per ``period_s``, while the reactor runs."""

    def work() -> Iterator[float]:
        while True:
            nodes = sorted(stores)
            pause_s = period_s / (len(nodes) or 1)
            yield pause_s
            for node in nodes:
                store = stores.get(node)  # a node may be lost meanwhile
                for page in pages(node, store) if store is not None else ():
                    if page is None:
                        yield 0.0
                    else:
                        send(page)
                        yield pause_s

    _go_on(reactor, work())


def pages(node: NodeId, store: BlockStore) -> Iterator[BlockReport | None]:
    """Yield a node's block reports, of all ids; None between two slices; none if unreadable."""
    try:
        blocks = store.blocks()
    except OSError as error:
        log.warning("the blocks of %s cannot be listed: %s", node, error.strerror)
        return
    first = BlockId(0)
    for start in range(0, len(blocks) or 1, PAGE_BLOCKS):
        page, rest = blocks[start : start + PAGE_BLOCKS], blocks[start + PAGE_BLOCKS :]
        last = BlockId(rest[0] - 1) if rest else LAST_BLOCK
        held: list[HeldBlock] = []
        for at, block in enumerate(page, 1):
            with suppress(ReplicaError):  # if it should exist, the NameNode has it verified
                held.append(HeldBlock(block=block, stored_length=store.length(block)))
            if at % _SLICE_BLOCKS == 0:
                yield None
        yield BlockReport(node=node, first=first, last=last, held=tuple(held))
        first = BlockId(last + 1)


#: Yields the number of bytes verified after each slice; returns the finding and its reason.
Verification = Generator[int, None, tuple[Finding, str]]


def verification(
    store: BlockStore, block: BlockId, stored_length: int | None = None
) -> Verification:
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


@dataclass(eq=False)
class Scanner:
    """Verifies replicas while its reactor runs; ``report`` sends facts to the NameNode."""

    _reactor: Reactor
    _stores: Mapping[NodeId, BlockStore]
    storage: InitVar[Storage]
    _report: Callable[[Event], None]

    def __post_init__(self, storage: Storage) -> None:
        self._period_s = storage.scan_period
        self._bytes_per_s_max = storage.scan_rate
        #: the NameNode's requests, oldest first; the first is being carried out
        self._pending: dict[VerifyReplica, None] = {}
        self._verifying: Iterator[int] | None = None
        _go_on(self._reactor, self._rounds())

    # Requests of the NameNode --------------------------------------------------------------------
    def verify(self, command: VerifyReplica) -> None:
        self._pending[command] = None
        if self._verifying is None:
            self._verifying = self._verify_all()
            self._reactor.call_later(0, self._go_on_verifying)

    def _go_on_verifying(self) -> None:
        begin_s = now_s()
        if self._verifying is not None and next(self._verifying, None) is not None:
            # leave as much time to others as this slice has taken
            self._reactor.call_later(now_s() - begin_s, self._go_on_verifying)
        else:
            self._verifying = None

    def _verify_all(self) -> Iterator[int]:
        while self._pending:
            command = next(iter(self._pending))
            yield from self._carry_out(command)
            del self._pending[command]
            yield 0

    def _carry_out(self, command: VerifyReplica) -> Iterator[int]:
        block, node = command.block, command.node
        store = self._stores.get(node)
        if store is None:
            return  # the node is lost; the heartbeat reports that
        found, reason = yield from verification(store, block, command.stored_length)
        if found != "sound":
            log.warning("block %d on %s is %s: %s", block, node, found, reason)
        if found == "damaged" and command.delete:
            try:
                store.delete(block)
                self._report(ReplicasDeleted(node=node, blocks=(block,)))
                return
            except OSError as error:
                found, reason = "unreadable", f"it cannot be deleted: {error.strerror}"
        self._report(ReplicaVerified(block=block, node=node, found=found, reason=reason))

    # The background scan -------------------------------------------------------------------------
    def _rounds(self) -> Iterator[float]:
        """Verify all blocks, for ever; yields pauses in seconds."""
        yield self._period_s
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

    def _scan(self, node: NodeId, block: BlockId) -> Iterator[int]:
        store = self._stores.get(node)
        if store is None or not store.has(block):
            return  # lost or deleted since
        found, reason = yield from verification(store, block)
        if found == "damaged" and store.has(block):
            log.warning("block %d on %s is damaged: %s", block, node, reason)
            self._report(ReplicaVerified(block=block, node=node, found=found, reason=reason))
