"""The journal: the durable part of the namespace, one row per inode, written with each commit.

Block locations are not in it: the DataNodes report them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from railyard.dfs.messages.blocks import BlockId

#: The inode of "/".
ROOT = 0


class FileBlock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block of a file and its length."""

    block: BlockId
    stored_length: int


class Attributes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who a file or folder belongs to, who may use it, and when it was changed and read.

    Times are seconds since 1970.  Kept and shown, as in an HDFS whose permissions are not enforced.
    """

    owner: str = ""
    group: str = ""
    permission: int = 0o755  #: the bits of chmod, up to 0o1777
    modified_s: float = 0.0
    accessed_s: float = 0.0


class Inode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file or folder.  Immutable: a change replaces it."""

    number: int
    parent: int
    name: str
    folder: bool
    replication: int = 0  #: 0 for a folder
    blocks: tuple[FileBlock, ...] = ()  #: in order; empty for a folder
    attributes: Attributes = Attributes()

    @property
    def stored_length(self) -> int:
        return sum([block.stored_length for block in self.blocks])


class Change(msgspec.Struct, frozen=True):
    """The new value of inode ``number``; None removes it."""

    number: int
    inode: Inode | None


class Journal(Protocol):
    """Stores committed changes."""

    def load(self) -> tuple[int, list[Inode]]:
        """Count a start; return the number of earlier starts and all inodes."""

    def commit(self, changes: Iterable[Change]) -> None:
        """Store these changes, all or none; they survive the process once this returns."""


class NoJournal:
    """A journal that stores nothing, for the simulator and tests."""

    def load(self) -> tuple[int, list[Inode]]:
        return 0, []

    def commit(self, changes: Iterable[Change]) -> None:
        """Do nothing."""
