"""A map's output on its node's disk: all partitions in one file, with an index at its end.

    partition 0, partition 1, ...            stored bytes, one after the other
    index        for each partition: offset (8 bytes), length (8), CRC-32C (4)
    footer       number of partitions (4), CRC-32C of the index (4), magic (8)

All little endian.  The file gets its name when it is complete, so that it is whole or not there.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

from cluster.errors import PeerError, RailyardError
from cluster.ids import AttemptId, NodeId, job_of, stage_of
from cluster.runfolder import RunFolder

_ENTRY = struct.Struct("<QQI")
_FOOTER = struct.Struct("<II8s")
_MAGIC = b"RAILMAP1"

Buffer = bytes | bytearray | memoryview


class OutputUnreadable(RailyardError):
    """A map output is missing or damaged: its map has to run again."""


def shuffle_folder(folder: RunFolder, node: NodeId) -> Path:
    """Where a node keeps its map output, a folder for each job."""
    return folder.node(node) / "shuffle"


def output_path(folder: RunFolder, node: NodeId, attempt: AttemptId) -> Path:
    """The file of an attempt's output; ``PeerError`` if that is no attempt's name."""
    try:
        stage_of(attempt)
    except ValueError as error:
        raise PeerError(str(error)) from None
    return shuffle_folder(folder, node) / job_of(attempt) / attempt


def write_output(path: Path, partitions: Sequence[Sequence[Buffer]]) -> tuple[int, ...]:
    """Write the file, or leave none; the stored bytes of each partition."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.new")
    try:
        lengths = _write(unfinished, partitions)
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # a full disk does not get emptier by itself
        raise
    return tuple(lengths)


def _write(path: Path, partitions: Sequence[Sequence[Buffer]]) -> list[int]:
    index, lengths, offset = bytearray(), [], 0
    with open(path, "wb") as file:
        for pieces in partitions:
            checksum, length = 0, 0
            for piece in pieces:
                view = memoryview(piece).cast("B")
                file.write(view)
                checksum = crc32c(view, checksum)
                length += len(view)
            index += _ENTRY.pack(offset, length, checksum)
            lengths.append(length)
            offset += length
        file.write(index)
        file.write(_FOOTER.pack(len(partitions), crc32c(index), _MAGIC))
    return lengths


class MapOutput:
    """An output file, mapped into memory.  ``OutputUnreadable`` if it is none or is damaged.

    Views of it stay valid when the file is removed.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self.identity = _identity(os.fstat(file.fileno()))
                self._data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except (OSError, ValueError) as error:  # ValueError: mmap of an empty file
            why = getattr(error, "strerror", None) or str(error)
            raise OutputUnreadable(f"map output {path.name}: {why}") from None
        self._entries = self._read_index(path.name)

    def is_still(self, path: Path) -> bool:
        """Whether ``path`` is yet the file that was mapped, unchanged in size and time."""
        try:
            return _identity(path.stat()) == self.identity
        except OSError:
            return False

    def partition(self, number: int) -> tuple[memoryview, int]:
        """A partition's bytes and the CRC-32C that they should have."""
        if not 0 <= number < len(self._entries):
            raise PeerError(f"partition {number}: there are {len(self._entries)}")
        offset, length, checksum = self._entries[number]
        return self._data[offset : offset + length], checksum

    def _read_index(self, name: str) -> list[tuple[int, int, int]]:
        size = len(self._data)
        if size < _FOOTER.size:
            raise OutputUnreadable(f"map output {name}: cut short at {size} bytes")
        count, checksum, magic = _FOOTER.unpack(self._data[-_FOOTER.size :])
        start = size - _FOOTER.size - count * _ENTRY.size
        if magic != _MAGIC or start < 0:
            raise OutputUnreadable(f"map output {name}: its footer is damaged")
        index = self._data[start : size - _FOOTER.size]
        if crc32c(index) != checksum:
            raise OutputUnreadable(f"map output {name}: its index is damaged")
        return list(_ENTRY.iter_unpack(index))


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
