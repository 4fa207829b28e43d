"""Keeps each block at its wanted number of replicas, moves blocks, and empties nodes.

It only decides; the DataNodes carry it out and report.  A failed copy is retried later, to another
node if possible; one whose node is lost is replaced at once.  A move that a scheduler wants is a
copy, after which the old replica is dropped; one that fails leaves all as it was.  A replica on a
node that is being drained does not count, may be a copy's source, and is deleted once there are
enough without it.

Never here: where a scheduler wants a block, and for how long a node is drained.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, rack_of
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages import (
    BlockId,
    DeleteReplicas,
    DrainingNodes,
    DrainNodes,
    MoveReplica,
    ReplicaMoved,
    ReplicateBlock,
    VerifyReplica,
)
from railyard.dfs.namenode.blockmap import Block, BlockMap
from railyard.dfs.placement import RackAware

#: Copies that a node may send at once; more would slow its other traffic down.
COPIES_A_SOURCE_MAX = 4
#: A copy without a report for so long has failed.
COPY_PATIENCE_S = 300.0
RETRY_S = 1.0
#: Blocks without a free source that are tried before ``decide`` stops for now.
_STUCK_MAX = 64

ReplicationCommand = ReplicateBlock | DeleteReplicas | VerifyReplica
#: Moves that wait for a free source and are tried after each message.
_TRIED_MAX = 64


@dataclass(frozen=True, slots=True)
class _Copy:
    source: NodeId
    deadline_s: float


class Replication:
    """Decides about copies and deletions, and tracks the copies under way."""

    def __init__(self, blocks: BlockMap, placement: RackAware, not_before_s: float) -> None:
        self._blocks = blocks
        self._placement = placement
        #: nothing is decided before: DataNodes are still registering
        self.not_before_s = not_before_s
        self._copies: dict[tuple[BlockId, NodeId], _Copy] = {}
        self._sending: Counter[NodeId] = Counter()
        #: heap of (time, block): blocks to look at again
        self._later: list[tuple[float, BlockId]] = []
        #: {block: nodes to which a copy has failed}, to be avoided
        self._failed: dict[BlockId, list[NodeId]] = {}
        #: called with each copy that failed: block, target and reason
        self.on_failed: Callable[[BlockId, NodeId, str], None] = lambda *_: None

    # What happened ---------------------------------------------------------------------------
    def copied(self, block: BlockId, target: NodeId) -> bool:
        """A copy has succeeded; returns whether such a copy was under way."""
        was_under_way = self._end(block, target)
        if was_under_way:
            self._failed.pop(block, None)
        return was_under_way

    def failed(self, block: BlockId, target: NodeId, now_s: float, reason: str) -> None:
        if self._end(block, target):
            self._give_up(block, target, reason)
            self._blocks.touched.pop(block, None)
            heapq.heappush(self._later, (now_s + RETRY_S, block))

    def node_lost(self, node: NodeId) -> None:
        """A node is lost, so copies from and to it have failed: others are made at once."""
        for (block, target), copy in list(self._copies.items()):
            if node in (target, copy.source):
                self._end(block, target)
                self._give_up(block, target, f"{node} is lost")
                self._blocks.touched[block] = None

    def copy_to(self, block: BlockId, target: NodeId, now_s: float) -> ReplicateBlock | None:
        """Begin one more copy of a complete block to a new node; None if sources are busy."""
        known = self._blocks.blocks[block]
        source = self._source(known, target)
        if source is None or now_s < self.not_before_s:
            return None
        return self._begin(block, known, source, target, now_s)

    # What to do ------------------------------------------------------------------------------
    def decide(self, now_s: float) -> list[ReplicationCommand]:
        touched = self._blocks.touched
        if not (touched or self._copies or self._later) or now_s < self.not_before_s:
            return []
        self._wake(now_s)
        if not touched:
            return []
        stuck: list[BlockId] = []
        commands: list[ReplicationCommand] = []
        while touched and len(stuck) < _STUCK_MAX:
            block = next(iter(touched))
            del touched[block]
            known = self._blocks.blocks.get(block)
            if known is None or not known.complete:
                continue
            more, waits = self._decide_block(block, known, now_s)
            touched.pop(block, None)  # changed only by the commands just made
            commands += more
            if waits:
                stuck.append(block)
        touched.update(dict.fromkeys(stuck))
        return commands

    def _decide_block(
        self, block: BlockId, known: Block, now_s: float
    ) -> tuple[list[ReplicationCommand], bool]:
        """Return commands for a block, and whether it waits for a free source."""
        sound, incoming = known.nodes("sound"), known.nodes("incoming")
        if not sound:
            return [], False  # no source; a damaged replica may be all that is left
        # A suspect replica counts as existing until its DataNode has verified it, which is soon.
        lacking = known.wanted - len(self._staying(known))
        if lacking > 0:
            copies, waits = self._copy(block, known, lacking, now_s)
            return self._delete_damaged(block, known) + copies, waits
        commands = self._delete_damaged(block, known)
        draining = self._blocks.draining
        staying = [node for node in sound if node not in draining] if draining else sound
        if len(sound) > known.wanted <= len(staying) and not incoming:
            leaving = [node for node in sound if node in draining]
            surplus = self._placement.surplus(staying, known.wanted, self._blocks.load)
            for node in [*leaving, *surplus]:
                self._blocks.set_replica(block, node, "leaving")
                commands.append(DeleteReplicas(node=node, blocks=(block,)))
        return commands, False

    def _delete_damaged(self, block: BlockId, known: Block) -> list[ReplicationCommand]:
        corrupt = known.nodes("corrupt")
        if not corrupt:
            return []
        # A node with a bad replica cannot get a new one of the same block.
        useless = (*corrupt, *known.nodes("leaving", "unreadable"))
        useless_nodes = {*useless, *self._blocks.draining.intersection(self._blocks.load)}
        possible = min(known.wanted, len(self._blocks.load) - len(useless_nodes))
        if not known.sound or len(known.sound) < possible:
            return []
        for node in corrupt:
            self._blocks.set_replica(block, node, "leaving")
        length = known.stored_length
        return [
            VerifyReplica(block=block, stored_length=length, node=node, delete=True)
            for node in corrupt
        ]

    def _copy(
        self, block: BlockId, known: Block, lacking: int, now_s: float
    ) -> tuple[list[ReplicationCommand], bool]:
        if not self._free_sources(known):
            return [], True  # checked first: choosing targets is expensive when many blocks wait
        shunned = {*known.nodes("corrupt", "unreadable", "leaving"), *self._failed.pop(block, ())}
        present = self._staying(known)
        shunned |= self._blocks.draining
        targets = self._placement.choose(
            (block, len(present)), lacking, self._blocks.load, {}, present, exclude=shunned
        )
        commands: list[ReplicationCommand] = []
        for target in targets:
            source = self._source(known, target)
            if source is None:
                return commands, True
            commands.append(self._begin(block, known, source, target, now_s))
        if len(targets) < lacking and shunned:
            heapq.heappush(self._later, (now_s + RETRY_S, block))
        return commands, False

    def _staying(self, known: Block) -> tuple[NodeId, ...]:
        """The nodes with a replica that counts, or will soon."""
        nodes = known.nodes("sound", "incoming", "suspect")
        draining = self._blocks.draining
        return tuple([node for node in nodes if node not in draining]) if draining else nodes

    def _begin(
        self, block: BlockId, known: Block, source: NodeId, target: NodeId, now_s: float
    ) -> ReplicateBlock:
        self._copies[block, target] = _Copy(source, now_s + COPY_PATIENCE_S)
        self._sending[source] += 1
        self._blocks.set_replica(block, target, "incoming")
        length = known.stored_length
        return ReplicateBlock(block=block, stored_length=length, source=source, target=target)

    def _source(self, known: Block, target: NodeId) -> NodeId | None:
        """The source with the fewest copies, then in the target's rack; None if all are busy."""
        rack = rack_of(target)
        key = {n: (self._sending[n], rack_of(n) != rack, n) for n in self._free_sources(known)}
        return min(key, key=key.__getitem__, default=None)

    def _free_sources(self, known: Block) -> list[NodeId]:
        return [n for n in known.nodes("sound") if self._sending[n] < COPIES_A_SOURCE_MAX]

    def _give_up(self, block: BlockId, target: NodeId, reason: str) -> None:
        self.on_failed(block, target, reason)
        self._blocks.drop_replica(block, target)
        self._failed.setdefault(block, []).append(target)

    def _end(self, block: BlockId, target: NodeId) -> bool:
        """Remove a copy that has ended; return False if no such copy was under way."""
        copy = self._copies.pop((block, target), None)
        if copy is not None:
            self._sending[copy.source] -= 1
        return copy is not None

    def _wake(self, now_s: float) -> None:
        if self._copies:
            overdue = [key for key, copy in self._copies.items() if copy.deadline_s <= now_s]
            for block, target in overdue:
                self.failed(block, target, now_s, f"not done after {COPY_PATIENCE_S:g} s")
        while self._later and self._later[0][0] <= now_s:
            _, block = heapq.heappop(self._later)
            if block in self._blocks.blocks:
                self._blocks.touched[block] = None
            else:
                self._failed.pop(block, None)


#: A move's request, and its answer.
EndedMove = tuple[MoveReplica, ReplicaMoved | Refusal]


class Moves:
    """The moves under way."""

    def __init__(self, blocks: BlockMap, replication: Replication, placement: RackAware) -> None:
        self._blocks = blocks
        self._replication = replication
        self._placement = placement
        #: {(block, target): the move's request, and the same sent again}
        self._moves: dict[tuple[BlockId, NodeId], list[MoveReplica]] = {}
        self._waiting: dict[tuple[BlockId, NodeId], None] = {}  #: those without a copy under way
        self._drops: list[DeleteReplicas] = []  #: commands that nobody has taken yet
        self._ended: list[EndedMove] = []  #: answers that nobody has taken yet
        replication.on_failed = self.failed

    def __bool__(self) -> bool:
        """Whether there is anything to take: a copy may begin, or a move has ended."""
        return bool(self._waiting or self._drops or self._ended)

    def begin(self, block: BlockId, request: MoveReplica) -> ReplicaMoved | None:
        """Begin to move a block, or raise ``PeerError``; the answer if there is nothing to copy."""
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
        self._moves.setdefault((block, target), []).append(request)
        if state is None:
            self._waiting[block, target] = None
        return None

    def decide(self, now_s: float) -> list[DeleteReplicas | ReplicateBlock]:
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
        requests = self._moves.pop((block, target), [])
        if requests:
            known = self._blocks.blocks[block]
            self._drop_old(block, known, requests[0])
            self._ended += [(each, ReplicaMoved(nodes=known.sound)) for each in requests]

    def failed(self, block: BlockId, target: NodeId, reason: str) -> None:
        self._waiting.pop((block, target), None)
        refusal = Refusal(reason=f"it could not be copied to {target}: {reason}")
        self._ended += [(each, refusal) for each in self._moves.pop((block, target), [])]

    def forget(self, blocks: Collection[BlockId]) -> None:
        if self._moves:
            removed = set(blocks)
            for block, target in [key for key in self._moves if key[0] in removed]:
                self.failed(block, target, "its file was removed")

    def take_ended(self) -> tuple[EndedMove, ...]:
        ended, self._ended = tuple(self._ended), []
        return ended

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


# Draining -----------------------------------------------------------------------------------------
def drain_nodes(blocks: BlockMap, nodes: Collection[NodeId], message: DrainNodes) -> DrainingNodes:
    """Empty these nodes; ``PeerError`` for one that can't be spared.  O(blocks)."""
    for node in message.nodes:
        if node not in nodes:
            raise PeerError(f"{node} is no node of this cluster")
    wanted = frozenset(message.nodes)
    if message.new is not None and message.new not in blocks.draining:
        _check_spared(blocks, message.new, wanted)
    ended, blocks.draining = blocks.draining - wanted, wanted
    _count_replicas(blocks, ended)  # they count again
    return DrainingNodes(replicas=_count_replicas(blocks, message.nodes))


def _check_spared(blocks: BlockMap, new: NodeId, draining: Collection[NodeId]) -> None:
    """Raise ``PeerError`` if the blocks could not have the replicas that they may have now."""
    rest = [node for node in blocks.load if node not in draining]
    racks = {rack_of(node) for node in rest}
    most = max((block.wanted for block in blocks.blocks.values()), default=0)
    if most > len(rest):
        others = f"{len(rest)} other node{'s' * (len(rest) != 1)}"
        raise PeerError(f"{new} can't be drained: blocks have {most} replicas, on {others}")
    if most > 1 and len(racks) == 1 and rack_of(new) not in racks:
        alone = f"it is the last node outside {racks.pop()}"
        raise PeerError(f"{new} can't be drained: {alone}, and replicas are in two racks")


def _count_replicas(blocks: BlockMap, nodes: Iterable[NodeId]) -> dict[NodeId, int]:
    """{node: its replicas}, each of which replication is to look at."""
    counts = dict.fromkeys(nodes, 0)
    for block, known in blocks.blocks.items() if counts else ():
        here = [node for node in known.holders if node in counts]
        for node in here:
            counts[node] += 1
        if here and known.complete:
            blocks.touched[block] = None
    return counts
