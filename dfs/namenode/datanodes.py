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

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Command, Done
from railyard.dfs.messages import (
    BlockId,
    BlockReplicated,
    BlockReport,
    DataNodeHeartbeat,
    DeleteDamaged,
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


#: A replica that is still doubtful is verified again after this time.
LOOK_AGAIN_S = 30.0

#: {finding: (the states that it changes, the new state)}
_VERDICTS: dict[Finding, tuple[tuple[State, ...], State]] = {
    "sound": (("suspect", "unreadable", "corrupt", "leaving"), "sound"),
    "damaged": (("sound", "suspect", "unreadable"), "corrupt"),
    "unreadable": (("sound", "suspect", "corrupt", "leaving"), "unreadable"),
}


class Doubts:
    """Changes the states of doubtful replicas in the block map, and has them verified."""

    def __init__(self, blocks: BlockMap) -> None:
        self._blocks = blocks
        #: {(block, node): time when it is verified next}; kept while the node is lost
        self._looks_s: dict[tuple[BlockId, NodeId], float] = {}
        #: the same as a heap by time; stale entries are skipped
        self._heap: list[tuple[float, BlockId, NodeId]] = []

    def __bool__(self) -> bool:
        """Whether any replica is doubtful."""
        return bool(self._looks_s)

    # What happened ---------------------------------------------------------------------------
    def doubt(self, block: BlockId, node: NodeId, now_s: float) -> None:
        """Make a replica suspect, on a node that is alive, and have it verified."""
        self._blocks.set_replica(block, node, "suspect")
        self._look_at(block, node, now_s)

    def verified(self, fact: ReplicaVerified, now_s: float) -> None:
        """Apply the finding of a replica's DataNode."""
        key = fact.block, fact.node
        known = self._blocks.blocks.get(fact.block)
        changes, verdict = _VERDICTS[fact.found]
        state = known.state(fact.node) if known is not None else None
        if state == "leaving" and key not in self._looks_s:
            return  # it is being deleted for another reason
        if state in changes:
            self._blocks.set_replica(fact.block, fact.node, verdict)
        if verdict == "sound" or state is None:
            self._looks_s.pop(key, None)
        else:
            self._look_at(*key, now_s + LOOK_AGAIN_S)

    def node_joined(self, node: NodeId, now_s: float) -> None:
        """Replicas that were doubtful before the node was lost are doubtful again."""
        for block, at in [key for key in self._looks_s if key[1] == node]:
            known = self._blocks.blocks.get(block)
            if known is not None and known.state(at) is not None:
                self.doubt(block, at, now_s)
            else:
                del self._looks_s[block, at]

    # What to do ------------------------------------------------------------------------------
    def decide(self, now_s: float) -> list[VerifyReplica]:
        """Return the commands to verify replicas that are due."""
        looks: list[VerifyReplica] = []
        while self._heap and self._heap[0][0] <= now_s:
            when_s, block, node = heapq.heappop(self._heap)
            if self._looks_s.get((block, node)) != when_s:
                continue
            known = self._blocks.blocks.get(block)
            state = known.state(node) if known is not None else None
            if known is None or state == "sound" or (not state and self._blocks.is_alive(node)):
                del self._looks_s[block, node]
                continue
            if state in IN_DOUBT:
                length = known.stored_length
                looks.append(VerifyReplica(block=block, stored_length=length, node=node))
            self._look_at(block, node, now_s + LOOK_AGAIN_S)
        return looks

    def _look_at(self, block: BlockId, node: NodeId, when_s: float) -> None:
        self._looks_s[block, node] = when_s
        heapq.heappush(self._heap, (when_s, block, node))


class DataNodes:
    """Keeps the block map up to date; each method handles one class of message."""

    def __init__(
        self,
        nodes: Mapping[NodeId, RackId],
        expiry_s: float,
        blocks: BlockMap,
        replication: Replication,
        doubts: Doubts,
        commands: CommandQueue,
        moves: Moves,
    ) -> None:
        self._nodes = nodes  #: {node of the topology: its rack}
        self._expiry_s = expiry_s
        self._blocks = blocks
        self._replication = replication
        self._doubts = doubts
        self._commands = commands
        self._moves = moves
        #: whether replicas of blocks that no file has are deleted now, or once they are reported
        #: again
        self.deletes_unknown = True
        #: {rack: time of its DataNode's last heartbeat or registration}
        self.heard_s: dict[RackId, float] = {}

    def check_node(self, node: NodeId) -> RackId:
        """Return the rack of a node; raises ``PeerError`` if the topology has no such node."""
        rack = self._nodes.get(node)
        if rack is None:
            raise PeerError(f"{node!r} is not a node of this cluster")
        return rack

    # DataNodes -------------------------------------------------------------------------------
    def register(self, message: RegisterDataNode, now_s: float) -> Done:
        """A DataNode has started; it lists all replicas of its nodes."""
        self._check_rack(message.rack)
        for node in message.nodes:
            if self.check_node(node) != message.rack:
                raise PeerError(f"{node} is not in rack {message.rack}")
        self._lose(self._alive_in(message.rack))
        self.heard_s[message.rack] = now_s
        for node, held in message.nodes.items():
            unknown, doubtful = self._blocks.node_joined(node, held)
            self._doubts.node_joined(node, now_s)
            for block in doubtful:
                self._doubts.doubt(block, node, now_s)
            self._delete_unknown(node, unknown)
        return Done()

    def heartbeat(self, message: DataNodeHeartbeat, now_s: float) -> None:
        """A DataNode is alive; nodes of its rack that it does not list are lost."""
        self._check_rack(message.rack)
        alive = self._alive_in(message.rack)
        if message.rack not in self.heard_s or not set(message.nodes) <= set(alive):
            self._commands.add(message.rack, RegisterAgain())
            return
        self.heard_s[message.rack] = now_s
        self._lose([node for node in alive if node not in message.nodes])

    def lose_silent(self, now_s: float) -> None:
        """Nodes are lost if their DataNode has been silent for longer than the expiry."""
        silent_since_s = now_s - self._expiry_s
        for rack in [r for r, heard_s in self.heard_s.items() if heard_s < silent_since_s]:
            del self.heard_s[rack]
            self._lose(self._alive_in(rack))

    def report(self, message: BlockReport, now_s: float) -> None:
        """Compare a block report with the block map, and have differing replicas verified."""
        self.check_node(message.node)
        if not self._blocks.is_alive(message.node):
            return  # it will register again, with all its replicas
        unknown, doubtful = self._blocks.compare(
            message.node, message.first, message.last, message.held
        )
        for block in doubtful:
            self._doubts.doubt(block, message.node, now_s)
        self._delete_unknown(message.node, unknown)

    # Replicas --------------------------------------------------------------------------------
    def replicated(self, fact: BlockReplicated, now_s: float) -> None:
        """A copy has succeeded.

        One that had been given up, as a node was lost meanwhile, may be gone with that node's disk.
        """
        was_under_way = self._replication.copied(fact.block, fact.target)
        known = self._blocks.blocks.get(fact.block)
        if known is None:
            self._delete_unknown(fact.target, [fact.block])
        elif self._blocks.is_alive(fact.target):
            if was_under_way:
                self._blocks.set_replica(fact.block, fact.target, "sound")
                self._moves.copied(fact.block, fact.target)
            elif known.state(fact.target) is None:
                self._doubts.doubt(fact.block, fact.target, now_s)

    def replication_failed(self, fact: ReplicationFailed, now_s: float) -> None:
        """A copy has failed."""
        self._replication.failed(fact.block, fact.target, now_s, fact.reason)

    def deleted(self, fact: ReplicasDeleted, now_s: float) -> None:
        """Replicas were deleted; if one should exist, its DataNode is to verify that."""
        for block in fact.blocks:
            known = self._blocks.blocks.get(block)
            state = known.state(fact.node) if known is not None else None
            if state == "leaving":
                self._blocks.drop_replica(block, fact.node)
            elif state == "sound":
                self._doubts.doubt(block, fact.node, now_s)

    def failed(self, fact: ReplicaFailed, now_s: float) -> None:
        """A reader found a replica bad; it may be mistaken, so the replica becomes suspect."""
        known = self._blocks.blocks.get(fact.block)
        if known is not None and known.state(fact.node) == "sound":
            self._doubts.doubt(fact.block, fact.node, now_s)

    def verified(self, fact: ReplicaVerified, now_s: float) -> None:
        """A DataNode has verified one of its replicas."""
        self._doubts.verified(fact, now_s)
        known = self._blocks.blocks.get(fact.block)
        if known is None:
            return
        if fact.node in known.sound:
            self._moves.copied(fact.block, fact.node)
        elif known.state(fact.node) in IN_DOUBT:
            self._moves.failed(fact.block, fact.node, f"it is {fact.found} there")

    # Helpers ---------------------------------------------------------------------------------
    def _delete_unknown(self, node: NodeId, blocks: Iterable[BlockId]) -> None:
        if self.deletes_unknown:
            self._commands.delete([(node, block) for block in blocks])

    def _check_rack(self, rack: RackId) -> None:
        if rack not in self._nodes.values():
            raise PeerError(f"{rack!r} is not a rack of this cluster")

    def _alive_in(self, rack: RackId) -> list[NodeId]:
        return [node for node in self._blocks.load if self._nodes[node] == rack]

    def _lose(self, nodes: Iterable[NodeId]) -> None:
        for node in nodes:
            self._replication.node_lost(node)
            self._blocks.node_lost(node)
