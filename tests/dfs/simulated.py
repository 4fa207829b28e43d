"""The NameNode's core with DataNodes that carry out its commands in virtual time."""

from __future__ import annotations

import random

from railyard.cluster.ids import NodeId, rack_of
from railyard.cluster.messaging.wire import Message
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, Liveness, RackShape, Storage
from railyard.dfs.messages import (
    AddBlock,
    BlockAdded,
    BlockReplicated,
    BlockReport,
    CheckFiles,
    CheckReport,
    CompleteFile,
    CreateFile,
    DataNodeHeartbeat,
    DeleteReplicas,
    FileCreated,
    FileStatus,
    HeldBlock,
    LocateBlocks,
    MoveReplica,
    RegisterAgain,
    RegisterDataNode,
    ReplicaFailed,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    StoredBlock,
    VerifyReplica,
)
from railyard.dfs.namenode.blockmap import BlockMap
from railyard.dfs.namenode.core import NameNode, Ticked
from railyard.dfs.namenode.journal import Journal


def topology(racks: int = 3, nodes: int = 2, replication: int = 3) -> Topology:
    return Topology(
        name="t",
        racks=RackShape(count=racks, nodes=nodes),
        links=Links(nic=1e9, uplink=1e9),
        storage=Storage(block=100, replication=replication),
        liveness=Liveness(heartbeat=0.5, expiry_s=4.0),
    )


class SimulatedDfs:
    """``disks`` has the nodes' actual replicas; a block is its id and whether it is sound."""

    def __init__(self, seed: int = 1, journal: Journal | None = None, **shape: int) -> None:
        self.topology = topology(**shape)
        self.journal = journal or Journal()
        self.now_s = 100.0
        self.rng = random.Random(seed)
        self.disks: dict[NodeId, dict[int, HeldBlock]] = {n.id: {} for n in self.topology.nodes()}
        self.corrupt: set[tuple[NodeId, int]] = set()
        self.unreadable: set[NodeId] = set()  #: nodes that cannot read their blocks for now
        self.silent: set[str] = set()  #: racks whose DataNode process is dead
        self.lost: set[NodeId] = set()
        self.commands: list[Message] = []
        self.moved: list[tuple[MoveReplica, Message]] = []  #: moves that have ended
        self.slow: list[ReplicateBlock] = []  #: copies under way
        self.restart()

    # Driving ---------------------------------------------------------------------------------
    def restart(self) -> None:
        """Start a NameNode from the journal; the DataNodes register."""
        self.core = NameNode(self.topology, self.journal, self.now_s, seed=1)
        for rack in self.topology.rack_list():
            self.register(rack.id)

    def send(self, message: Message) -> Message | None:
        outcome = self.core.handle(message, self.now_s)
        check_invariants(self.core.blocks)
        self.moved.extend(outcome.moved)
        for each in outcome.commands:
            self.commands.append(each.command)
            if each.rack not in self.silent:
                self._carry_out(each.rack, each.command)
        return outcome.reply

    def run(self, seconds: float) -> None:
        """Let time pass, with heartbeats, ticks and ends of copies."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.5
            for rack in self.topology.rack_list():
                if rack.id not in self.silent:
                    alive = tuple(n.id for n in rack.nodes if n.id not in self.lost)
                    self.send(DataNodeHeartbeat(rack=rack.id, nodes=alive))
            self.send(Ticked())
            copies, self.slow = self.slow, []
            for copy in copies:
                self._end_copy(copy)

    def _carry_out(self, rack, command) -> None:
        if isinstance(command, RegisterAgain):
            self.register(rack)
        elif isinstance(command, ReplicateBlock):
            self.slow.append(command)
        elif getattr(command, "node", None) in self.lost:
            return
        elif isinstance(command, VerifyReplica):
            if command.delete and self.finding(command.node, command.block) == "damaged":
                self._delete(command.node, (command.block,))
            else:
                self.verify(command.node, command.block)
        elif isinstance(command, DeleteReplicas):
            self._delete(command.node, command.blocks)

    def _delete(self, node, blocks) -> None:
        for block in blocks:
            self.disks[node].pop(block, None)
            self.corrupt.discard((node, block))
        self.send(ReplicasDeleted(node=node, blocks=blocks))

    def finding(self, node, block) -> str:
        """The finding of a DataNode that verifies a replica."""
        if node in self.unreadable:
            return "unreadable"
        sound = block in self.disks[node] and (node, block) not in self.corrupt
        return "sound" if sound else "damaged"

    def verify(self, node, block) -> None:
        """Have a DataNode verify a replica and report the finding."""
        self.send(ReplicaVerified(block=block, node=node, found=self.finding(node, block)))

    def _end_copy(self, copy: ReplicateBlock) -> None:
        if rack_of(copy.source) in self.silent or copy.source in self.lost:
            return
        held = self.disks[copy.source].get(copy.block)
        bad = self.finding(copy.source, copy.block) != "sound"
        target_dead = rack_of(copy.target) in self.silent or copy.target in self.lost
        if bad or held is None or target_dead or copy.block in self.disks[copy.target]:
            if bad:
                self.verify(copy.source, copy.block)
            self.send(
                ReplicationFailed(
                    block=copy.block, source=copy.source, target=copy.target, reason="x"
                )
            )
            return
        self.disks[copy.target][copy.block] = held
        self.send(BlockReplicated(block=copy.block, target=copy.target, stored_length=100))

    # Faults ----------------------------------------------------------------------------------
    def register(self, rack) -> None:
        nodes = {
            node: tuple(held.values())
            for node, held in self.disks.items()
            if rack_of(node) == rack and node not in self.lost
        }
        self.send(RegisterDataNode(rack=rack, pid=1, nodes=nodes))

    def kill(self, rack: str) -> None:
        self.silent.add(rack)

    def revive(self, rack: str) -> None:
        self.silent.discard(rack)
        self.register(rack)

    def spoil(self, node: str, block: int) -> None:
        """Damage a replica; a reader finds and reports it."""
        self.corrupt.add((NodeId(node), block))
        self.accuse(node, block)

    def accuse(self, node: str, block: int) -> None:
        """A reader reports that a replica is bad."""
        self.send(ReplicaFailed(block=block, node=node, reason="checksum"))

    def report(self) -> None:
        """All DataNodes send block reports."""
        for node, held in self.disks.items():
            if rack_of(node) not in self.silent and node not in self.lost:
                every = tuple(sorted(held.values(), key=lambda each: each.block))
                self.send(BlockReport(node=node, first=0, last=2**63 - 1, held=every))

    # Files -----------------------------------------------------------------------------------
    def hold(self, node: str, block: int, stored_length: int) -> None:
        """A node has received a block."""
        self.disks[NodeId(node)][block] = HeldBlock(block=block, stored_length=stored_length)

    def write(self, path: str, blocks: int = 1, acknowledged=None, **options) -> FileStatus:
        created = self.send(CreateFile(path=path, **options))
        assert isinstance(created, FileCreated)
        stored = []
        for _ in range(blocks):
            added = self.send(AddBlock(file=created.file, stored_length=100))
            assert isinstance(added, BlockAdded)
            nodes = [n for n in added.nodes if rack_of(n) not in self.silent | self.lost]
            for node in nodes[:acknowledged]:
                self.disks[node][added.block] = HeldBlock(block=added.block, stored_length=100)
            stored.append(StoredBlock(block=added.block, nodes=tuple(nodes[:acknowledged])))
        return self.send(CompleteFile(file=created.file, blocks=tuple(stored))).status

    def complete(self, file: int, added: BlockAdded) -> None:
        """Write a file's only block to its nodes, and complete it."""
        for node in added.nodes:
            self.hold(node, added.block, 100)
        stored = StoredBlock(block=added.block, nodes=added.nodes)
        self.send(CompleteFile(file=file, blocks=(stored,)))

    def nodes(self, path: str, block: int = 0) -> tuple[NodeId, ...]:
        return self.send(LocateBlocks(path=path)).files[0].blocks[block].nodes

    def doubtful(self, path: str) -> tuple[NodeId, ...]:
        return self.send(LocateBlocks(path=path)).files[0].blocks[0].doubtful

    def block(self, path: str, block: int = 0) -> int:
        return self.send(LocateBlocks(path=path)).files[0].blocks[block].block

    def check(self) -> CheckReport:
        return self.send(CheckFiles(path="/"))


def check_invariants(known: BlockMap) -> None:
    """Each replica is on a node that is alive, once and in order, and counts in its load."""
    loads = dict.fromkeys(known.load, 0)
    for block in known.blocks.values():
        assert len(set(block.holders)) == len(block.holders)
        assert list(block.sound) == sorted(block.sound)
        for node in block.holders:
            loads[node] += block.stored_length
    assert loads == known.load
