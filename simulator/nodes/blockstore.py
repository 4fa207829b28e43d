"""The block store in virtual time: the real NameNode and placement policies, simulated disks.

It keeps the model's bytes, not stored ones: its topology's scale is 1.  A disk takes no time;
what goes from node to node does, as flows.  Reading goes on as ``dfs.reading`` does, replica by
replica; writing as ``dfs.writing``, block by block, each through a pipeline of nodes.

What differs from the real one: a node that is down is known to be so at once by whoever reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.messaging.wire import Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    BlockId,
    BlockReplicated,
    DataNodeHeartbeat,
    DeleteDamaged,
    DeleteReplicas,
    PlacementHint,
    RegisterDataNode,
    ReplicaFailed,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    VerifyReplica,
)
from railyard.dfs.namenode.core import BlocksStored, FileStored, NameNode, Ticked
from railyard.dfs.namenode.journal import NoJournal
from railyard.dfs.placement.rule import reading_rank
from railyard.simulator.heap import EventHeap
from railyard.simulator.network import SimulatedNetwork
from railyard.simulator.nodes.disks import Disks

#: No file of a workload has a larger block.
_BLOCK_BYTES_MAX = 2**62
_NO_HINT = PlacementHint()


class BlockStore:
    """Files and replicas.  All ``_bytes`` are the model's."""

    def __init__(
        self, topology: Topology, seed: int, heap: EventHeap, network: SimulatedNetwork
    ) -> None:
        storage = msgspec.structs.replace(topology.storage, block=_BLOCK_BYTES_MAX)
        unscaled = msgspec.structs.replace(topology, scale=1, storage=storage)
        self.heap = heap
        self.network = network
        self.namenode = NameNode(unscaled, NoJournal(), heap.now_s, seed)
        self.disks = Disks()
        self.down: dict[NodeId, None] = {}  #: nodes that serve nothing now
        self._racks = {rack.id: tuple(n.id for n in rack.nodes) for rack in topology.rack_list()}
        self._names = 0
        for rack in self._racks:
            self.register(rack)

    # Files ---------------------------------------------------------------------------------------
    def put(
        self,
        path: str,
        blocks: Sequence[int],
        hint: PlacementHint = _NO_HINT,
        at: Sequence[tuple[NodeId, ...]] = (),
    ) -> list[BlockId]:
        """Have a file of so large blocks, as if it had been there for long; its blocks.

        ``at`` has the nodes of each block, where the placement policy is not to be asked.
        """
        there = FileStored(path=path, stored_lengths=tuple(blocks), hint=hint, nodes=tuple(at))
        stored = self.tell(there)
        assert isinstance(stored, BlocksStored)
        put = self.disks.put
        for block, size_bytes in zip(stored.blocks, blocks, strict=True):
            put(block.block, size_bytes, block.nodes)
        return [block.block for block in stored.blocks]

    def locate(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes that have a block, as far as the NameNode knows."""
        return self.namenode.blocks.sound(block)

    def nearest(self, block: BlockId, reader: NodeId) -> NodeId | None:
        """The best replica that can be read: own node, own rack, others; None if there is none.

        Equals in an order that differs from reader to reader, as in ``dfs.reading``.  A replica
        that turns out to be missing is reported.
        """
        while True:
            nodes = [node for node in self.locate(block) if node not in self.down]
            if not nodes:
                return None
            if reader in nodes:
                best = reader
            else:
                mine = rack_of(reader)
                near = [node for node in nodes if rack_of(node) == mine] or nodes
                best = min(near, key=lambda node: reading_rank(reader, node, nodes))
            if self.disks.has(block, best):
                return best
            self.tell(ReplicaFailed(block=block, node=best, reason="it is not there"))

    # Nodes ---------------------------------------------------------------------------------------
    def register(self, rack: RackId) -> None:
        """Have a rack's DataNode tell what its nodes hold, those that are up."""
        held = self.disks.held([node for node in self._racks[rack] if node not in self.down])
        self.tell(RegisterDataNode(rack=rack, pid=0, nodes=held))

    def miss(self, rack: RackId) -> None:
        """Have the NameNode find out which nodes of a rack are down."""
        alive = tuple(node for node in self._racks[rack] if node not in self.down)
        self.tell(DataNodeHeartbeat(rack=rack, nodes=alive))

    def tick(self) -> None:
        """Let the NameNode try again what has failed."""
        for rack in self._racks:
            self.miss(rack)
        self.tell(Ticked())

    def lose(self, node: NodeId, block: BlockId) -> None:
        """Let a replica vanish from a disk; nobody knows before it is read."""
        self.disks.remove(block, node)

    # The NameNode --------------------------------------------------------------------------------
    def tell(self, message: Message) -> Message | None:
        """Send a message to the NameNode; its commands are carried out.  Raises ``PeerError``."""
        outcome = self.namenode.handle(message, self.heap.now_s)
        for each in outcome.commands:
            if isinstance(each.command, ReplicateBlock):
                self._replicate(each.command)
            elif isinstance(each.command, DeleteReplicas):
                self._delete(each.command)
            elif isinstance(each.command, VerifyReplica | DeleteDamaged):
                self._look_at(each.command)
        return outcome.reply

    def new_name(self) -> FlowId:
        """A name for a flow of the block store."""
        self._names += 1
        return FlowId(f"block-{self._names}")

    def _delete(self, command: DeleteReplicas) -> None:
        if command.node not in self.down:
            for block in command.blocks:
                self.disks.remove(block, command.node)
            self.tell(ReplicasDeleted(node=command.node, blocks=command.blocks))

    def _look_at(self, command: VerifyReplica | DeleteDamaged) -> None:
        """Say whether a replica is there: nothing else can be wrong with one."""
        block, node = command.block, command.node
        if node in self.down:
            return
        if self.disks.has(block, node):
            self.tell(ReplicaVerified(block=block, node=node, found="sound"))
        elif isinstance(command, DeleteDamaged):
            self.tell(ReplicasDeleted(node=node, blocks=(block,)))
        else:
            self.tell(ReplicaVerified(block=block, node=node, found="damaged", reason="not there"))

    def _replicate(self, command: ReplicateBlock) -> None:
        def ended(_: int, reason: str) -> None:
            if not reason and command.target in self.down:
                reason = f"{command.target} is down"
            if not reason and not self.disks.has(command.block, command.source):
                self.tell(
                    ReplicaFailed(block=command.block, node=command.source, reason="not there")
                )
                reason = "there is nothing to copy"
            if reason:
                self.tell(
                    ReplicationFailed(
                        block=command.block,
                        source=command.source,
                        target=command.target,
                        reason=reason,
                    )
                )
                return
            length = command.stored_length
            self.disks.add(command.block, length, command.target)
            self.tell(
                BlockReplicated(block=command.block, target=command.target, stored_length=length)
            )

        name = self.new_name()
        if command.source in self.down or command.target in self.down:
            # nobody answers; the NameNode learns that with the loss of the node
            self.heap.after(0.0, ended, 0, "a node is down")
        else:
            self.network.carry(name, command.source, command.target, command.stored_length, ended)
