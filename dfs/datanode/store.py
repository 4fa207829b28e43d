"""One node's blocks: a folder on its disk."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.errors import PeerError
from dfs.blockfile import BlockWriter, read_verified, stored_length
from dfs.messages import BlockId, HeldBlock

_BLOCK = re.compile(r"b(\d+)")


class BlockStore:
    """The blocks of a node.  Makes the folder; what a crash left unfinished is removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob("*.part"):
            part.unlink()

    @property
    def exists(self) -> bool:
        """False once the disk is gone."""
        return self._folder.is_dir()

    def held(self) -> tuple[HeldBlock, ...]:
        """All complete blocks, by id."""
        found = []
        for path in self._folder.iterdir():
            match = _BLOCK.fullmatch(path.name)
            if match is not None:
                length = max(0, stored_length(path.stat().st_size))
                found.append(HeldBlock(block=BlockId(int(match[1])), stored_length=length))
        return tuple(sorted(found, key=lambda held: held.block))

    def create(self, block: BlockId) -> BlockWriter:
        """Begin to write a block; ``PeerError`` if it is there already or the disk is bad."""
        if self._path(block).exists():
            raise PeerError(f"block {block} is in {self._folder} already")
        try:
            return BlockWriter(self._folder, block)
        except FileExistsError:
            raise PeerError(f"block {block} is being written in {self._folder}") from None
        except OSError as error:
            raise PeerError(f"{self._folder}: {error.strerror}") from None

    def read(self, block: BlockId, offset: int, length: int) -> memoryview:
        """A range of a block; raises as ``read_verified`` does."""
        return read_verified(self._folder, block, offset, length)

    def delete(self, block: BlockId) -> None:
        """Remove a block; fine if it is not there.  Who is reading it can go on.

        Raises ``OSError`` if the disk is bad.
        """
        self._path(block).unlink(missing_ok=True)

    def _path(self, block: BlockId) -> Path:
        return self._folder / f"b{block}"
