"""Moves of blocks that a scheduler wants elsewhere: copied first, then the old replica is dropped.

The copy is one of ``replication``.  A move that fails leaves all replicas where they were.  The old
replica stays as well if the block would have too few without it, since a node was lost meanwhile.

Never here: where a block should go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import DeleteReplicas, ReplicateBlock
from railyard.dfs.messages.files import MoveReplica, ReplicaMoved
from railyard.dfs.namenode.replicas.blockmap import Block, BlockMap
from railyard.dfs.namenode.replicas.replication import Replication
from railyard.dfs.placement.rule import RackAware

#: A move's request, and its answer.
EndedMove = tuple[MoveReplica, ReplicaMoved | Refusal]
#: Moves that wait for a free source and are tried after each message.
_TRIED_MAX = 64


@dataclass(slots=True)
class _Move:
    requests: list[MoveReplica] = field(default_factory=list)  #: one, or the same sent again


class Moves:
    """The moves under way."""

    def __init__(
        self,
        blocks: BlockMap,
        replication: Replication,
        placement: RackAware,
    ) -> None:
        self._blocks = blocks
        self._replication = replication
        self._placement = placement
        self._moves: dict[tuple[BlockId, NodeId], _Move] = {}  #: by block and target
        self._waiting: dict[tuple[BlockId, NodeId], None] = {}  #: those without a copy under way
        self._drops: list[DeleteReplicas] = []  #: commands that nobody has taken yet
        self._ended: list[EndedMove] = []  #: answers that nobody has taken yet
        replication.on_failed = self.failed

    def __bool__(self) -> bool:
        """Whether there is anything to take: a copy may begin, or a move has ended."""
        return bool(self._waiting or self._drops or self._ended)

    def begin(self, block: BlockId, request: MoveReplica) -> ReplicaMoved | None:
        """Begin to move a block; returns the answer if there is nothing to copy.

        Raises ``PeerError`` if it can't be moved.
        """
        target, known = request.target, self._blocks.blocks[block]
        where = f"{request.path}: block {request.number}"
        if not self._blocks.is_alive(target):
            raise PeerError(f"{where}: {target} is lost")
        if target in self._blocks.draining:
            raise PeerError(f"{where}: {target} is drained")
        if not known.sound:
            raise PeerError(f"{where}: has no sound replica")
        state = known.state(target)
        if state == "sound":
            self._drop_old(block, known, request)
            return ReplicaMoved(nodes=known.sound)
        if state not in (None, "incoming"):
            raise PeerError(f"{where}: its replica on {target} is {state}")
        move = self._moves.setdefault((block, target), _Move())
        move.requests.append(request)
        if state is None:
            self._waiting[block, target] = None
        return None

    def decide(self, now_s: float) -> list[DeleteReplicas | ReplicateBlock]:
        """Return the commands for replicas to drop, and for copies that can begin."""
        commands: list[DeleteReplicas | ReplicateBlock] = [*self._drops]
        self._drops.clear()
        for block, target in list(self._waiting)[:_TRIED_MAX]:
            known = self._blocks.blocks[block]
            if known.state(target) is not None:  # replication has chosen the same node meanwhile
                del self._waiting[block, target]
            elif not self._blocks.is_alive(target) or not known.sound:
                self.failed(block, target, "a node is lost")
            elif (command := self._replication.copy_to(block, target, now_s)) is not None:
                del self._waiting[block, target]
                commands.append(command)
        return commands

    def copied(self, block: BlockId, target: NodeId) -> None:
        """A copy has succeeded; if it was for a move, the old replica is dropped."""
        move = self._moves.pop((block, target), None)
        if move is None:
            return
        known = self._blocks.blocks[block]
        self._drop_old(block, known, move.requests[0])
        self._end(move, ReplicaMoved(nodes=known.sound))

    def failed(self, block: BlockId, target: NodeId, reason: str) -> None:
        """A copy has failed, perhaps one of a move."""
        self._waiting.pop((block, target), None)
        move = self._moves.pop((block, target), None)
        if move is not None:
            self._end(move, Refusal(reason=f"it could not be copied to {target}: {reason}"))

    def forget(self, blocks: Collection[BlockId]) -> None:
        """These blocks are of no file any more."""
        if self._moves:
            gone = set(blocks)
            for block, target in [key for key in self._moves if key[0] in gone]:
                self.failed(block, target, "its file was removed")

    def take_ended(self) -> tuple[EndedMove, ...]:
        """The answers of moves that have ended since."""
        ended, self._ended = tuple(self._ended), []
        return ended

    # ---------------------------------------------------------------------------------------------
    def _drop_old(self, block: BlockId, known: Block, request: MoveReplica) -> None:
        """Delete the old replica, or as many as there are too many of, but not the new one."""
        if len(known.sound) <= known.wanted:
            return
        source, others = request.source, [n for n in known.sound if n != request.target]
        named = [source] if source is not None and source in others else []
        rest = [node for node in others if node not in named]
        surplus = self._placement.surplus(rest, known.wanted - 1, self._blocks.load)
        for node in [*named, *surplus][: len(known.sound) - known.wanted]:
            self._blocks.set_replica(block, node, "leaving")
            self._drops.append(DeleteReplicas(node=node, blocks=(block,)))

    def _end(self, move: _Move, answer: ReplicaMoved | Refusal) -> None:
        self._ended += [(request, answer) for request in move.requests]
