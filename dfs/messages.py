"""Messages between clients, the NameNode and the DataNodes.

All ``stored_`` fields are real bytes.  A client outside the cluster has the node None.  Bulk bytes
travel as ``netemu.transfers`` says.

    client ──files: namespace, locations──► NameNode ◄──replicas: facts, reports── DataNode
    client ──blocks: WriteBlock, ReadBlock──► DataNode ◄──replicas: commands── NameNode
"""

from __future__ import annotations

from typing import Annotated, Literal, NewType

import msgspec

from railyard.cluster.messaging import wire
from railyard.cluster.units import format_count

#: Never used twice, not even after a restart of the NameNode.
BlockId = NewType("BlockId", int)
Block = Annotated[BlockId, msgspec.Meta(ge=0, le=2**63 - 1)]
Nodes = wire.Few[wire.NodeId]


class OnceOnly(wire.Message, frozen=True, kw_only=True):
    """A request that is sent again if the connection broke before its answer.

    The NameNode keeps the answers to the latest of them, over its restarts too, and answers one
    that comes again with the same token as it did before.
    """

    token: wire.Name = ""  #: chosen by the sender, never used for another request; "" = none


# To a DataNode: blocks ----------------------------------------------------------------------------
class WriteBlock(wire.Message, frozen=True, kw_only=True):
    """Store a block on ``nodes[0]`` and forward it to the others; its bytes follow as chunks.

    The payload holds the block's checksums (``dfs.blockfile.pack_sums``), which every node checks.
    Answered with ``BlockWritten`` when every node of the pipeline has stored the block or failed.
    """

    transfer: wire.Name  #: name of the transfer, chosen by the sender
    block: Block
    stored_length: wire.StoredBytes
    nodes: Nodes


class BlockWritten(wire.Message, frozen=True, kw_only=True):
    """The nodes that stored the block; if any of the pipeline is missing, ``reason`` says why."""

    nodes: Nodes
    reason: wire.Text = ""
    is_full: bool = False  #: with no ``nodes``: the first node's disk is full


class ReadBlock(wire.Message, frozen=True, kw_only=True):
    """Read a range of the replica on ``node``; its bytes come as chunks.

    Answered with ``Done`` before the first chunk; refused if there is no sound replica.  The
    answer's payload holds the checksums of the range, which the reader verifies.
    """

    transfer: wire.Name  #: name of the transfer and of its flow, chosen by the reader
    block: Block
    node: wire.NodeId
    stored_offset: wire.StoredBytes
    stored_length: wire.StoredBytes
    reader: wire.NodeId | None = None  #: None: outside the cluster


# To the NameNode: files and folders ---------------------------------------------------------------
class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a file or folder, as listings show it."""

    path: wire.Path
    folder: bool = False
    stored_length: wire.StoredBytes = 0
    blocks: wire.Count = 0
    replication: wire.Replicas = 0  #: replicas that each block should have; 0 for a folder
    number: wire.Number = 0  #: stays the same while it exists, also if it is renamed
    entries: wire.Count = 0  #: of a folder
    owner: wire.Name = ""
    group: wire.Name = ""
    permission: wire.Permission = 0  #: kept and shown, but not enforced
    modified_s: wire.Seconds = 0.0  #: since 1970, when its content or its entries were last changed
    accessed_s: wire.Seconds = 0.0  #: since 1970, when it was made or what ``SetAttributes`` said
    stored_block_bytes: wire.StoredBytes = 0  #: of a file's block, at most; 0 = the topology's


class PlacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and racks where a scheduler prefers a file's replicas; dead nodes are skipped."""

    first: Nodes = ()  #: preferred nodes for the first replica, best first
    #: preferred racks of each replica; empty or missing = the placement rule decides
    racks: wire.ReplicaRacks = ()


class GetStatus(wire.Message, frozen=True, kw_only=True):
    """Get the status of ``path``.  Answered with ``Status``."""

    path: wire.Path


class Status(wire.Message, frozen=True, kw_only=True):
    """The answer to ``GetStatus``; ``status`` is None if the path does not exist."""

    status: FileStatus | None


class ListFolder(wire.Message, frozen=True, kw_only=True):
    """List a folder, or a single file.  Answered with ``Listing``."""

    path: wire.Path


class Listing(wire.LongAnswer, frozen=True, kw_only=True):
    """The answer to ``ListFolder``; entries are sorted by name."""

    entries: wire.Entries[FileStatus]


class MakeFolder(wire.Message, frozen=True, kw_only=True):
    """Make a folder and its parents; no error if it exists.  Answered with ``Done``."""

    path: wire.Path
    owner: wire.Name = ""  #: "" = the user who runs the cluster
    permission: wire.Permission | None = None  #: None = 755


class Remove(OnceOnly, frozen=True, kw_only=True):
    """Remove a file or folder.  Answered with ``Removed``; refused if it does not exist."""

    path: wire.Path
    recursive: bool = False  #: also remove a folder that is not empty


class Removed(wire.Message, frozen=True, kw_only=True):
    """The numbers of files and folders removed."""

    files: wire.Count
    folders: wire.Count


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A rename of a file or folder from ``source`` to ``target``."""

    source: wire.Path
    target: wire.Path


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """A move of all files in some folders into one folder; they keep their names."""

    source: wire.Path  #: the parent of ``folders``
    folders: wire.Entries[wire.Name]  #: names in ``source``
    target: wire.Path  #: the folder that gets the files


class MoveFiles(OnceOnly, wire.LongMessage, frozen=True, kw_only=True):
    """Rename many files atomically, all or nothing.  Answered with ``Done``.

    In this order: do ``moves``; do ``gathers``; make ``markers`` (empty files, such as a job's
    _SUCCESS, whose owner is that of their folder); remove the paths of ``remove`` recursively (no
    error if they do not exist).  Parents of targets are made.  Refused if a target exists, unless
    ``overwrite`` is set and it is a file, or an empty folder in the way of a folder.
    """

    moves: wire.Entries[Move] = ()
    gathers: wire.Few[Gather] = ()
    markers: wire.Entries[wire.Path] = ()
    remove: wire.Entries[wire.Path] = ()
    overwrite: bool = False


class GetUsage(wire.Message, frozen=True, kw_only=True):
    """Get the disk usage below ``path``.  Answered with ``Usage``."""

    path: wire.Path


class Usage(wire.Message, frozen=True, kw_only=True):
    """The disk usage of a file or of everything below a folder."""

    files: wire.Count
    folders: wire.Count
    blocks: wire.Count
    stored_bytes: wire.StoredBytes  #: sum of the files' lengths, without replication
    stored_disk_bytes: wire.StoredBytes  #: sum over all existing replicas


class GetSafeMode(wire.Message, frozen=True, kw_only=True):
    """Get whether the NameNode is in safe mode.  Answered with ``SafeModeStatus``."""


class SafeModeStatus(wire.Message, frozen=True, kw_only=True):
    """Safe mode: until DataNodes have reported enough blocks to a NameNode that started again."""

    on: bool
    by_hand: bool = False  #: somebody has asked for it: it does not end by itself
    reported: wire.Count  #: blocks of complete files with a replica that a DataNode has reported
    needed: wire.Count  #: as many need one before it ends
    blocks: wire.Count  #: of complete files

    def __str__(self) -> str:
        if self.by_hand:
            return (
                "the NameNode is in safe mode, as somebody asked for: changes are refused until "
                "hdfs dfsadmin -safemode leave"
            )
        reported = f"{self.reported} of {format_count(self.blocks, 'block')} have been reported"
        return f"the NameNode is in safe mode: {reported}, {self.needed} are needed; changes wait"


class LocateBlocks(wire.Message, frozen=True, kw_only=True):
    """Get the blocks of a file, or of a folder's files.  Answered with ``BlocksLocated``."""

    path: wire.Path


class BlockLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a file and the nodes known to have a sound replica."""

    block: Block
    stored_offset: wire.StoredBytes  #: offset of its first byte in the file
    stored_length: wire.StoredBytes
    nodes: Nodes
    #: nodes with a doubtful replica, to be tried last, the most promising first
    doubtful: Nodes = ()
    draining: Nodes = ()  #: of ``nodes``, those whose replicas are being moved elsewhere


class FileBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """A file's blocks, in the order of the file."""

    path: wire.Path
    stored_length: wire.StoredBytes
    blocks: wire.Entries[BlockLocation]


class BlocksLocated(wire.LongAnswer, frozen=True, kw_only=True):
    """The answer to ``LocateBlocks``: files sorted by path; exactly one unless ``folder``."""

    folder: bool
    files: wire.Entries[FileBlocks]


class MoveReplica(wire.Message, frozen=True, kw_only=True):
    """Copy a block, then drop an old replica.  Answered with ``ReplicaMoved``, or refused, then."""

    path: wire.Path
    number: wire.Count  #: the number of the block in its file, from 0
    target: wire.NodeId
    source: wire.NodeId | None = None  #: whose replica is dropped; None: the NameNode decides


class ReplicaMoved(wire.Message, frozen=True, kw_only=True):
    """The nodes with a sound replica of a block that was moved."""

    nodes: Nodes


class CheckFiles(wire.Message, frozen=True, kw_only=True):
    """Check all blocks below ``path`` (fsck).  Answered with ``CheckReport``."""

    path: wire.Path


class BlockTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A missing or under-replicated block, as fsck lists it."""

    path: wire.Path
    block: Block
    wanted: wire.Replicas  #: replicas that the block should have
    nodes: Nodes  #: nodes with a sound replica
    corrupt: Nodes = ()  #: nodes where the replica was found damaged or missing
    suspect: Nodes = ()  #: nodes where the replica waits to be verified


class CheckReport(wire.LongAnswer, frozen=True, kw_only=True):
    """The result of ``fsck``; healthy if no block is missing or under-replicated."""

    path: wire.Path
    files: wire.Count
    folders: wire.Count
    blocks: wire.Count
    replicas: wire.Count
    stored_bytes: wire.StoredBytes
    nodes_alive: wire.Count
    nodes_lost: Nodes
    missing: wire.Entries[BlockTrouble]  #: without any sound replica
    under_replicated: wire.Entries[BlockTrouble]
    over_replicated: wire.Count

    @property
    def healthy(self) -> bool:
        return not self.missing and not self.under_replicated


# Writing a file ----------------------------------------------------------------------------------
class CreateFile(wire.Message, frozen=True, kw_only=True):
    """Open a new file, invisible until it is complete.  Answered with ``FileCreated``."""

    path: wire.Path
    writer: wire.NodeId | None = None  #: None: outside the cluster
    replication: wire.Replicas = 0  #: 0 = the cluster's default
    overwrite: bool = False
    unless: wire.Path = ""  #: refused if this path exists; "" = never for that
    hint: PlacementHint = PlacementHint()
    #: length of the first block, which is then allocated with this request; 0 = not known yet
    first_stored_length: wire.StoredBytes = 0
    owner: wire.Name = ""  #: "" = the user who runs the cluster
    permission: wire.Permission | None = None  #: None = 644
    #: maximum length of its blocks, at most the topology's; 0 = that
    stored_block_bytes: wire.StoredBytes = 0


class FileCreated(wire.Message, frozen=True, kw_only=True):
    """``file`` is the number that identifies the open file until it is complete."""

    file: wire.Number
    stored_block_bytes: wire.StoredBytes  #: maximum length of a block
    first: BlockAdded | None = None  #: the first block, if ``first_stored_length`` was given


class AddBlock(wire.Message, frozen=True, kw_only=True):
    """Allocate a new block for an open file.  Answered with ``BlockAdded``."""

    file: wire.Number
    stored_length: wire.StoredBytes
    #: a block that could not be written and is now dropped; its nodes are avoided
    instead_of: Block | None = None
    exclude: Nodes = ()  #: failed nodes, to be avoided


class BlockAdded(wire.Message, frozen=True, kw_only=True):
    """A new block and its pipeline: the client writes to the first node, which forwards it on."""

    block: Block
    nodes: Nodes


class StoredBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A written block and the nodes that acknowledged it."""

    block: Block
    nodes: Nodes


class CompleteFile(OnceOnly, wire.LongMessage, frozen=True, kw_only=True):
    """Close an open file of these blocks, durably.  Answered with ``FileCompleted``."""

    file: wire.Number
    blocks: wire.Entries[StoredBlock]


class FileCompleted(wire.Message, frozen=True, kw_only=True):
    """The file is complete and visible."""

    status: FileStatus


class AbandonFile(wire.Message, frozen=True, kw_only=True):
    """Drop an open file and its blocks.  Answered with ``Done``."""

    file: wire.Number


# To the NameNode: changes of what exists ----------------------------------------------------------
class SetAttributes(wire.Message, frozen=True, kw_only=True):
    """Change what is not None.  Answered with ``Done``."""

    path: wire.Path
    owner: wire.Name | None = None
    group: wire.Name | None = None
    permission: wire.Permission | None = None
    modified_s: wire.Seconds | None = None  #: since 1970
    accessed_s: wire.Seconds | None = None


class SetReplication(wire.Message, frozen=True, kw_only=True):
    """Change a file's replicas; they are made or deleted later.  Answered with ``Done`` at once."""

    path: wire.Path
    replication: wire.Replicas  #: 1 or more


class ReopenFile(OnceOnly, frozen=True, kw_only=True):
    """Open a complete file to give it another end.  Answered with ``FileReopened``.

    The file keeps its blocks that end at or before ``stored_length``.  What follows them is written
    as with ``CreateFile``; readers see the file as it was until ``CompleteFile``.  For an append a
    last block that is not full is not kept, so that all blocks but the last are full.  Refused
    while the file is open for this already.
    """

    path: wire.Path
    stored_length: wire.StoredBytes | None = None  #: None: the file's length, for an append
    writer: wire.NodeId | None = None


class FileReopened(wire.Message, frozen=True, kw_only=True):
    """``file`` is the number that identifies the open file until it is complete."""

    file: wire.Number
    stored_length: wire.StoredBytes  #: of the file, until it is complete again
    kept_stored_length: wire.StoredBytes  #: of the blocks that stay, before what is written
    stored_block_bytes: wire.StoredBytes  #: maximum length of a block


class Concatenate(OnceOnly, frozen=True, kw_only=True):
    """Move the blocks of some files to the end of another, atomically.  Answered with ``Done``."""

    target: wire.Path
    sources: wire.Entries[wire.Path]  #: in this order


# To the NameNode: administration ------------------------------------------------------------------
class SetSafeMode(wire.Message, frozen=True, kw_only=True):
    """Enter safe mode, until it is left; or leave it, whatever was reported.

    Answered with ``SafeModeStatus``.  A NameNode that is restarted forgets it.
    """

    on: bool


class GetStorageReport(wire.Message, frozen=True):
    """Get how the nodes and the blocks are.  Answered with ``StorageReport``."""


class NodeStorage(msgspec.Struct, frozen=True, kw_only=True):
    """A node's replicas, whole or incoming."""

    node: wire.NodeId
    alive: bool
    draining: bool
    replicas: wire.Count
    stored_bytes: wire.StoredBytes
    silent_s: wire.Seconds | None  #: of its DataNode, so far; None: not since it was lost


class StorageReport(wire.Message, frozen=True, kw_only=True):
    """All nodes of the cluster, and how many blocks of complete files lack what."""

    safe_mode: bool
    nodes: wire.Few[NodeStorage]
    under_replicated: wire.Count  #: with fewer sound replicas than they should have, but some
    urgent: wire.Count  #: of these, with a single one
    corrupt: wire.Count  #: with a damaged replica
    missing: wire.Count  #: without any sound one
    missing_single: wire.Count  #: of these, that should have one
    leaving: wire.Count  #: replicas that are being deleted


# From the ResourceManager to the NameNode: nodes that are drained ---------------------------------
class DrainNodes(wire.Message, frozen=True, kw_only=True):
    """Copy the replicas of these nodes elsewhere, then delete them; of no others.

    It replaces what was asked before, and is asked again and again: the NameNode forgets it when it
    is restarted.  Answered with ``DrainingNodes``.  Refused, and nothing changes, if the blocks
    could not be kept as they are without ``new``.
    """

    nodes: Nodes
    new: wire.NodeId | None = None  #: one of them that is to be checked


class DrainingNodes(wire.Message, frozen=True, kw_only=True):
    """How many replicas, whole or being written, these nodes have yet."""

    replicas: wire.FewBy[wire.NodeId, wire.Count]


# From a DataNode to the NameNode -----------------------------------------------------------------
class HeldBlock(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A replica on a node's disk."""

    block: Block
    stored_length: wire.StoredBytes


class RegisterDataNode(wire.LongMessage, frozen=True, kw_only=True):
    """Register a DataNode with all replicas of its nodes.  Answered with ``Done``."""

    rack: wire.RackId
    pid: wire.Pid
    nodes: wire.FewBy[wire.NodeId, wire.Entries[HeldBlock]]


class DataNodeHeartbeat(wire.LongMessage, frozen=True, kw_only=True):
    """A DataNode is alive, with the nodes that are still usable."""

    rack: wire.RackId
    nodes: Nodes  #: all other nodes of the rack are lost


class BlockReplicated(wire.Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` succeeded: ``target`` has the block."""

    block: Block
    target: wire.NodeId
    stored_length: wire.StoredBytes


class ReplicationFailed(wire.Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` failed."""

    block: Block
    source: wire.NodeId
    target: wire.NodeId
    reason: wire.Text


class ReplicasDeleted(wire.Event, wire.LongMessage, frozen=True, kw_only=True):
    """A ``DeleteReplicas`` was carried out."""

    node: wire.NodeId
    blocks: wire.Entries[Block]


class ReplicaFailed(wire.Event, frozen=True, kw_only=True):
    """A reader found a replica damaged or missing.  Not answered.

    Never sent for an error unrelated to the replica, such as too many open files.  It is no proof:
    the NameNode has the replica's own DataNode verify it (``VerifyReplica``).
    """

    block: Block
    node: wire.NodeId
    reason: wire.Text


#: Result of verifying a replica: as written; damaged, truncated or missing; not readable for now.
Finding = Literal["sound", "damaged", "unreadable"]


class ReplicaVerified(wire.Event, frozen=True, kw_only=True):
    """A DataNode has verified a whole replica of its own, on request or by its periodic scan."""

    block: Block
    node: wire.NodeId
    found: Finding
    reason: wire.Text = ""  #: why it is not sound


class BlockReport(wire.LongMessage, frozen=True, kw_only=True):
    """A node's replicas of the blocks ``first`` to ``last``; it may be late.  Not answered."""

    node: wire.NodeId
    first: Block
    last: Block
    held: wire.Entries[HeldBlock]


# Commands: from the NameNode to a DataNode -------------------------------------------------------
class ReplicateBlock(wire.Command, frozen=True, kw_only=True):
    """Copy the replica on ``source`` to ``target``."""

    block: Block
    stored_length: wire.StoredBytes
    source: wire.NodeId
    target: wire.NodeId


class DeleteReplicas(wire.Command, wire.LongMessage, frozen=True, kw_only=True):
    """Delete the replicas of these blocks on ``node``, including those being written."""

    node: wire.NodeId
    blocks: wire.Entries[Block]


class VerifyReplica(wire.Command, frozen=True, kw_only=True):
    """Verify a whole replica.  Answered with ``ReplicaVerified``, or ``ReplicasDeleted``."""

    block: Block
    stored_length: wire.StoredBytes  #: expected length
    node: wire.NodeId
    delete: bool = False  #: delete it if it is damaged


class RegisterAgain(wire.Command, frozen=True, kw_only=True):
    """Register again: the NameNode does not know this DataNode."""
