"""Commands for the DataNodes: queued while a message is handled, then handed to the driver."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Command
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import (
    DeleteDamaged,
    DeleteReplicas,
    ReplicateBlock,
    VerifyReplica,
)

#: A command about replicas on one node.
ReplicaCommand = ReplicateBlock | DeleteReplicas | DeleteDamaged | VerifyReplica


class DataNodeCommand(msgspec.Struct, frozen=True, gc=False):
    """A command and the rack of the DataNode that gets it."""

    rack: RackId
    command: Command


class CommandQueue:
    """Commands that the driver has not taken yet, oldest first."""

    def __init__(self, racks: Mapping[NodeId, RackId]) -> None:
        self._racks = racks
        self._pending: list[DataNodeCommand] = []

    def __bool__(self) -> bool:
        """Whether a command is pending."""
        return bool(self._pending)

    def take(self) -> tuple[DataNodeCommand, ...]:
        """Return the pending commands and empty the queue."""
        taken, self._pending = tuple(self._pending), []
        return taken

    def add(self, rack: RackId, command: Command) -> None:
        """Add a command for a rack's DataNode."""
        self._pending.append(DataNodeCommand(rack, command))

    def extend(self, commands: Iterable[ReplicaCommand]) -> None:
        """Add commands, each for the DataNode that serves the node it names."""
        for command in commands:
            node = command.source if isinstance(command, ReplicateBlock) else command.node
            self.add(self._racks[node], command)

    def delete(self, replicas: Collection[tuple[NodeId, BlockId]]) -> None:
        """Add one ``DeleteReplicas`` per node for ``replicas``, pairs of (node, block)."""
        by_node: dict[NodeId, list[BlockId]] = {}
        for node, block in replicas:
            by_node.setdefault(node, []).append(block)
        self.extend(
            DeleteReplicas(node=node, blocks=tuple(blocks)) for node, blocks in by_node.items()
        )
