"""Nodes that are being emptied: their replicas are made elsewhere, by the rule, then deleted.

``replication`` does that: a replica on such a node does not count, may be a copy's source, and is
the first to go once there are enough without it.

Never here: for how long a node stays so; see the ResourceManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs.messages.draining import DrainingNodes, DrainNodes
from railyard.dfs.namenode.replicas.blockmap import BlockMap


class Draining:
    """Sets which nodes are emptied, and counts what they have yet."""

    def __init__(self, blocks: BlockMap, nodes: Collection[NodeId]) -> None:
        self._blocks = blocks
        self._nodes = nodes  #: of the topology

    def drain(self, message: DrainNodes, _: float) -> DrainingNodes:
        """Empty these nodes.  O(blocks).  Raises ``PeerError`` for one that can't be spared."""
        for node in message.nodes:
            if node not in self._nodes:
                raise PeerError(f"{node} is no node of this cluster")
        wanted = frozenset(message.nodes)
        if message.new is not None and message.new not in self._blocks.draining:
            self._check(message.new, wanted)
        ended, self._blocks.draining = self._blocks.draining - wanted, wanted
        self._touch(ended)
        return DrainingNodes(replicas=self._count(message.nodes))

    def _check(self, new: NodeId, draining: Collection[NodeId]) -> None:
        """Raise ``PeerError`` if the blocks could not have the replicas that they may have now."""
        left = [node for node in self._blocks.load if node not in draining]
        racks = {rack_of(node) for node in left}
        most = max((block.wanted for block in self._blocks.blocks.values()), default=0)
        if most > len(left):
            others = f"{len(left)} other node{'s' * (len(left) != 1)}"
            raise PeerError(f"{new} can't be drained: blocks have {most} replicas, on {others}")
        if most > 1 and len(racks) == 1 and rack_of(new) not in racks:
            alone = f"it is the last node outside {racks.pop()}"
            raise PeerError(f"{new} can't be drained: {alone}, and replicas are in two racks")

    def _count(self, nodes: Iterable[NodeId]) -> dict[NodeId, int]:
        """{node: its replicas}, each of which replication is to look at."""
        counts = dict.fromkeys(nodes, 0)
        if not counts:
            return counts
        for block, known in self._blocks.blocks.items():
            here = [node for node in known.holders if node in counts]
            for node in here:
                counts[node] += 1
            if here and known.complete:
                self._blocks.touched[block] = None
        return counts

    def _touch(self, nodes: Collection[NodeId]) -> None:
        """Have replication look at what these nodes have: it counts again."""
        if nodes:
            self._count(nodes)
