"""The block store in virtual time: the real NameNode and placement policies, simulated disks.

It stores the model's bytes: its topology has scale 1.  Disks take no time; transfers between nodes
are flows.  A read tries replica after replica, as in ``dfs.reader``.  Unlike in the real one,
readers know at once that a node is down.

Never here: a NameNode or a DataNode that dies or is stopped (``railyard.oracles.faults``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId, NodeId, RackId
from railyard.cluster.messages import TaskSpec
from railyard.cluster.messaging.wire import Command, Message, Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    BlockAdded,
    BlockId,
    BlockReplicated,
    CompleteFile,
    CreateFile,
    DataNodeHeartbeat,
    DeleteReplicas,
    FileCreated,
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
    StoredBlock,
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
        for block, size_bytes in zip(stored.blocks, blocks, strict=True):
            self.disks.put(block.block, size_bytes, block.nodes)
        return [block.block for block in stored.blocks]

    def locate(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes with a sound replica of a block, by the NameNode's records."""
        known = self.namenode.blocks.blocks.get(block)
        return known.sound if known else ()

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
        if isinstance(command, ReplicateBlock):
            self._replicate(command)
        elif isinstance(command, DeleteReplicas):
            self._delete(command)
        elif isinstance(command, VerifyReplica):
            self._verify(command)

    def move(self, wanted: MoveReplica, on_end: OnMoved) -> None:
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


@dataclass(eq=False)
class FileWrite:
    """The write of a task's file, block by block, each through a pipeline of nodes.

    As in ``dfs.writer`` and ``dfs.datanode.transfers``, each node forwards a block while it
    receives it.  If a node fails, so do the nodes behind it, but not those before it.  A block that
    no node has is written again, to other nodes.  Ends with one call of ``on_end`` with the reason
    of a failure, or "" on success.
    """

    TRIES: ClassVar = 4  #: as ``dfs.writer.TRIES``

    _store: BlockStore
    _task: TaskSpec
    _left_bytes: int  #: of the file, with the current block
    _block_bytes: int
    _writer: NodeId
    _on_end: Callable[[str], None]
    _is_over: bool = False  #: whether its writer has ended
    _file: int = 0  #: the NameNode's number of the file, once the write has begun
    _stored: tuple[StoredBlock, ...] = ()
    _failed: tuple[NodeId, ...] = ()
    _tries: int = 1
    _added: BlockAdded | None = None
    #: {position in the pipeline: open flow to its node}
    _hops: dict[int, FlowId] = field(default_factory=dict)
    _reached: int = 0  #: how many nodes of the pipeline will have the current block

    def begin(self) -> None:
        self._length = min(self._left_bytes, self._block_bytes)  #: bytes of the current block
        create = CreateFile(
            path=self._task.output_path,
            writer=self._writer,
            replication=self._task.output_replication,
            unless=self._task.success_path,
            first_stored_length=self._length,
        )
        self._store.ask(create, self._answered)

    @property
    def flows(self) -> tuple[FlowId, ...]:
        """The open flows of the current block, by hop of the pipeline."""
        return tuple(self._hops.values())

    def abort(self) -> None:
        """Abandon the file, because its writer has ended."""
        self._is_over = True
        for flow in self._hops.values():
            self._store.network.cancel(flow)
        self._hops.clear()
        with contextlib.suppress(PeerError):  # already abandoned, or removed with its folder
            self._store.send(AbandonFile(file=self._file))

    def _answered(self, answer: Message | Refusal | None) -> None:
        """The file is created, perhaps with its first block, or a block is added."""
        if self._is_over:
            return
        if isinstance(answer, Refusal):
            self._on_end(f"a block could not be written: {answer.reason}")
            return
        if isinstance(answer, FileCreated):
            self._file, answer = answer.file, answer.first
        if answer is None:
            self._complete()
        else:
            assert isinstance(answer, BlockAdded)
            self._send(answer)

    def _complete(self) -> None:
        self._store.ask(CompleteFile(file=self._file, blocks=self._stored), self._completed)

    def _completed(self, answer: Message | Refusal | None) -> None:
        if self._is_over:
            return
        if isinstance(answer, Refusal):  # all nodes with one of its blocks may have been lost
            self._on_end(f"the file could not be completed: {answer.reason}")
        else:
            self._on_end("")

    def _ask(self, instead_of: BlockId | None) -> None:
        add = AddBlock(
            file=self._file, stored_length=self._length, instead_of=instead_of, exclude=self._failed
        )
        self._store.ask(add, self._answered)

    def _send(self, added: BlockAdded) -> None:
        """Start the flows of all hops at once, since each node forwards what it receives."""
        store, nodes = self._store, added.nodes
        self._added, reached = added, len(nodes)
        if store.down:
            is_up = [node not in store.down for node in nodes]
            reached = is_up.index(False) if False in is_up else reached
        self._reached = reached
        if reached == 0:
            store.heap.after(0.0, self._block_ended)
            return
        begin = 0
        if nodes[0] == self._writer and reached > 1:
            begin = 1  # the flow within the writer's node would always end first
        hops = range(begin, reached)
        self._hops = {hop: store.new_name("copy" if hop else "write") for hop in hops}
        self._start(self._hops.copy())

    def _start(self, hops: dict[int, FlowId]) -> None:
        assert self._added is not None
        nodes = self._added.nodes
        for hop, flow in hops.items():
            source = nodes[hop - 1] if hop else self._writer
            ended = partial(self._hop_ended, hop)
            self._store.network.carry(flow, source, nodes[hop], self._length, ended)

    def _hop_ended(self, hop: int, _: int, reason: str) -> None:
        hops = self._hops
        hops.pop(hop, None)
        if reason:  # the nodes further down receive their bytes from this one
            self._reached = min(self._reached, hop)
            for later in [other for other in hops if other > hop]:
                self._store.network.cancel(hops.pop(later))
        if not hops:
            self._block_ended()

    def _block_ended(self) -> None:
        store, added = self._store, self._added
        assert added is not None
        nodes = added.nodes[: self._reached]
        if store.down:
            nodes = tuple([node for node in nodes if node not in store.down])
        if nodes:
            store.disks.put(added.block, self._length, nodes)
            self._stored += (StoredBlock(block=added.block, nodes=nodes),)
            self._left_bytes -= self._length
            if not self._left_bytes:
                self._complete()
                return
            self._length = min(self._left_bytes, self._block_bytes)
            self._tries, self._failed = 1, ()
            self._ask(None)
        elif self._tries < self.TRIES:
            self._tries += 1
            self._failed += added.nodes[:1]
            self._ask(added.block)
        else:
            self._on_end(f"a block could not be written in {self._tries} tries")


def _unscaled(topology: Topology) -> Topology:
    """The same in the model's bytes: scale 1, and no block too large."""
    storage = msgspec.structs.replace(topology.storage, block=_BLOCK_BYTES_MAX)
    return msgspec.structs.replace(topology, scale=1, storage=storage)
