"""Blocks: their numbers, and the messages that open and end a transfer of one.

From a client or a DataNode to a DataNode.  The bytes travel as ``netemu.client.transfer`` says.
"""

from __future__ import annotations

from typing import Annotated, NewType

import msgspec

from railyard.cluster.bounded import FEW, Name, NodeId, StoredBytes, Text
from railyard.cluster.messaging.wire import Command, Message

#: Never used twice, not even after a restart of the NameNode.
BlockId = NewType("BlockId", int)
Block = Annotated[BlockId, msgspec.Meta(ge=0, le=2**63 - 1)]
Nodes = Annotated[tuple[NodeId, ...], FEW]


class WriteBlock(Message, frozen=True, kw_only=True):
    """Store a block on ``nodes[0]`` and forward it to the others; its bytes follow as chunks.

    The payload holds the block's checksums (``dfs.checksums.pack_sums``), which every node checks.
    Answered with ``BlockWritten`` when every node of the pipeline has stored the block or failed.
    """

    transfer: Name  #: name of the transfer, chosen by the sender
    block: Block
    stored_length: StoredBytes
    nodes: Nodes


class BlockWritten(Message, frozen=True, kw_only=True):
    """The nodes that stored the block; if any of the pipeline is missing, ``reason`` says why."""

    nodes: Nodes
    reason: Text = ""
    is_full: bool = False  #: with no ``nodes``: the first node's disk is full


class ReadBlock(Message, frozen=True, kw_only=True):
    """Read a range of the replica on ``node``; its bytes come as chunks.

    Answered with ``Done`` before the first chunk; refused if there is no sound replica.  The
    answer's payload holds the checksums of the range, which the reader verifies.
    """

    transfer: Name  #: name of the transfer and of its flow, chosen by the reader
    block: Block
    node: NodeId
    stored_offset: StoredBytes
    stored_length: StoredBytes
    reader: NodeId | None = None  #: None: outside the cluster


class LoseNode(Command, frozen=True, kw_only=True):
    """Behave as if this node had died.  Answered with ``Done``.  For tests."""

    node: NodeId
