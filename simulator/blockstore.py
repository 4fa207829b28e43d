"""The block store in virtual time: the real NameNode and placement policies, simulated disks.

It stores the model's bytes: its topology has scale 1.  Disks take no time; transfers between nodes
are flows.  A read tries replica after replica, as in ``dfs.reader``.  A write sends block after
block, each through a pipeline of nodes, as in ``dfs.writer``.  Unlike in the real one, readers know
at once that a node is down.

Never here: a NameNode or a DataNode that dies or is stopped (``railyard.oracles.faults``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId, NodeId, RackId
from railyard.cluster.messaging.wire import Command, Message, Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    BlockId,
    BlockReplicated,
    DataNodeHeartbeat,
    DeleteReplicas,
    HeldBlock,
    MoveReplica,
    PlacementHint,
    RegisterDataNode,
    ReplicaFailed,
    ReplicaMoved,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    VerifyReplica,
)
from railyard.dfs.namenode.core import BlocksStored, FileStored, NameNode, Ticked
from railyard.dfs.namenode.journal import Journal
from railyard.dfs.placement import nearest
from railyard.simulator.clock import EventHeap
from railyard.simulator.network import SimulatedNetwork


class Outages(dict[NodeId, int]):
    """{node that is down: how many faults keep it down}."""

    def begin(self, node: NodeId) -> None:
        """One more fault keeps the node down."""
        self[node] = self.get(node, 0) + 1

    def end(self, node: NodeId) -> bool:
        """One fault less does; returns whether the node is up now."""
        self[node] -= 1
        if self[node]:
            return False
        del self[node]
        return True


class _Replicas(msgspec.Struct, frozen=True, gc=False):
    size_bytes: int
    nodes: tuple[NodeId, ...]


class Disks:
    """The replicas on the nodes' disks, whether a node is up or not.

    They are stored by block and not by node, because a node's replicas are rarely needed.
    """

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
        known = self._blocks.get(block)
        return known is not None and node in known.nodes

    def held(self, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[HeldBlock, ...]]:
        """The replicas on each of these nodes.  O(blocks)."""
        held: dict[NodeId, list[HeldBlock]] = {node: [] for node in nodes}
        for block, known in self._blocks.items():
            for node in known.nodes:
                if node in held:
                    held[node].append(HeldBlock(block=block, stored_length=known.size_bytes))
        return {node: tuple(blocks) for node, blocks in held.items()}


#: Larger than any block of a workload's files.
_BLOCK_BYTES_MAX = 2**62
_NO_HINT = PlacementHint()
#: Pause before a NameNode that can't do something yet gets the request again.
_AGAIN_S = 0.25
OnMoved = Callable[[ReplicaMoved | Refusal], None]


class BlockStore:
    """Files and replicas.  All sizes are in the model's bytes."""

    def __init__(
        self,
        topology: Topology,
        seed: int,
        heap: EventHeap,
        network: SimulatedNetwork,
        journal: Journal | None = None,
    ) -> None:
        self.heap = heap
        self.network = network
        self._topology = topology.derived(_unscaled)
        self.namenode = NameNode(self._topology, journal or Journal(), heap.now_s, seed)
        self.disks = Disks()
        self.down = Outages()  #: nodes whose disks can't be reached now
        self._racks = {rack.id: tuple(n.id for n in rack.nodes) for rack in topology.rack_list()}
        self._names = 0
        self._moving: dict[MoveReplica, OnMoved] = {}  #: what to call at the end of moves
        for rack in self._racks:
            self.register(rack)

    # Files ---------------------------------------------------------------------------------------
    def put(
        self,
        path: str,
        blocks: Sequence[int],
        hint: PlacementHint = _NO_HINT,
        at: Sequence[tuple[NodeId, ...]] = (),
        first_racks: Sequence[RackId] = (),
    ) -> list[BlockId]:
        """Store a file at once, without flows, and return its blocks.

        ``blocks`` are their sizes in bytes.  ``at`` has the nodes of each block, if the placement
        policy is not to choose them; ``first_racks`` the rack of each block's first replica.
        """
        there = FileStored(
            path=path,
            stored_lengths=tuple(blocks),
            hint=hint,
            first_racks=tuple(first_racks),
            nodes=tuple(at),
        )
        stored = self.send(there)
        assert isinstance(stored, BlocksStored)
        put = self.disks.put
        for block, size_bytes in zip(stored.blocks, blocks, strict=True):
            put(block.block, size_bytes, block.nodes)
        return [block.block for block in stored.blocks]

    def locate(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes with a sound replica of a block, by the NameNode's records."""
        return self.namenode.blocks.sound(block)

    def nearest(self, block: BlockId, reader: NodeId) -> NodeId | None:
        """The node with the nearest readable replica, or None.

        A replica that is missing on its disk is reported to the NameNode.
        """
        while True:
            best = nearest(reader, [node for node in self.locate(block) if node not in self.down])
            if best is None or self.disks.has(block, best):
                return best
            self.send(ReplicaFailed(block=block, node=best, reason="it is not there"))

    # Nodes ---------------------------------------------------------------------------------------
    def register(self, rack: RackId) -> None:
        """Register a rack's DataNode, with the replicas of those of its nodes that are up."""
        held = self.disks.held([node for node in self._racks[rack] if node not in self.down])
        self.send(RegisterDataNode(rack=rack, pid=0, nodes=held))

    def send_heartbeat(self, rack: RackId) -> None:
        """Send a rack's heartbeat, which shows the NameNode which of its nodes are down."""
        alive = tuple(node for node in self._racks[rack] if node not in self.down)
        self.send(DataNodeHeartbeat(rack=rack, nodes=alive))

    def tick(self) -> None:
        """Send all heartbeats and a tick, so that the NameNode retries what has failed."""
        for rack in self._racks:
            self.send_heartbeat(rack)
        self.send(Ticked())

    # The NameNode --------------------------------------------------------------------------------
    def ask(self, message: Message, then: Callable[[Message | Refusal | None], None]) -> None:
        """Ask the NameNode; ``then`` gets its answer.

        As ``dfs.client`` does, the request is repeated while it can't do that yet.
        """
        answer: Message | Refusal | None
        try:
            answer = self.send(message)
        except PeerError as error:
            answer = Refusal.because(error)
            if answer.unable:
                self.heap.after(_AGAIN_S, self.ask, message, then)
                return
        then(answer)

    def send(self, message: Message) -> Message | None:
        """Send the NameNode a message, carry out its commands, and return its reply.

        Raises ``PeerError`` if it refuses.
        """
        outcome = self.namenode.handle(message, self.heap.now_s)
        for each in outcome.commands:
            self._carry_out(each.rack, each.command)
        for moved, answer in outcome.moved:
            self._moved(moved, answer)
        return outcome.reply

    def _carry_out(self, _rack: RackId, command: Command) -> None:
        """The DataNode of a rack carries out a command of the NameNode's."""
        if isinstance(command, ReplicateBlock):
            self._replicate(command)
        elif isinstance(command, DeleteReplicas):
            self._delete(command)
        elif isinstance(command, VerifyReplica):
            self._verify(command)

    def move(self, wanted: MoveReplica, on_end: OnMoved) -> None:
        """Move a block; ``on_end`` gets the NameNode's answer."""
        self._moving[wanted] = on_end

        def answered(answer: Message | Refusal | None) -> None:
            if isinstance(answer, ReplicaMoved | Refusal):
                self._moved(wanted, answer)

        self.ask(wanted, answered)

    def _moved(self, wanted: MoveReplica, answer: ReplicaMoved | Refusal) -> None:
        """Report to whoever requested this move last."""
        if (on_end := self._moving.pop(wanted, None)) is not None:
            on_end(answer)

    def new_name(self, what: Literal["read", "write", "copy"]) -> FlowId:
        """A new id for a flow of the block store."""
        self._names += 1
        return FlowId(f"{what}-{self._names}")

    def _delete(self, command: DeleteReplicas) -> None:
        if command.node not in self.down:
            for block in command.blocks:
                self.disks.remove(block, command.node)
            self.send(ReplicasDeleted(node=command.node, blocks=command.blocks))

    def _verify(self, command: VerifyReplica) -> None:
        """Report whether a replica exists; on simulated disks, nothing else can be wrong."""
        block, node = command.block, command.node
        if node in self.down:
            return
        if self.disks.has(block, node):
            self.send(ReplicaVerified(block=block, node=node, found="sound"))
        elif command.delete:
            self.send(ReplicasDeleted(node=node, blocks=(block,)))
        else:
            self.send(ReplicaVerified(block=block, node=node, found="damaged", reason="not there"))

    def _replicate(self, command: ReplicateBlock) -> None:
        name, ended = self.new_name("copy"), partial(self._replicated, command)
        if command.source in self.down or command.target in self.down:
            # the node cannot answer; the NameNode will learn that it is down
            self.heap.after(0.0, ended, 0, "a node is down")
        else:
            self.network.carry(name, command.source, command.target, command.stored_length, ended)

    def _replicated(self, command: ReplicateBlock, _: int, reason: str) -> None:
        block, source, target = command.block, command.source, command.target
        if not reason and target in self.down:
            reason = f"{target} is down"
        if not reason and not self.disks.has(block, source):
            self.send(ReplicaFailed(block=block, node=source, reason="not there"))
            reason = "there is nothing to copy"
        if reason:
            self.send(ReplicationFailed(block=block, source=source, target=target, reason=reason))
            return
        length = command.stored_length
        self.disks.add(block, length, target)
        self.send(BlockReplicated(block=block, target=target, stored_length=length))


def _unscaled(topology: Topology) -> Topology:
    """The same in the model's bytes: scale 1, and no block too large."""
    storage = msgspec.structs.replace(topology.storage, block=_BLOCK_BYTES_MAX)
    return msgspec.structs.replace(topology, scale=1, storage=storage)
