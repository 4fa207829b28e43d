"""Doubtful replicas, and when their DataNodes are asked to verify them.

A replica is doubtful once a reader has reported it as bad, or a block report differs from the block
map.  Only the replica's own DataNode settles that, by verifying the whole replica.  If it is not
found sound it is verified again later, since the cause may pass: a disk that was away, a lack of
file descriptors, a file that somebody put back.

Never here: deleting and copying, which ``replication`` decides.
"""

from __future__ import annotations

import heapq

from railyard.cluster.ids import NodeId
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.datanodes import Finding, ReplicaVerified, VerifyReplica
from railyard.dfs.namenode.replicas.blockmap import IN_DOUBT, BlockMap, State

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
