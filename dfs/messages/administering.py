"""What who administers the block store asks of the NameNode: safe mode by hand, and a report."""

from __future__ import annotations

from typing import Annotated

import msgspec

from railyard.cluster.bounded import FEW, Count, NodeId, Seconds, StoredBytes
from railyard.cluster.messaging.wire import Message


class SetSafeMode(Message, frozen=True, kw_only=True):
    """Enter safe mode, until it is left; or leave it, whatever was reported.

    Answered with ``SafeModeStatus``.  A NameNode that is restarted forgets it.
    """

    on: bool


class GetStorageReport(Message, frozen=True):
    """Get how the nodes and the blocks are.  Answered with ``StorageReport``."""


class NodeStorage(msgspec.Struct, frozen=True, kw_only=True):
    """A node's replicas, whole or incoming."""

    node: NodeId
    alive: bool
    draining: bool
    replicas: Count
    stored_bytes: StoredBytes
    silent_s: Seconds | None  #: since when its DataNode was heard last; None: not since it was lost


class StorageReport(Message, frozen=True, kw_only=True):
    """All nodes of the cluster, and how many blocks of complete files lack what."""

    safe_mode: bool
    nodes: Annotated[tuple[NodeStorage, ...], FEW]
    under_replicated: Count  #: with fewer sound replicas than they should have, and at least one
    urgent: Count  #: of these, with a single one
    corrupt: Count  #: with a damaged replica
    missing: Count  #: without any sound one
    missing_single: Count  #: of these, that should have one
    leaving: Count  #: replicas that are being deleted
