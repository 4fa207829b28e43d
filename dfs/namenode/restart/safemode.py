"""Safe mode: a NameNode that has started again changes nothing until it knows where the blocks are.

As in HDFS: reads are answered, while changes, copies and deletions wait until DataNodes have
reported a replica of enough of the blocks.

    it ends when  all nodes of the cluster have registered: what they have not is nowhere
    or when       the threshold is reached, and nodes that are alive have had time to register
    or when       those that did not register by then count as lost

The last is not HDFS's: there an operator ends a safe mode whose threshold is never reached.  One
that somebody asks for (``SetSafeMode``) ends when somebody asks for that.
"""

from __future__ import annotations

import math

from railyard.cluster.errors import PeerUnable
from railyard.cluster.messaging.wire import Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages.changes import (
    Concatenate,
    ReopenFile,
    SetAttributes,
    SetReplication,
)
from railyard.dfs.messages.draining import DrainNodes
from railyard.dfs.messages.files import (
    AbandonFile,
    AddBlock,
    CompleteFile,
    CreateFile,
    LocateBlocks,
    MakeFolder,
    MoveFiles,
    MoveReplica,
    Remove,
    SafeModeStatus,
)
from railyard.dfs.namenode.replicas.blockmap import BlockMap
from railyard.dfs.paths import LOCKED, SAFE_MODE

#: {change: what HDFS says that it can't do in safe mode}
REFUSED: dict[type[Message], str] = {
    MakeFolder: "Cannot create directory",
    Remove: "Cannot delete",
    MoveFiles: "Cannot rename",
    MoveReplica: "Cannot move a block of",
    SetAttributes: "Cannot set attributes of",
    SetReplication: "Cannot set replication for",
    Concatenate: "Cannot concat",
    CreateFile: "Cannot create file",
    ReopenFile: "Cannot append to file",
    AddBlock: "Cannot add block to",
    CompleteFile: "Cannot complete file",
    AbandonFile: "Cannot abandon",
    DrainNodes: "Cannot drain nodes",
    LocateBlocks: "Zero blocklocations for",  # only of a block that nobody has reported yet
}


#: After so many heartbeats a DataNode that runs has registered again.
EXTENSION_HEARTBEATS = 2
#: After so many times the expiry, nodes that have not registered count as lost.
LOST_EXPIRIES = 10


class NotYet(PeerUnable):
    """A request that has to wait until more DataNodes have registered."""


class SafeMode:
    """Whether a NameNode may change anything; it is ``on`` from a restart."""

    def __init__(self, blocks: BlockMap, topology: Topology, now_s: float, on: bool) -> None:
        liveness = topology.liveness
        self.on = on
        self.by_hand = False  #: somebody has asked for it
        #: DataNodes that have not registered yet may be about to until then
        self.expects_until_s = now_s + liveness.expiry_s if on else now_s
        self._blocks = blocks
        self._nodes = len(topology.nodes())
        self._threshold = topology.storage.safe_mode_threshold
        self._extended_until_s = now_s + EXTENSION_HEARTBEATS * liveness.heartbeat
        self._lost_at_s = now_s + LOST_EXPIRIES * liveness.expiry_s

    @property
    def all_registered(self) -> bool:
        """Whether all nodes of the cluster are there."""
        return len(self._blocks.load) == self._nodes

    def may_end(self, now_s: float) -> bool:
        """Whether it may end now."""
        if self.by_hand:
            return False
        if self.all_registered or now_s >= self._lost_at_s:
            return True
        if now_s < self._extended_until_s:
            return False
        status = self.status()
        return status.reported >= status.needed

    def status(self) -> SafeModeStatus:
        """Complete blocks, those with a replica, and how many need one.  O(blocks)."""
        complete = [block for block in self._blocks.blocks.values() if block.complete]
        return SafeModeStatus(
            on=self.on,
            by_hand=self.by_hand,
            reported=sum([bool(block.sound or block.others) for block in complete]),
            needed=math.ceil(self._threshold * len(complete)),
            blocks=len(complete),
        )

    def refusal(self, message: Message, path: str) -> PeerUnable:
        """What a request about ``path`` is told, in HDFS's words."""
        status = self.status()
        cannot = f"{REFUSED[type(message)]} {path}".rstrip()
        if self.by_hand:
            how = 'Use "hdfs dfsadmin -safemode leave" to turn safe mode off.'
            why = f"Name node is in safe mode. It was turned on manually. {how}"
            return PeerUnable(f"{cannot}. {why}", LOCKED)
        lacking = max(0, status.needed - status.reported)
        return NotYet(
            f"{cannot}. Name node is in safe mode. The reported blocks {status.reported} needs "
            f"additional {lacking} blocks to reach the threshold {self._threshold:.4f} of total "
            f"blocks {status.blocks}. Safe mode will be turned off automatically once the "
            "thresholds have been reached.",
            SAFE_MODE,
        )
