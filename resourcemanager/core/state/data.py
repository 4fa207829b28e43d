"""The blocks of the files that jobs read, as the block store reported last.

Known only where a policy uses them (``Policy.uses_data``).  A block's node may be lost since.

Never here: decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railyard.cluster.ids import NodeId
from railyard.resourcemanager.interface.events import DataBlock


class InputBlock:
    """A block of a file."""

    __slots__ = ("moving_from", "moving_to", "nodes", "size_bytes", "stored_offset")

    def __init__(self, block: DataBlock) -> None:
        self.stored_offset = block.stored_offset  #: of its first byte in the file
        self.size_bytes = block.size_bytes
        self.nodes = block.nodes  #: nodes with a replica, sorted
        self.moving_to: NodeId | None = None  #: where a ``MoveBlock`` that has not ended takes it
        self.moving_from: NodeId | None = None  #: and from where; None = the block store decides


class StoredData:
    """{path: blocks} of all files that were reported."""

    def __init__(self) -> None:
        self._files: dict[str, list[InputBlock]] = {}

    @property
    def files(self) -> Mapping[str, Sequence[InputBlock]]:
        """{path: its blocks, in order}."""
        return self._files

    def block(self, path: str, number: int) -> InputBlock | None:
        """A file's block; None if there is none."""
        blocks = self._files.get(path, [])
        return blocks[number] if 0 <= number < len(blocks) else None

    def is_next(self, path: str, first: int) -> bool:
        """Whether blocks from number ``first`` on begin a file anew, or go on where it ends."""
        return first in (0, len(self._files.get(path, ())))

    def put(self, path: str, first: int, blocks: Sequence[DataBlock]) -> None:
        """Note blocks of a file from number ``first`` on; 0 replaces all that were known.

        Moves under way go on: the number of a block says which it is.
        """
        before = self._files.get(path, []) if first == 0 else []
        known = self._files.setdefault(path, [])
        if first == 0:
            known = self._files[path] = []
        for number, block in enumerate(blocks):
            known.append(InputBlock(block))
            if number < len(before):
                known[-1].moving_to = before[number].moving_to
                known[-1].moving_from = before[number].moving_from

    def differs(self, path: str, blocks: Sequence[DataBlock]) -> bool:
        """Whether a file's blocks are others than those known, or elsewhere.  O(blocks)."""
        known = self._files.get(path, ())
        return len(known) != len(blocks) or any(
            (a.stored_offset, a.size_bytes, a.nodes) != (b.stored_offset, b.size_bytes, b.nodes)
            for a, b in zip(known, blocks, strict=True)
        )
