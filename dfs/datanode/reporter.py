"""Says again and again what a rack's nodes hold, so that a replica which is gone is missed.

A report is made of what is on the disk at that moment, node by node, in pages of so many blocks.
Nothing keeps the DataNode from serving others for long; and the NameNode, for which a page costs a
look at all that it knows, gets so many a second however much there is: then a round takes longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.reactor import Reactor
from railyard.dfs.blockfile import ReplicaError
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.messages import BlockId, BlockReport, HeldBlock

log = logging.getLogger(__name__)

#: Blocks in a report: 30 KB on the wire.
PAGE_BLOCKS = 2000
#: Blocks that are looked up in one go: about a millisecond.
_SLICE_BLOCKS = 50
#: No block has a larger id.
LAST_BLOCK = BlockId(2**63 - 1)


class BlockReporter:
    """Reports all of ``stores`` once a period, as long as its reactor runs."""

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
        """Report, for ever; yields pauses in seconds."""
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
    """What a node holds, as reports that cover all ids; None while the next is in the making.

    There is none if what is there cannot be found out just now.
    """
    try:
        blocks = store.blocks()
    except OSError as error:
        log.warning("%s cannot say what it holds: %s", node, error.strerror)
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
            continue  # the NameNode asks about it, if it should be there
        yield HeldBlock(block=block, stored_length=length)
