"""Keeps the number of replicas right: copies where there are too few, deletes where too many.

Decides only; the DataNodes do it and report.  A copy that fails is tried again after a while,
somewhere else if that is possible.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs.messages import BlockId, DeleteDamaged, DeleteReplicas, ReplicateBlock
from railyard.dfs.namenode.blockmap import Block, BlockMap
from railyard.dfs.placement.rule import RackAware

#: How many copies a node may send at once: enough to be quick, few enough for others to get on.
COPIES_A_SOURCE_MAX = 4
#: A copy of which nothing was heard for so long has failed.
COPY_PATIENCE_S = 300.0
RETRY_S = 1.0
#: How many blocks without a free source are looked at before the search is given up for now.
_STUCK_MAX = 64

Decision = ReplicateBlock | DeleteReplicas | DeleteDamaged


@dataclass(frozen=True, slots=True)
class _Copy:
    source: NodeId
    deadline_s: float


class Replication:
    """The copies under way, and the decisions about new ones."""

    def __init__(self, blocks: BlockMap, placement: RackAware, not_before_s: float) -> None:
        self._blocks = blocks
        self._placement = placement
        #: until then DataNodes are still reporting what they have, and nothing is decided
        self._not_before_s = not_before_s
        self._copies: dict[tuple[BlockId, NodeId], _Copy] = {}
        self._sending: Counter[NodeId] = Counter()
        #: blocks to look at again: (when, block)
        self._later: list[tuple[float, BlockId]] = []
        #: {block: nodes that a copy to has failed}, until the next try
        self._failed: dict[BlockId, list[NodeId]] = {}

    # What happened ---------------------------------------------------------------------------
    def copied(self, block: BlockId, target: NodeId) -> None:
        """A copy has arrived."""
        self._end(block, target)
        self._failed.pop(block, None)

    def failed(self, block: BlockId, target: NodeId, now_s: float) -> None:
        """A copy has failed."""
        if self._end(block, target):
            self._blocks.drop_replica(block, target)
            self._blocks.touched.pop(block, None)
            self._failed.setdefault(block, []).append(target)
            heapq.heappush(self._later, (now_s + RETRY_S, block))

    def node_lost(self, node: NodeId, now_s: float) -> None:
        """Copies from and to the node have failed."""
        for (block, target), copy in list(self._copies.items()):
            if node in (target, copy.source):
                self.failed(block, target, now_s)

    # What to do ------------------------------------------------------------------------------
    def decide(self, now_s: float) -> list[Decision]:
        """Orders for the blocks that changed or whose time has come."""
        touched = self._blocks.touched
        if not (touched or self._copies or self._later) or now_s < self._not_before_s:
            return []
        self._wake(now_s)
        if not touched:
            return []
        stuck: list[BlockId] = []
        commands: list[Decision] = []
        while touched and len(stuck) < _STUCK_MAX:
            block = next(iter(touched))
            del touched[block]
            known = self._blocks.blocks.get(block)
            if known is None or not known.complete:
                continue
            more, waits = self._decide_block(block, known, now_s)
            touched.pop(block, None)  # what was just ordered is no news
            commands += more
            if waits:
                stuck.append(block)
        touched.update(dict.fromkeys(stuck))
        return commands

    def _decide_block(
        self, block: BlockId, known: Block, now_s: float
    ) -> tuple[list[Decision], bool]:
        """Orders for a block, and whether it waits for a source to become free."""
        sound, incoming = known.nodes("sound"), known.nodes("incoming")
        if not sound:
            return [], False  # nothing to copy from; a damaged replica may be all that is left
        # One that is suspect is there until its DataNode says otherwise, which is soon.
        lacking = known.wanted - len(sound) - len(incoming) - len(known.nodes("suspect"))
        if lacking > 0:
            copies, waits = self._copy(block, known, lacking, now_s)
            return self._delete_damaged(block, known) + copies, waits
        commands = self._delete_damaged(block, known)
        if len(sound) > known.wanted and not incoming:
            for node in self._placement.surplus(sound, known.wanted, self._blocks.load):
                self._blocks.set_replica(block, node, "leaving")
                commands.append(DeleteReplicas(node=node, blocks=(block,)))
        return commands, False

    def _delete_damaged(self, block: BlockId, known: Block) -> list[Decision]:
        """Orders to delete damaged replicas, once there are as many sound ones as can be."""
        corrupt = known.nodes("corrupt")
        if not corrupt:
            return []
        # A node with a replica that is of no use has no place for another.
        useless = (*corrupt, *known.nodes("leaving", "unreadable"))
        possible = min(known.wanted, len(self._blocks.load) - len(useless))
        if not known.sound or len(known.sound) < possible:
            return []
        commands: list[Decision] = []
        for node in corrupt:
            self._blocks.set_replica(block, node, "leaving")
            command = DeleteDamaged(block=block, stored_length=known.stored_length, node=node)
            commands.append(command)
        return commands

    def _copy(
        self, block: BlockId, known: Block, lacking: int, now_s: float
    ) -> tuple[list[Decision], bool]:
        if not self._free_sources(known):
            return [], True  # before targets are chosen, which costs the more the more wait
        shunned = {*known.nodes("corrupt", "unreadable", "leaving"), *self._failed.pop(block, ())}
        present = known.nodes("sound", "incoming", "suspect")
        targets = self._placement.choose(
            (block, len(present)), lacking, self._blocks.load, {}, present, exclude=shunned
        )
        commands: list[Decision] = []
        for target in targets:
            source = self._source(known, target)
            if source is None:
                return commands, True
            self._copies[block, target] = _Copy(source, now_s + COPY_PATIENCE_S)
            self._sending[source] += 1
            self._blocks.set_replica(block, target, "incoming")
            length = known.stored_length
            commands.append(
                ReplicateBlock(block=block, stored_length=length, source=source, target=target)
            )
        if len(targets) < lacking and shunned:
            heapq.heappush(self._later, (now_s + RETRY_S, block))
        return commands, False

    def _source(self, known: Block, target: NodeId) -> NodeId | None:
        """The least busy node that has it, in the target's rack if possible; None: all are busy."""
        rack = rack_of(target)
        key = {n: (self._sending[n], rack_of(n) != rack, n) for n in self._free_sources(known)}
        return min(key, key=key.__getitem__, default=None)

    def _free_sources(self, known: Block) -> list[NodeId]:
        return [n for n in known.nodes("sound") if self._sending[n] < COPIES_A_SOURCE_MAX]

    def _end(self, block: BlockId, target: NodeId) -> bool:
        """Note the end of a copy; False if it is not one that is under way."""
        copy = self._copies.pop((block, target), None)
        if copy is not None:
            self._sending[copy.source] -= 1
        return copy is not None

    def _wake(self, now_s: float) -> None:
        if self._copies:
            overdue = [key for key, copy in self._copies.items() if copy.deadline_s <= now_s]
            for block, target in overdue:
                self.failed(block, target, now_s)
        while self._later and self._later[0][0] <= now_s:
            _, block = heapq.heappop(self._later)
            if block in self._blocks.blocks:
                self._blocks.touched[block] = None
            else:
                self._failed.pop(block, None)
