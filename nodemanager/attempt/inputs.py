"""A file of the block store as a task reads it: its split at once, a few bytes around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railyard.cluster.messages.execution import Split
from railyard.dfs.client import DfsFile
from railyard.jobs.taskio import Buffer
from railyard.nodemanager.attempt.pace import ComputeClock


class BlockFile:
    """Reads are served from the split that they lie in, which is read as a whole, as one stream.

    A ``jobs.taskio.FileReader``.  ``before_read`` is called whenever a split is about to be read,
    ``after_read`` when it was.
    """

    def __init__(
        self,
        file: DfsFile,
        splits: Sequence[Split],
        clock: ComputeClock,
        before_read: Callable[[], None],
        after_read: Callable[[], None],
    ) -> None:
        self.stored_bytes = file.stored_bytes
        self._file = file
        self._splits = [(split.stored_offset, split.stored_length) for split in splits]
        self._clock = clock
        self._before_read = before_read
        self._after_read = after_read
        self._start = 0  #: where in the file ``_data``, the split that was read last, begins
        self._data = memoryview(b"")

    def read(self, offset: int, length: int) -> Buffer:
        """Bytes from ``offset``; fewer than ``length`` only at the file's end."""
        pieces: list[memoryview] = []
        end = min(offset + length, self.stored_bytes)
        while offset < end:
            pieces.append(self._piece(offset, end))
            offset += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, offset: int, end: int) -> memoryview:
        """Bytes from ``offset`` up to at most ``end``."""
        for start, length in self._splits:
            if start <= offset < start + length:
                if start != self._start or not self._data:
                    self._start, self._data = start, self._load(start, length)
                return self._data[offset - start : end - start]
        next_split = min((start for start, _ in self._splits if start > offset), default=end)
        return self._load(offset, min(end, next_split) - offset)

    def _load(self, offset: int, length: int) -> memoryview:
        self._before_read()
        waited_s = self._file.waited_s
        data = self._file.read(offset, length)
        self._clock.leave_out(self._file.waited_s - waited_s)
        self._after_read()
        return data
