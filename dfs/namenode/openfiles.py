"""Open files: invisible until complete, and dropped with their writer.

There is no lease on a path: of several writers the first to complete its file gets the path, and
the others are refused unless they overwrite.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.namenode.journal import Opened
from railyard.dfs.paths import parse_path

#: An open file without requests for so long is dropped: its writer counts as dead.
WRITER_PATIENCE_S = 900.0


class OpenFile(msgspec.Struct, kw_only=True, gc=False):
    """A file that is open for writing."""

    opened: Opened
    touched_s: float  #: when its writer was heard last
    #: {block: its length in stored bytes}
    blocks: dict[BlockId, int] = msgspec.field(default_factory=dict)
    #: {node: number of the file's replicas placed on it}
    uses: Counter[NodeId] = msgspec.field(default_factory=Counter)


class OpenFiles:
    """All open files, by number."""

    def __init__(self) -> None:
        self._files: dict[int, OpenFile] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._files

    def add(self, file: OpenFile) -> None:
        """Add an open file."""
        self._files[file.opened.number] = file

    def find(self, number: int) -> OpenFile | None:
        """An open file; None if it is not open."""
        return self._files.get(number)

    def get(self, number: int, now_s: float) -> OpenFile:
        """Return an open file and renew its writer's time limit; ``PeerError`` if not open."""
        file = self._files.get(number)
        if file is None:
            raise PeerError(f"file {number} is not being written: it was given up or removed")
        file.touched_s = now_s
        return file

    def pop(self, number: int) -> OpenFile | None:
        """Remove an open file; return it, or None if it is not open."""
        return self._files.pop(number, None)

    def is_reopened(self, inode: int) -> bool:
        """Whether the file with that inode number has been opened again."""
        reopened = [file.opened.reopened for file in self._files.values()]
        return any(file is not None and file.number == inode for file in reopened)

    def below(self, path: str) -> list[OpenFile]:
        """The open files at ``path`` or below it."""
        names = parse_path(path)
        files = self._files.values()
        return [file for file in files if file.opened.names[: len(names)] == names]

    def abandoned(self, now_s: float) -> list[OpenFile]:
        """The open files that have had no request for ``WRITER_PATIENCE_S``."""
        oldest_s = now_s - WRITER_PATIENCE_S
        return [file for file in self._files.values() if file.touched_s < oldest_s]
