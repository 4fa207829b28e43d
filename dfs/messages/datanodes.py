"""Replicas: what DataNodes report to the NameNode, and what it commands them to do."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from railyard.cluster.bounded import ENTRIES, FEW, NodeId, Pid, RackId, StoredBytes, Text
from railyard.cluster.messaging.wire import LONG_BYTES_MAX, Command, Event, Message
from railyard.dfs.messages.blocks import Block, Nodes


# From a DataNode to the NameNode -----------------------------------------------------------------
class HeldBlock(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A replica on a node's disk."""

    block: Block
    stored_length: StoredBytes


class RegisterDataNode(Message, frozen=True, kw_only=True):
    """Register a DataNode with all replicas of its nodes.  Answered with ``Done``."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    pid: Pid
    nodes: Annotated[dict[NodeId, Annotated[tuple[HeldBlock, ...], ENTRIES]], FEW]


class DataNodeHeartbeat(Message, frozen=True, kw_only=True):
    """A DataNode is alive, with the nodes that are still usable."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    nodes: Nodes  #: all other nodes of the rack are lost


class BlockReplicated(Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` succeeded: ``target`` has the block."""

    block: Block
    target: NodeId
    stored_length: StoredBytes


class ReplicationFailed(Event, frozen=True, kw_only=True):
    """A ``ReplicateBlock`` failed."""

    block: Block
    source: NodeId
    target: NodeId
    reason: Text


class ReplicasDeleted(Event, frozen=True, kw_only=True):
    """A ``DeleteReplicas`` was carried out."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    blocks: Annotated[tuple[Block, ...], ENTRIES]


class ReplicaFailed(Event, frozen=True, kw_only=True):
    """A reader found a replica damaged or missing.  Not answered.

    Never sent for an error unrelated to the replica, such as too many open files.  It is no proof:
    the NameNode has the replica's own DataNode verify it (``VerifyReplica``).
    """

    block: Block
    node: NodeId
    reason: Text


#: Result of verifying a replica: as written; damaged, truncated or missing; not readable for now.
Finding = Literal["sound", "damaged", "unreadable"]


class ReplicaVerified(Event, frozen=True, kw_only=True):
    """A DataNode has verified a whole replica of its own, on request or by its periodic scan."""

    block: Block
    node: NodeId
    found: Finding
    reason: Text = ""  #: why it is not sound


class BlockReport(Message, frozen=True, kw_only=True):
    """A node's replicas of the blocks ``first`` to ``last``, both included.  Not answered.

    It may be out of date on arrival, so a difference only makes replicas suspect.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    first: Block
    last: Block
    held: Annotated[tuple[HeldBlock, ...], ENTRIES]


# Commands: from the NameNode to a DataNode -------------------------------------------------------
class ReplicateBlock(Command, frozen=True, kw_only=True):
    """Copy the replica on ``source`` to ``target``."""

    block: Block
    stored_length: StoredBytes
    source: NodeId
    target: NodeId


class DeleteReplicas(Command, frozen=True, kw_only=True):
    """Delete the replicas of these blocks on ``node``, including those being written."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    node: NodeId
    blocks: Annotated[tuple[Block, ...], ENTRIES]


class VerifyReplica(Command, frozen=True, kw_only=True):
    """Verify a whole replica.  Answered with ``ReplicaVerified``."""

    block: Block
    stored_length: StoredBytes  #: expected length
    node: NodeId


class DeleteDamaged(Command, frozen=True, kw_only=True):
    """Verify a replica again and delete it if it is damaged.

    Answered with ``ReplicasDeleted``, or with ``ReplicaVerified`` if it is not damaged.
    """

    block: Block
    stored_length: StoredBytes  #: expected length
    node: NodeId


class RegisterAgain(Command, frozen=True, kw_only=True):
    """Register again: the NameNode does not know this DataNode."""
