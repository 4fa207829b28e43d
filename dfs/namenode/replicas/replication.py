"""Keeps each block at its wanted number of replicas: copies missing ones, deletes surplus ones.

It only decides; the DataNodes carry it out and report.  A failed copy is retried later, to another
node if possible; one whose node is lost is replaced at once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import DeleteDamaged, DeleteReplicas, ReplicateBlock
from railyard.dfs.namenode.replicas.blockmap import Block, BlockMap
from railyard.dfs.placement.rule import RackAware

#: Copies that a node may send at once; more would slow its other traffic down.
COPIES_A_SOURCE_MAX = 4
#: A copy without a report for so long has failed.
COPY_PATIENCE_S = 300.0
RETRY_S = 1.0
#: Blocks without a free source that are tried before ``decide`` stops for now.
_STUCK_MAX = 64

ReplicationCommand = ReplicateBlock | DeleteReplicas | DeleteDamaged


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
        if not self._end(block, target):
            return False
        self._failed.pop(block, None)
        return True

    def failed(self, block: BlockId, target: NodeId, now_s: float, reason: str) -> None:
        """A copy has failed."""
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
        """Begin one more copy of a complete block, to a node without one.

        None if all nodes with a replica send as many copies as they may.
        """
        known = self._blocks.blocks[block]
        source = self._source(known, target)
        if source is None or now_s < self.not_before_s:
            return None
        return self._begin(block, known, source, target, now_s)

    # What to do ------------------------------------------------------------------------------
    def decide(self, now_s: float) -> list[ReplicationCommand]:
        """Return commands for the blocks that changed or are due again."""
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
        """Return commands to delete damaged replicas, once no more sound ones can be made."""
        corrupt = known.nodes("corrupt")
        if not corrupt:
            return []
        # A node with a bad replica cannot get a new one of the same block.
        useless = (*corrupt, *known.nodes("leaving", "unreadable"))
        useless_nodes = {*useless, *self._blocks.draining.intersection(self._blocks.load)}
        possible = min(known.wanted, len(self._blocks.load) - len(useless_nodes))
        if not known.sound or len(known.sound) < possible:
            return []
        commands: list[ReplicationCommand] = []
        for node in corrupt:
            self._blocks.set_replica(block, node, "leaving")
            command = DeleteDamaged(block=block, stored_length=known.stored_length, node=node)
            commands.append(command)
        return commands

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
