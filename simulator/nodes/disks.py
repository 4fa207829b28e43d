"""The replicas on the nodes' disks, whether a node is up or not.

They are kept by block and not by node, because a node's replicas are rarely asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from railyard.cluster.ids import NodeId
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import HeldBlock


class _Replicas(msgspec.Struct, frozen=True, gc=False):
    size_bytes: int
    nodes: tuple[NodeId, ...]


class Disks:
    """All disks of a cluster."""

    def __init__(self) -> None:
        self._blocks: dict[BlockId, _Replicas] = {}

    def put(self, block: BlockId, size_bytes: int, nodes: tuple[NodeId, ...]) -> None:
        """Store a new block on exactly these nodes."""
        self._blocks[block] = _Replicas(size_bytes, nodes)

    def add(self, block: BlockId, size_bytes: int, node: NodeId) -> None:
        """Store a replica on one more node."""
        if not self.has(block, node):
            known = self._blocks.get(block)
            self.put(block, size_bytes, (*known.nodes, node) if known else (node,))

    def remove(self, block: BlockId, node: NodeId) -> None:
        """Remove a replica; does nothing if there is none."""
        known = self._blocks.get(block)
        if known is not None and node in known.nodes:
            others = tuple(other for other in known.nodes if other != node)
            if others:
                self.put(block, known.size_bytes, others)
            else:
                del self._blocks[block]

    def has(self, block: BlockId, node: NodeId) -> bool:
        """Whether a node has a replica of a block."""
        known = self._blocks.get(block)
        return known is not None and node in known.nodes

    def nodes_of(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes with a replica of a block."""
        known = self._blocks.get(block)
        return () if known is None else known.nodes

    def held(self, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[HeldBlock, ...]]:
        """The replicas on each of these nodes.  O(blocks)."""
        held: dict[NodeId, list[HeldBlock]] = {node: [] for node in nodes}
        for block, known in self._blocks.items():
            for node in known.nodes:
                if node in held:
                    held[node].append(HeldBlock(block=block, stored_length=known.size_bytes))
        return {node: tuple(blocks) for node, blocks in held.items()}
