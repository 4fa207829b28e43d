"""Messages between clients, the NameNode and the DataNodes.

Bulk bytes travel as ``netemu.transfer`` says; these messages open and end such transfers.
All ``stored_`` figures are real bytes.  A node of "" is a client outside of the cluster.

    client ──namespace, locations──► NameNode ◄──facts── DataNode
    client ──WriteBlock, ReadBlock──► DataNode ◄─commands─ NameNode
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NewType

import msgspec

from railyard.cluster.bounded import (
    ENTRIES,
    FEW,
    OF_TASKS,
    Count,
    Name,
    NodeId,
    Number,
    Path,
    Pid,
    RackId,
    ReplicaRacks,
    Replicas,
    StoredBytes,
    Text,
)
from railyard.cluster.messaging.wire import (
    ANSWER_BYTES_MAX,
    LONG_BYTES_MAX,
    Command,
    Event,
    Message,
)

#: Never used twice, not even by a NameNode that was started again.
BlockId = NewType("BlockId", int)
_Block = Annotated[BlockId, msgspec.Meta(ge=0, le=2**63 - 1)]
_Nodes = Annotated[tuple[NodeId, ...], FEW]


# Files and folders -------------------------------------------------------------------------------
class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder, as listings show it."""

    path: Path
    folder: bool = False
    stored_length: StoredBytes = 0
    blocks: Count = 0
    replication: Replicas = 0  #: how many replicas its blocks should have; 0 for a folder


class PlacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a scheduler would like a file's replicas: followed as far as those nodes are alive."""

    first: _Nodes = ()  #: nodes for the first replica, best first
    #: for the first replica, the second, ...: racks for it; empty or missing = the store's own rule
    racks: ReplicaRacks = ()


class GetStatus(Message, frozen=True, kw_only=True):
    """What is at ``path``?  Answered with ``Status``."""

    path: Path


class Status(Message, frozen=True, kw_only=True):
    """``status`` is None if nothing is there."""

    status: FileStatus | None


class ListFolder(Message, frozen=True, kw_only=True):
    """What is in a folder (or the file itself)?  Answered with ``Listing``."""

    path: Path


class Listing(Message, frozen=True, kw_only=True):
    """Sorted by name."""

    wire_bytes_max: ClassVar[int] = ANSWER_BYTES_MAX

    entries: Annotated[tuple[FileStatus, ...], ENTRIES]


class MakeFolder(Message, frozen=True, kw_only=True):
    """Make a folder and those above it; fine if it is there.  Answered with ``Done``."""

    path: Path


class Remove(Message, frozen=True, kw_only=True):
    """Remove a file or folder.  Answered with ``Removed``; refused if nothing is there."""

    path: Path
    recursive: bool = False  #: a folder that is not empty too


class Removed(Message, frozen=True, kw_only=True):
    """How much went."""

    files: Count
    folders: Count


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that gets a new path."""

    source: Path
    target: Path


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """The files in some folders, all of which go into one folder and keep their names."""

    source: Path  #: the folder that has those folders
    folders: Annotated[tuple[Name, ...], OF_TASKS]  #: their names in there
    target: Path  #: the folder for the files


class MoveFiles(Message, frozen=True, kw_only=True):
    """Rename many at once: all of it happens, or nothing.  Answered with ``Done``.

    In this order: the moves; then files are gathered; then ``markers`` are made (empty files, such
    as a job's _SUCCESS); then ``remove`` is removed with all in it (what of it is not there is no
    error).  Folders above a target are made.  What exists where something is to be put is refused,
    but for ``overwrite``, which replaces a file.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    moves: Annotated[tuple[Move, ...], ENTRIES] = ()
    gathers: Annotated[tuple[Gather, ...], FEW] = ()
    markers: Annotated[tuple[Path, ...], ENTRIES] = ()
    remove: Annotated[tuple[Path, ...], ENTRIES] = ()
    overwrite: bool = False


class GetUsage(Message, frozen=True, kw_only=True):
    """How much is below ``path``?  Answered with ``Usage``."""

    path: Path


class Usage(Message, frozen=True, kw_only=True):
    """What a file or folder holds."""

    files: Count
    folders: Count
    blocks: Count
    stored_bytes: StoredBytes  #: of the files, each counted once
    stored_disk_bytes: StoredBytes  #: of all their replicas that there are


class LocateBlocks(Message, frozen=True, kw_only=True):
    """Where are the blocks of this file, or of each file in this folder?

    Answered with ``BlocksLocated``; refused if nothing is there.  Files in folders of the folder
    do not count.
    """

    path: Path


class BlockLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a file and the nodes that have a sound replica of it, as far as is known."""

    block: _Block
    stored_offset: StoredBytes  #: of its first byte in the file
    stored_length: StoredBytes
    nodes: _Nodes
    #: nodes whose replica is in doubt: to be tried after all others, the most hopeful first
    doubtful: _Nodes = ()


class FileBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """A file's blocks, in order."""

    path: Path
    stored_length: StoredBytes
    blocks: Annotated[tuple[BlockLocation, ...], ENTRIES]


class BlocksLocated(Message, frozen=True, kw_only=True):
    """Sorted by path; one file unless a folder was asked for."""

    wire_bytes_max: ClassVar[int] = ANSWER_BYTES_MAX

    folder: bool
    files: Annotated[tuple[FileBlocks, ...], ENTRIES]


class CheckFiles(Message, frozen=True, kw_only=True):
    """Are all blocks below ``path`` well?  Answered with ``CheckReport``."""

    path: Path


class BlockTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A block that is not as it should be."""

    path: Path
    block: _Block
    wanted: Replicas  #: replicas that it should have
    nodes: _Nodes  #: those that have a sound one
    corrupt: _Nodes = ()  #: those whose replica was found damaged or gone
    suspect: _Nodes = ()  #: those whose replica is yet to be looked at, or again


class CheckReport(Message, frozen=True, kw_only=True):
    """What ``fsck`` says; healthy if no block is missing or has fewer replicas than it should."""

    wire_bytes_max: ClassVar[int] = ANSWER_BYTES_MAX

    path: Path
    files: Count
    folders: Count
    blocks: Count
    replicas: Count
    stored_bytes: StoredBytes
    nodes_alive: Count
    nodes_lost: _Nodes
    missing: Annotated[tuple[BlockTrouble, ...], ENTRIES]  #: no replica is known to be sound
    under_replicated: Annotated[tuple[BlockTrouble, ...], ENTRIES]
    over_replicated: Count

    @property
    def healthy(self) -> bool:
        return not self.missing and not self.under_replicated


# Writing a file ----------------------------------------------------------------------------------
class CreateFile(Message, frozen=True, kw_only=True):
    """Begin to write a file.  Answered with ``FileCreated``.

    Nobody sees the file before it is complete; a file that it replaces stays until then.
    """

    path: Path
    writer: NodeId | None = None  #: None: outside of the cluster
    replication: Replicas = 0  #: 0 = the cluster's
    overwrite: bool = False
    hint: PlacementHint = PlacementHint()
    first_stored_length: StoredBytes = (
        0  #: of its first block, which is added at once; 0 = not known yet
    )


class FileCreated(Message, frozen=True, kw_only=True):
    """``file`` stands for the file until it is complete."""

    file: Number
    stored_block_bytes: StoredBytes  #: no block may be longer
    replication: Replicas
    first: BlockAdded | None = None  #: the first block, if its length was told


class AddBlock(Message, frozen=True, kw_only=True):
    """Get a new block of a file that is being written.  Answered with ``BlockAdded``."""

    file: Number
    stored_length: StoredBytes
    #: a block whose writing failed, and is to be forgotten; its nodes are not used again
    instead_of: _Block | None = None
    exclude: _Nodes = ()  #: nodes that failed


class BlockAdded(Message, frozen=True, kw_only=True):
    """Write the block to the first of ``nodes``, which passes it on to the next, and so on."""

    block: _Block
    nodes: _Nodes


class StoredBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block that was written, and the nodes that have acknowledged it."""

    block: _Block
    nodes: _Nodes


class CompleteFile(Message, frozen=True, kw_only=True):
    """The file consists of these blocks, in order.  Answered with ``FileCompleted``.

    Once that answer is given the file outlives the NameNode's process.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    file: Number
    blocks: Annotated[tuple[StoredBlock, ...], ENTRIES]


class FileCompleted(Message, frozen=True, kw_only=True):
    """The file is there for all to see."""

    status: FileStatus


class AbandonFile(Message, frozen=True, kw_only=True):
    """Forget a file that was being written, and its blocks.  Answered with ``Done``."""

    file: Number


# Blocks, between a client or a DataNode and a DataNode ------------------------------------------
class WriteBlock(Message, frozen=True, kw_only=True):
    """Store a block at ``nodes[0]`` and pass it on to the others; its bytes follow as chunks.

    The payload has the block's checksums (``dfs.checksums.pack_sums``), against which every node
    checks what it got.  Answered with ``BlockWritten`` when all that could be done is done.
    """

    transfer: Name  #: names the bytes that follow; the sender's choice
    block: _Block
    stored_length: StoredBytes
    nodes: _Nodes


class BlockWritten(Message, frozen=True, kw_only=True):
    """These nodes have the block; one that is missing here failed for ``reason``."""

    nodes: _Nodes
    reason: Text = ""
    is_full: bool = False  #: the first node's disk, if none has it


class ReadBlock(Message, frozen=True, kw_only=True):
    """Send a part of the replica at ``node``; its bytes come as chunks.

    Answered with ``Done`` before the first chunk; refused if there is no sound replica.  The
    answer's payload has the checksums of what will come, for the reader to check.
    """

    transfer: Name  #: names the bytes; the reader's choice, and the flow's name too
    block: _Block
    node: NodeId
    stored_offset: StoredBytes
    stored_length: StoredBytes
    reader: NodeId | None = None  #: None: outside of the cluster


class LoseNode(Command, frozen=True, kw_only=True):
    """Behave from now on as if this node had died.  Answered with ``Done``.  For tests."""

    node: NodeId


# Facts for the NameNode --------------------------------------------------------------------------
class HeldBlock(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A replica that a node has."""

    block: _Block
    stored_length: StoredBytes


class RegisterDataNode(Message, frozen=True, kw_only=True):
    """A DataNode is up, and this is all that its nodes hold.  Answered with ``Done``."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    pid: Pid
    nodes: Annotated[dict[NodeId, Annotated[tuple[HeldBlock, ...], ENTRIES]], FEW]


class DataNodeHeartbeat(Message, frozen=True, kw_only=True):
    """A DataNode is alive."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    nodes: _Nodes  #: those still usable; the others are lost


class BlockReplicated(Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` was carried out: ``target`` has the block."""

    block: _Block
    target: NodeId
    stored_length: StoredBytes


class ReplicationFailed(Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` could not be carried out."""

    block: _Block
    source: NodeId
    target: NodeId
    reason: Text


class ReplicasDeleted(Event, frozen=True, kw_only=True):
    """A ``DeleteReplicas`` was carried out."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    blocks: Annotated[tuple[_Block, ...], ENTRIES]


class ReplicaFailed(Event, frozen=True, kw_only=True):
    """A replica is damaged or not there, as a reader found.  Not answered.

    Never for an error that says nothing of the replica, such as too many open files.  It is not
    believed either: the replica's DataNode is asked (``VerifyReplica``).
    """

    block: _Block
    node: NodeId
    reason: Text


#: What a DataNode found when it looked at a replica: it is as it was written; it is damaged, cut
#: short or gone; or that cannot be found out just now.
Finding = Literal["sound", "damaged", "unreadable"]


class ReplicaVerified(Event, frozen=True, kw_only=True):
    """A DataNode has looked at the whole of a replica of its own, asked or not."""

    block: _Block
    node: NodeId
    found: Finding
    reason: Text = ""  #: why it is not sound


class BlockReport(Message, frozen=True, kw_only=True):
    """All that a node holds of the blocks ``first`` to ``last``, both included.  Not answered.

    What it says may be overtaken by what happens meanwhile: it raises doubts, and settles nothing.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    first: _Block
    last: _Block
    held: Annotated[tuple[HeldBlock, ...], ENTRIES]


# Commands of the NameNode ------------------------------------------------------------------------
class ReplicateBlock(Command, frozen=True, kw_only=True):
    """Send the replica at ``source`` to ``target``."""

    block: _Block
    stored_length: StoredBytes
    source: NodeId
    target: NodeId


class DeleteReplicas(Command, frozen=True, kw_only=True):
    """Delete these blocks' replicas from ``node``, those that are being written too."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    blocks: Annotated[tuple[_Block, ...], ENTRIES]


class VerifyReplica(Command, frozen=True, kw_only=True):
    """Look at all of a replica, and say what it is worth (``ReplicaVerified``)."""

    block: _Block
    stored_length: StoredBytes  #: that it should have
    node: NodeId


class DeleteDamaged(Command, frozen=True, kw_only=True):
    """Look at a replica once more, and delete it if it is damaged.

    Answered with ``ReplicasDeleted``, or with ``ReplicaVerified`` if it is not.
    """

    block: _Block
    stored_length: StoredBytes  #: that it should have
    node: NodeId


class RegisterAgain(Command, frozen=True, kw_only=True):
    """The NameNode does not know you (any more)."""
