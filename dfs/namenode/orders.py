"""What the DataNodes are to do: collected while a message is handled, then handed to the driver."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Command
from railyard.dfs.messages import (
    BlockId,
    DeleteDamaged,
    DeleteReplicas,
    ReplicateBlock,
    VerifyReplica,
)

#: A command for one node's DataNode.
NodeCommand = ReplicateBlock | DeleteReplicas | DeleteDamaged | VerifyReplica


class Order(msgspec.Struct, frozen=True, gc=False):
    """A command for the DataNode of a rack."""

    rack: RackId
    command: Command


class Orders:
    """Orders that nobody has taken yet, oldest first."""

    def __init__(self, racks: Mapping[NodeId, RackId]) -> None:
        self._racks = racks
        self._waiting: list[Order] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting)

    def take(self) -> tuple[Order, ...]:
        """All of them; they are the caller's now."""
        taken, self._waiting = tuple(self._waiting), []
        return taken

    def add(self, rack: RackId, command: Command) -> None:
        """Order something of a rack's DataNode."""
        self._waiting.append(Order(rack, command))

    def extend(self, commands: Iterable[NodeCommand]) -> None:
        """Order these of the DataNodes of the nodes that they name."""
        for command in commands:
            node = command.source if isinstance(command, ReplicateBlock) else command.node
            self.add(self._racks[node], command)

    def delete(self, replicas: Collection[tuple[NodeId, BlockId]]) -> None:
        """Have replicas deleted that no file needs."""
        by_node: dict[NodeId, list[BlockId]] = {}
        for node, block in replicas:
            by_node.setdefault(node, []).append(block)
        self.extend(
            DeleteReplicas(node=node, blocks=tuple(blocks)) for node, blocks in by_node.items()
        )
