"""The report for who administers the block store.  Pure; O(blocks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.dfs.messages.administering import NodeStorage, StorageReport
from railyard.dfs.namenode.replicas.blockmap import BlockMap


def storage_report(
    blocks: BlockMap,
    nodes: Iterable[NodeId],
    heard_s: Mapping[RackId, float],
    now_s: float,
    *,
    safe_mode: bool,
) -> StorageReport:
    """The report on ``nodes``, those of the topology; ``heard_s``: {rack: time of a heartbeat}."""
    complete = [block for block in blocks.blocks.values() if block.complete]
    short = [block for block in complete if 0 < len(block.sound) < block.wanted]
    missing = [block for block in complete if not block.sound]
    held = Counter(node for block in blocks.blocks.values() for node in block.holders)

    def storage(node: NodeId) -> NodeStorage:
        heard = heard_s.get(rack_of(node))
        alive = blocks.is_alive(node)
        return NodeStorage(
            node=node,
            alive=alive,
            draining=node in blocks.draining,
            replicas=held[node],
            stored_bytes=blocks.load[node] if alive else 0,
            silent_s=None if heard is None else max(0.0, now_s - heard),
        )

    return StorageReport(
        safe_mode=safe_mode,
        nodes=tuple(map(storage, nodes)),
        under_replicated=len(short),
        urgent=sum(len(block.sound) == 1 for block in short),
        corrupt=sum(bool(block.nodes("corrupt")) for block in complete),
        missing=len(missing),
        missing_single=sum(block.wanted == 1 for block in missing),
        leaving=sum(len(block.nodes("leaving")) for block in complete),
    )
