"""Nodes that are to be emptied: what the ResourceManager asks of the NameNode."""

from __future__ import annotations

from typing import Annotated

from railyard.cluster.bounded import FEW, Count, NodeId
from railyard.cluster.messaging.wire import Message
from railyard.dfs.messages.blocks import Nodes


class DrainNodes(Message, frozen=True, kw_only=True):
    """Copy the replicas of these nodes elsewhere, then delete them; of no others.

    It replaces what was asked before, and is asked again and again: the NameNode forgets it when it
    is restarted.  Answered with ``DrainingNodes``.  Refused, and nothing changes, if the blocks
    could not be kept as they are without ``new``.
    """

    nodes: Nodes
    new: NodeId | None = None  #: one of them that is to be checked


class DrainingNodes(Message, frozen=True, kw_only=True):
    """How many replicas, whole or being written, these nodes have yet."""

    replicas: Annotated[dict[NodeId, Count], FEW]
