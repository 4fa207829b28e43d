"""What of the namespace outlives the process: one row an inode, written as a change commits.

Which nodes hold a block is not in it: the DataNodes report that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from railyard.dfs.messages import BlockId

#: The inode of "/"; it is never written to the journal.
ROOT = 0


class FileBlock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block of a file."""

    block: BlockId
    stored_length: int


class Inode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file or folder.  Never changed: a change puts a new one in its place."""

    number: int
    parent: int
    name: str
    folder: bool
    replication: int = 0  #: of a file
    blocks: tuple[FileBlock, ...] = ()  #: of a file

    @property
    def stored_length(self) -> int:
        return sum([block.stored_length for block in self.blocks])


class Change(msgspec.Struct, frozen=True):
    """An inode's new state; None removes it."""

    number: int
    inode: Inode | None


class Journal(Protocol):
    """Keeps committed changes."""

    def load(self) -> tuple[int, list[Inode]]:
        """Begin anew: how often that was done before, and all inodes (but the root)."""

    def commit(self, changes: Iterable[Change]) -> None:
        """Keep these changes, all or none; they survive the process once this returns."""


class NoJournal:
    """For the simulator and for tests: keeps nothing."""

    def load(self) -> tuple[int, list[Inode]]:
        return 0, []

    def commit(self, changes: Iterable[Change]) -> None:
        """Keep nothing."""
