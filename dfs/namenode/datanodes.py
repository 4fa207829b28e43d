"""The registered DataNodes: commands for them, facts from them, and replicas in doubt.

A replica is doubtful once a reader has reported it as bad, or a block report differs from the block
map.  Only the replica's own DataNode settles that, by verifying the whole replica.  If it is not
found sound it is verified again later, since the cause may pass: a lost disk, a lack of
descriptors, a file that somebody put back.

Never here: files, and decisions about where replicas go.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Command, Done
from railyard.dfs.messages import (
    BlockId,
    BlockReplicated,
    BlockReport,
    DataNodeHeartbeat,
    DeleteReplicas,
    Finding,
    RegisterAgain,
    RegisterDataNode,
    ReplicaFailed,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    VerifyReplica,
)
from railyard.dfs.namenode.blockmap import IN_DOUBT, BlockMap, State
from railyard.dfs.namenode.replication import Moves, Replication

#: A command about replicas on one node.
ReplicaCommand = ReplicateBlock | DeleteReplicas | VerifyReplica
#: A replica that is still doubtful is verified again after this time.
VERIFY_AGAIN_S = 30.0
#: {finding: (the states that it changes, the new state)}
_VERDICTS: dict[Finding, tuple[tuple[State, ...], State]] = {
    "sound": (("suspect", "unreadable", "corrupt", "leaving"), "sound"),
    "damaged": (("sound", "suspect", "unreadable"), "corrupt"),
    "unreadable": (("sound", "suspect", "corrupt", "leaving"), "unreadable"),
}


class DataNodeCommand(msgspec.Struct, frozen=True, gc=False):
    """A command and the rack of the DataNode that gets it."""

    rack: RackId
    command: Command


@dataclass(eq=False)
class DataNodes:
    """Keeps the block map up to date by messages and facts; has the commands to be sent yet."""

    _nodes: Mapping[NodeId, RackId]  #: {node of the topology: its rack}
    _expiry_s: float
    _blocks: BlockMap
    _replication: Replication
    _moves: Moves

    def __post_init__(self) -> None:
        #: whether replicas of blocks that no file has are deleted now, or once they are reported
        #: again
        self.deletes_unknown = True
        #: {rack: time of its DataNode's last heartbeat or registration}
        self.contact_s: dict[RackId, float] = {}
        self._commands: list[DataNodeCommand] = []  #: oldest first
        #: {(block, node): time when a doubtful replica is verified next}; kept while it is lost
        self._verify_s: dict[tuple[BlockId, NodeId], float] = {}
        #: the same as a heap by time; stale entries are skipped
        self._heap: list[tuple[float, BlockId, NodeId]] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._commands or self._verify_s)

    def check_node(self, node: NodeId) -> RackId:
        """Return the rack of a node; raises ``PeerError`` if the topology has no such node."""
        rack = self._nodes.get(node)
        if rack is None:
            raise PeerError(f"{node!r} is not a node of this cluster")
        return rack

    # Commands --------------------------------------------------------------------------------
    def take_commands(self) -> tuple[DataNodeCommand, ...]:
        taken, self._commands = tuple(self._commands), []
        return taken

    def send(self, commands: Iterable[ReplicaCommand]) -> None:
        for command in commands:
            node = command.source if isinstance(command, ReplicateBlock) else command.node
            self._commands.append(DataNodeCommand(self._nodes[node], command))

    def delete(self, replicas: Collection[tuple[NodeId, BlockId]]) -> None:
        by_node: dict[NodeId, list[BlockId]] = {}
        for node, block in replicas:
            by_node.setdefault(node, []).append(block)
        self.send(DeleteReplicas(node=node, blocks=tuple(held)) for node, held in by_node.items())

    def forget(self, blocks: Iterable[BlockId]) -> None:
        """Remove blocks that no file has any more, and have their replicas deleted."""
        freed = list(blocks)
        self._moves.forget(freed)
        self.delete([(node, block) for block in freed for node in self._blocks.forget(block)])

    # DataNodes -------------------------------------------------------------------------------
    def register(self, message: RegisterDataNode, now_s: float) -> Done:
        self._check_rack(message.rack)
        for node in message.nodes:
            if self.check_node(node) != message.rack:
                raise PeerError(f"{node} is not in rack {message.rack}")
        self._lose(self._alive_in(message.rack))
        self.contact_s[message.rack] = now_s
        for node, held in message.nodes.items():
            unknown, doubtful = self._blocks.node_joined(node, held)
            self._doubt_again(node, now_s)
            for block in doubtful:
                self.doubt(block, node, now_s)
            self._delete_unknown(node, unknown)
        return Done()

    def heartbeat(self, message: DataNodeHeartbeat, now_s: float) -> None:
        """A DataNode is alive; nodes of its rack that it does not list are lost."""
        self._check_rack(message.rack)
        alive = self._alive_in(message.rack)
        if message.rack not in self.contact_s or not set(message.nodes) <= set(alive):
            self._commands.append(DataNodeCommand(message.rack, RegisterAgain()))
            return
        self.contact_s[message.rack] = now_s
        self._lose([node for node in alive if node not in message.nodes])

    def lose_silent(self, now_s: float) -> None:
        """Nodes are lost if their DataNode has been silent for longer than the expiry."""
        silent_since_s = now_s - self._expiry_s
        for rack in [r for r, contact_s in self.contact_s.items() if contact_s < silent_since_s]:
            del self.contact_s[rack]
            self._lose(self._alive_in(rack))

    def report(self, message: BlockReport, now_s: float) -> None:
        self.check_node(message.node)
        if not self._blocks.is_alive(message.node):
            return  # it will register again, with all its replicas
        unknown, doubtful = self._blocks.compare(message)
        for block in doubtful:
            self.doubt(block, message.node, now_s)
        self._delete_unknown(message.node, unknown)

    # Replicas --------------------------------------------------------------------------------
    def replicated(self, fact: BlockReplicated, now_s: float) -> None:
        """A copy has succeeded; one that had been given up may be lost with its node's disk."""
        was_under_way = self._replication.copied(fact.block, fact.target)
        known = self._blocks.blocks.get(fact.block)
        if known is None:
            self._delete_unknown(fact.target, [fact.block])
        elif self._blocks.is_alive(fact.target):
            if was_under_way:
                self._blocks.set_replica(fact.block, fact.target, "sound")
                self._moves.copied(fact.block, fact.target)
            elif known.state(fact.target) is None:
                self.doubt(fact.block, fact.target, now_s)

    def replication_failed(self, fact: ReplicationFailed, now_s: float) -> None:
        self._replication.failed(fact.block, fact.target, now_s, fact.reason)

    def deleted(self, fact: ReplicasDeleted, now_s: float) -> None:
        """Replicas were deleted; if one should exist, its DataNode is to verify that."""
        for block in fact.blocks:
            state = self._state(block, fact.node)
            if state == "leaving":
                self._blocks.drop_replica(block, fact.node)
            elif state == "sound":
                self.doubt(block, fact.node, now_s)

    def failed(self, fact: ReplicaFailed, now_s: float) -> None:
        """A reader found a replica bad; it may be mistaken, so the replica becomes suspect."""
        if self._state(fact.block, fact.node) == "sound":
            self.doubt(fact.block, fact.node, now_s)

    def verified(self, fact: ReplicaVerified, now_s: float) -> None:
        key = fact.block, fact.node
        changes, verdict = _VERDICTS[fact.found]
        state = self._state(*key)
        if state != "leaving" or key in self._verify_s:  # otherwise it is deleted for good
            if state in changes:
                self._blocks.set_replica(*key, verdict)
            if verdict == "sound" or state is None:
                self._verify_s.pop(key, None)
            else:
                self._verify_at(*key, now_s + VERIFY_AGAIN_S)
        state = self._state(*key)
        if state == "sound":
            self._moves.copied(*key)
        elif state in IN_DOUBT:
            self._moves.failed(*key, f"it is {fact.found} there")

    # Doubts ----------------------------------------------------------------------------------
    def doubt(self, block: BlockId, node: NodeId, now_s: float) -> None:
        self._blocks.set_replica(block, node, "suspect")
        self._verify_at(block, node, now_s)

    def decide(self, now_s: float) -> None:
        while self._heap and self._heap[0][0] <= now_s:
            when_s, block, node = heapq.heappop(self._heap)
            if self._verify_s.get((block, node)) != when_s:
                continue
            known = self._blocks.blocks.get(block)
            state = known.state(node) if known is not None else None
            if known is None or state == "sound" or (not state and self._blocks.is_alive(node)):
                del self._verify_s[block, node]
                continue
            if state in IN_DOUBT:
                length = known.stored_length
                self.send([VerifyReplica(block=block, stored_length=length, node=node)])
            self._verify_at(block, node, now_s + VERIFY_AGAIN_S)

    # Helpers ---------------------------------------------------------------------------------
    def _doubt_again(self, node: NodeId, now_s: float) -> None:
        """Replicas that were doubtful before the node was lost are doubtful again."""
        for key in [key for key in self._verify_s if key[1] == node]:
            if self._state(*key) is not None:
                self.doubt(*key, now_s)
            else:
                del self._verify_s[key]

    def _verify_at(self, block: BlockId, node: NodeId, when_s: float) -> None:
        self._verify_s[block, node] = when_s
        heapq.heappush(self._heap, (when_s, block, node))

    def _state(self, block: BlockId, node: NodeId) -> State | None:
        known = self._blocks.blocks.get(block)
        return None if known is None else known.state(node)

    def _delete_unknown(self, node: NodeId, blocks: Iterable[BlockId]) -> None:
        if self.deletes_unknown:
            self.delete([(node, block) for block in blocks])

    def _check_rack(self, rack: RackId) -> None:
        if rack not in self._nodes.values():
            raise PeerError(f"{rack!r} is not a rack of this cluster")

    def _alive_in(self, rack: RackId) -> list[NodeId]:
        return [node for node in self._blocks.load if self._nodes[node] == rack]

    def _lose(self, nodes: Iterable[NodeId]) -> None:
        for node in nodes:
            self._replication.node_lost(node)
            self._blocks.node_lost(node)
