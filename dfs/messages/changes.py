"""Changes of files and folders that exist: what clients ask of the NameNode."""

from __future__ import annotations

from typing import Annotated

from railyard.cluster.bounded import (
    ENTRIES,
    Name,
    NodeId,
    Number,
    Path,
    Permission,
    Replicas,
    Seconds,
    StoredBytes,
)
from railyard.cluster.messaging.wire import Message
from railyard.dfs.messages.once import OnceOnly


class SetAttributes(Message, frozen=True, kw_only=True):
    """Change what is not None.  Answered with ``Done``."""

    path: Path
    owner: Name | None = None
    group: Name | None = None
    permission: Permission | None = None
    modified_s: Seconds | None = None  #: since 1970
    accessed_s: Seconds | None = None


class SetReplication(Message, frozen=True, kw_only=True):
    """Change how many replicas the blocks of a file should have.

    Answered with ``Done`` at once: replicas are made or deleted later.
    """

    path: Path
    replication: Replicas  #: 1 or more


class ReopenFile(OnceOnly, frozen=True, kw_only=True):
    """Open a complete file to give it another end.  Answered with ``FileReopened``.

    The file keeps its blocks that end at or before ``stored_length``.  What follows them is written
    as with ``CreateFile``; readers see the file as it was until ``CompleteFile``.  For an append a
    last block that is not full is not kept, so that all blocks but the last are full.  Refused
    while the file is open for this already.
    """

    path: Path
    #: None: the file's length, for an append
    stored_length: StoredBytes | None = None
    writer: NodeId | None = None


class FileReopened(Message, frozen=True, kw_only=True):
    """``file`` is the number that identifies the open file until it is complete."""

    file: Number
    stored_length: StoredBytes  #: of the file, until it is complete again
    kept_stored_length: StoredBytes  #: of the blocks that stay; what is written comes after them
    stored_block_bytes: StoredBytes  #: maximum length of a block


class Concatenate(OnceOnly, frozen=True, kw_only=True):
    """Move the blocks of some files to the end of another, and remove these.

    Atomic.  Answered with ``Done``.
    """

    target: Path
    sources: Annotated[tuple[Path, ...], ENTRIES]  #: in this order
