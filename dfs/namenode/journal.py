"""The journal: what a NameNode that starts in place of one that died must know.

* inodes: complete files and folders; a row each, written with each commit
* files that are being written, and their blocks, so that their writers can go on
* answers to requests that a client sends again if the connection broke (``dfs.messages``)

Block locations are not in it: the DataNodes report them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from railyard.dfs.messages import BlockId, CreateFile

#: The inode of "/".
ROOT = 0


class FileBlock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block of a file and its length."""

    block: BlockId
    stored_length: int


class Attributes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who a file or folder belongs to, who may use it, and when it was changed and read.

    Times are seconds since 1970.  Kept and shown, as in an HDFS whose permissions are not enforced.
    A file has the length of its blocks here, too.
    """

    owner: str = ""
    group: str = ""
    permission: int = 0o755  #: the bits of chmod, up to 0o1777
    modified_s: float = 0.0
    accessed_s: float = 0.0
    block_bytes: int = 0  #: of a file's block, at most; 0 = the topology's


class Inode(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
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


class Opened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a file was opened with for writing."""

    number: int
    how: CreateFile  #: with its path as listings show it, and its replication
    #: the file as it was when it was opened again, and how many of its blocks stay; None: a new one
    reopened: Inode | None = None
    kept: int = 0


class OpenFileChange(msgspec.Struct, frozen=True, gc=False):
    """A file is open for writing; None: not any more, and all its blocks are dropped."""

    number: int
    opened: Opened | None


class OpenBlockChange(msgspec.Struct, frozen=True, gc=False):
    """An open file has a block of this length; None: not any more."""

    file: int
    block: BlockId
    stored_length: int | None


class AnswerChange(msgspec.Struct, frozen=True, gc=False):
    """The answer to the request with that token; None removes it."""

    number: int  #: counts answers
    token: str
    answer: bytes | None


#: What is kept beside the inodes.
Note = OpenFileChange | OpenBlockChange | AnswerChange


class Loaded(NamedTuple):
    """All that a journal has."""

    starts: int  #: number of earlier starts
    inodes: list[Inode]
    #: open files with their blocks, {block: length}, in the order of their ids
    opened: list[tuple[Opened, dict[BlockId, int]]]
    answers: list[AnswerChange]  #: the oldest first


class Journal:
    """Stores committed changes; this one stores nothing, for the simulator and tests."""

    def load(self) -> Loaded:
        """Count a start; return all that is stored."""
        return Loaded(0, [], [], [])

    def commit(self, changes: Iterable[Change], notes: Sequence[Note] = ()) -> None:
        """Store these, all or none; they survive the process once this returns.

        The caller is not acknowledged before they survive a power cut, too, if that is promised.
        """

    def note(self, notes: Sequence[Note]) -> None:
        """Store these, all or none; they survive the process, and maybe not a power cut."""
