"""One node's block files: a folder on its disk."""

from __future__ import annotations

import os
import re
import stat
from array import array
from contextlib import closing, suppress
from pathlib import Path

from railyard.cluster.errors import PeerError, PeerUnable
from railyard.cluster.files import opened_folder
from railyard.cluster.machine import cause_of, is_full
from railyard.dfs.blockfile import (
    BlockWriter,
    OpenBlock,
    block_name,
    reading,
    remove_file,
    stored_length,
)
from railyard.dfs.messages import BlockId, HeldBlock

_BLOCK = re.compile(r"b(\d+)")


class BlockStore:
    """The blocks of a node.  Makes the folder and removes partial blocks that a crash left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob("*.part"):
            part.unlink()

    @property
    def exists(self) -> bool:
        """False once the disk is gone; a transient error does not count."""
        try:
            return stat.S_ISDIR(self.folder.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def blocks(self) -> list[BlockId]:
        matches = [_BLOCK.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(BlockId(int(match[1])) for match in matches if match is not None)

    def held(self) -> tuple[HeldBlock, ...]:
        """All complete blocks with their lengths, sorted by id; raises ``OSError``."""
        found = []
        with opened_folder(self.folder) as opened:
            for block in self.blocks():
                length = stored_length(os.stat(block_name(block), dir_fd=opened).st_size)
                found.append(HeldBlock(block=block, stored_length=max(0, length)))
        return tuple(found)

    def create(self, block: BlockId, length: int, sums: array[int]) -> BlockWriter:
        """Start writing a block; ``PeerError`` if it exists or the file cannot be created."""
        try:
            if self._is_there(block):
                raise PeerError(f"block {block} is in {self.folder} already")
            return BlockWriter(self.folder, block, length, sums)
        except FileExistsError:
            raise PeerError(f"block {block} is being written in {self.folder}") from None
        except OSError as error:
            kind = PeerUnable if is_full(error) else PeerError
            raise kind(f"a block: {cause_of(error, self.folder)}") from None

    def open(self, block: BlockId) -> OpenBlock:
        return OpenBlock(self.folder, block)

    def read(self, block: BlockId, offset: int, length: int) -> memoryview:
        with closing(self.open(block)) as opened:
            return opened.read(offset, length)

    def length(self, block: BlockId) -> int:
        name = block_name(block)
        with reading(f"{self.folder}/{name}"), opened_folder(self.folder) as opened:
            return stored_length(os.stat(name, dir_fd=opened).st_size)

    def has(self, block: BlockId) -> bool:
        """Whether a file of the block exists, sound or not; True if that is not known for now."""
        with suppress(OSError):
            return self._is_there(block)
        return True

    def delete(self, block: BlockId) -> None:
        """Delete a block, which need not exist; its readers go on.  Raises ``OSError``."""
        remove_file(self.folder, block_name(block))

    def _is_there(self, block: BlockId) -> bool:
        """Whether a file of the block exists; raises ``OSError`` if that cannot be looked up."""
        with suppress(FileNotFoundError, NotADirectoryError), opened_folder(self.folder) as opened:
            os.stat(block_name(block), dir_fd=opened)
            return True
        return False
