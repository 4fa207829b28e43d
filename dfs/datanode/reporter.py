"""Sends periodic block reports for a rack's nodes, so that the NameNode notices lost replicas.

A report lists the blocks on disk at that moment, node by node, in pages of ``PAGE_BLOCKS``.  Blocks
are looked up in slices, so the DataNode keeps serving.  A page costs the NameNode a pass over its
whole block map, so the rate of pages is bounded: many blocks take longer than the period.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.reactor import Reactor
from railyard.dfs.blockfile import ReplicaError
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import BlockReport, HeldBlock

log = logging.getLogger(__name__)

#: Blocks in a report: 30 KB on the wire.
PAGE_BLOCKS = 2000
#: Blocks that are looked up without a pause: about a millisecond.
_SLICE_BLOCKS = 50
#: No block has a larger id.
LAST_BLOCK = BlockId(2**63 - 1)


class BlockReporter:
    """Sends block reports for all of ``stores`` once per ``period_s``, while its reactor runs."""

    def __init__(
        self,
        reactor: Reactor,
        stores: Mapping[NodeId, BlockStore],
        period_s: float,
        send: Callable[[BlockReport], None],
    ) -> None:
        self._reactor = reactor
        self._stores = stores
        self._period_s = period_s
        self._send = send
        self._go_on(self._work())

    def _go_on(self, work: Iterator[float]) -> None:
        self._reactor.call_later(next(work), lambda: self._go_on(work))

    def _work(self) -> Iterator[float]:
        """Send reports for ever; yields the pauses in between, in seconds."""
        while True:
            nodes = sorted(self._stores)
            pause_s = self._period_s / (len(nodes) or 1)
            yield pause_s
            for node in nodes:
                store = self._stores.get(node)  # a node may be lost meanwhile
                for page in pages(node, store) if store is not None else ():
                    if page is None:
                        yield 0.0
                    else:
                        self._send(page)
                        yield pause_s


def pages(node: NodeId, store: BlockStore) -> Iterator[BlockReport | None]:
    """Yield a node's block reports, which together cover all ids; None between two slices.

    Yields no report if the disk cannot be read for now.
    """
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
        for at in range(0, len(page), _SLICE_BLOCKS):
            held += _held(store, page[at : at + _SLICE_BLOCKS])
            yield None
        yield BlockReport(node=node, first=first, last=last, held=tuple(held))
        first = BlockId(last + 1)


def _held(store: BlockStore, blocks: list[BlockId]) -> Iterator[HeldBlock]:
    for block in blocks:
        try:
            length = store.length(block)
        except ReplicaError:
            continue  # if it should exist, the NameNode has it verified
        yield HeldBlock(block=block, stored_length=length)
