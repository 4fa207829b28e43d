"""What a NameNode needs in place of one that died: safe mode, and the answers that were given.

Safe mode, as in HDFS: reads are answered, while changes, copies and deletions wait until DataNodes
have reported a replica of enough of the blocks.

    it ends when  all nodes of the cluster have registered: what they have not is nowhere
    or when       the threshold is reached, and nodes that are alive have had time to register
    or when       those that did not register by then count as lost

The last is not HDFS's: there an operator ends a safe mode whose threshold is never reached.  One
that somebody asks for (``SetSafeMode``) ends when somebody asks for that.

Answers, as HDFS's retry cache: a request whose answer was lost, with its connection or with the
NameNode's process, is not carried out a second time, nor refused since it has been carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from railyard.cluster.errors import PeerUnable
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    CompleteFile,
    Concatenate,
    CreateFile,
    DrainNodes,
    FileCompleted,
    FileReopened,
    LocateBlocks,
    MakeFolder,
    MoveFiles,
    MoveReplica,
    OnceOnly,
    Remove,
    Removed,
    ReopenFile,
    SafeModeStatus,
    SetAttributes,
    SetReplication,
)
from railyard.dfs.namenode.blockmap import BlockMap
from railyard.dfs.namenode.journal import AnswerChange
from railyard.dfs.paths import LOCKED, SAFE_MODE

ANSWERS_MAX = 10_000

_Answer = Done | Removed | FileCompleted | FileReopened
_DECODER: msgspec.msgpack.Decoder[_Answer] = msgspec.msgpack.Decoder(_Answer)
_ENCODER = msgspec.msgpack.Encoder()

Request = TypeVar("Request", bound=OnceOnly)
#: After so many heartbeats a DataNode that runs has registered again.
EXTENSION_HEARTBEATS = 2
#: After so many times the expiry, nodes that have not registered count as lost.
LOST_EXPIRIES = 10


class Answers:
    """Kept answers.  ``wrap`` makes a handler answer from them."""

    def __init__(self, kept: Sequence[AnswerChange]) -> None:
        #: {token: (number, answer)}, the oldest first
        self._kept = {each.token: (each.number, each.answer) for each in kept}
        self._next = 1 + max([each.number for each in kept], default=0)
        self._token = ""  #: of the request that is being handled
        self._noted: list[AnswerChange] = []  #: by the journal, for that request

    def wrap(
        self, handler: Callable[[Request, float], Message]
    ) -> Callable[[Request, float], Message]:
        """A handler that carries a request out once, and answers it again from then on."""

        def handle(message: Request, now_s: float) -> Message:
            known = self._kept.get(message.token) if message.token else None
            if known is not None:
                assert known[1] is not None, "only what is removed has no answer"
                return _DECODER.decode(known[1])
            self._token = message.token
            try:
                answer = handler(message, now_s)
                for change in self._noted:  # not if it was refused: it may be sent again
                    if change.answer is None:
                        del self._kept[change.token]
                    else:
                        self._kept[change.token] = change.number, change.answer
                        self._next = 1 + change.number
                return answer
            finally:
                self._token, self._noted = "", []

        return handle

    def changes(self, answer: object) -> list[AnswerChange]:
        """What the journal is to note first; the oldest answer makes room for the new one."""
        token = self._token
        if not token:
            return []
        assert isinstance(answer, _Answer), "a change's result is the answer"
        self._noted = [AnswerChange(self._next, token, _ENCODER.encode(answer))]
        if len(self._kept) >= ANSWERS_MAX:
            oldest = next(iter(self._kept))
            self._noted.append(AnswerChange(self._kept[oldest][0], oldest, None))
        return self._noted


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
        return len(self._blocks.load) == self._nodes

    def may_end(self, now_s: float) -> bool:
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
