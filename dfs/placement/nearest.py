"""Which replica of a block a reader reads: one rule for the client, simulations and policies.

The nearest one: on its own node, else in its own rack, else anywhere.  Equally near ones are tried
in an order that differs from reader to reader, so that not all read from the same node, and that
depends on the replicas' nodes only, not on block ids: the ids of blocks that are written at the
same time differ between the two clocks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from railyard.cluster.ids import NodeId, rack_of


def distance(reader: NodeId | None, node: NodeId) -> int:
    """0 for the reader's own node, 1 for its rack, 2 for any other; None reads from outside."""
    if node == reader:
        return 0
    return 1 if reader is not None and rack_of(node) == rack_of(reader) else 2


def nearest(reader: NodeId, replicas: Sequence[NodeId]) -> NodeId | None:
    """The node that a reader reads from; None if there is no replica."""
    if reader in replicas:
        return reader
    mine = rack_of(reader)
    near = [node for node in replicas if rack_of(node) == mine] or replicas
    return min(near, key=lambda node: _turn(reader, node, replicas), default=None)


def nearest_first(
    reader: NodeId | None, replicas: Sequence[NodeId], is_lost: Callable[[NodeId], bool]
) -> list[NodeId]:
    """All nodes in the order in which a reader tries them; those that are lost come last."""

    def preference(node: NodeId) -> tuple[bool, int, int]:
        return is_lost(node), distance(reader, node), _turn(reader, node, replicas)

    return sorted(replicas, key=preference)


def _turn(reader: NodeId | None, node: NodeId, replicas: Sequence[NodeId]) -> int:
    """Sorts equally near replicas."""
    return zlib.crc32(f"{reader} {' '.join(sorted(replicas))} {node}".encode())
