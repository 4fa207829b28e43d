"""Files that are being written: nobody sees them, and they end with their writer or the process.

There is no lock on a path: of several writers the first to complete its file gets the path, and
the others are refused unless they overwrite.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.dfs.messages import BlockId, PlacementHint
from railyard.dfs.paths import parse_path

#: A file of which nothing was heard for so long is given up: its writer is taken for dead.
WRITER_PATIENCE_S = 900.0


class OpenFile(msgspec.Struct, kw_only=True, gc=False):
    """A file that is being written."""

    number: int
    path: str  #: as listings show it
    names: tuple[str, ...]  #: along the path
    replication: int
    writer: NodeId | None
    overwrite: bool
    hint: PlacementHint
    touched_s: float
    #: {block: its length}
    blocks: dict[BlockId, int] = msgspec.field(default_factory=dict)
    #: {node: how many of the file's replicas it was given}
    uses: Counter[NodeId] = msgspec.field(default_factory=Counter)


class OpenFiles:
    """The open files by number."""

    def __init__(self) -> None:
        self._files: dict[int, OpenFile] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._files

    def add(self, file: OpenFile) -> None:
        """Know a file from now on."""
        self._files[file.number] = file

    def get(self, number: int, now_s: float) -> OpenFile:
        """An open file, whose writer is alive; ``PeerError`` if it is not open (any more)."""
        file = self._files.get(number)
        if file is None:
            raise PeerError(f"file {number} is not being written: it was given up or removed")
        file.touched_s = now_s
        return file

    def pop(self, number: int) -> OpenFile | None:
        """Know a file no longer."""
        return self._files.pop(number, None)

    def below(self, path: str) -> list[OpenFile]:
        """The open files at ``path`` or below it."""
        names = parse_path(path)
        return [file for file in self._files.values() if file.names[: len(names)] == names]

    def abandoned(self, now_s: float) -> list[OpenFile]:
        """The files whose writers have been silent for too long."""
        oldest_s = now_s - WRITER_PATIENCE_S
        return [file for file in self._files.values() if file.touched_s < oldest_s]
