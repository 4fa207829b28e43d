"""Damage in SQLite's write-ahead log, which SQLite itself takes for the log's end.

SQLite reads the log up to the first frame whose checksum is wrong.  After a crash that is right:
the end was cut short, and nobody has heard of what is in it.  If more entries follow it is not:
commits that were acknowledged would be gone, without a word.

    log:    header (32 bytes), frames
    frame:  page number, pages after the commit (0: not its last frame), 2 salts, 2 checksums; page

Source: SQLite, "WAL-mode File Format".  A frame of an earlier log has other salts than the header.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import UsageError

_HEADER = struct.Struct(">8I")  #: magic, version, page size, checkpoint, 2 salts, 2 checksums
_FRAME = struct.Struct(">6I")
_SUMMED_BYTES = 8  #: of a frame's header; all of its page is
#: The last bit says whether checksums are of big-endian words.
_MAGIC = 0x377F0682
Words = npt.NDArray[np.uint32]


def check_log(path: Path, advice: str) -> bool:
    """Whether the log at ``path`` is whole; False if its last entry was cut short or is damaged.

    Raises ``UsageError`` with file, byte and ``advice`` if entries follow on what is damaged.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return True
    if len(log) < _HEADER.size:
        return not log
    magic, _, page_bytes, _, *rest = _HEADER.unpack_from(log)
    salts, sums = rest[:2], rest[2:]
    order = ">u4" if magic & 1 else "<u4"
    summed = log[: _HEADER.size - 8]
    if magic & ~1 != _MAGIC or [*_Sums(len(summed)).of(summed, order, (0, 0))] != sums:
        if len(log) == _HEADER.size:
            return False
        raise UsageError(f"{path}: byte 0: the log's header is damaged: {advice}")
    frames = _frames(log, page_bytes, salts)
    damaged = _first_damaged(frames, order, (sums[0], sums[1]), _SUMMED_BYTES + page_bytes)
    if damaged is None:
        return True
    lost = sum(_FRAME.unpack_from(frame)[1] > 0 for at, frame in frames if at >= damaged)
    if lost > 1:
        what = f"an entry is damaged, and {lost} that were committed are there from it on"
        raise UsageError(f"{path}: byte {damaged:,}: {what}: {advice}")
    return False


def _frames(log: bytes, page_bytes: int, salts: list[int]) -> list[tuple[int, bytes]]:
    """Each whole frame of this log, not of an earlier one, and where it begins."""
    size = _FRAME.size + page_bytes
    starts = range(_HEADER.size, len(log) - size + 1, size)
    frames = [(at, log[at : at + size]) for at in starts]
    return [each for each in frames if [*_FRAME.unpack_from(each[1])[2:4]] == salts]


def _first_damaged(
    frames: list[tuple[int, bytes]], order: str, sums: tuple[int, int], size_bytes: int
) -> int | None:
    """Where the first frame with a wrong checksum begins; None if all are right."""
    summing = _Sums(size_bytes)
    for at, frame in frames:
        *_, first, second = _FRAME.unpack_from(frame)
        sums = summing.of(frame[:_SUMMED_BYTES] + frame[_FRAME.size :], order, sums)
        if sums != (first, second):
            return at
    return None


class _Sums:
    """SQLite's checksum of so many bytes: for each two words, s0 += x0 + s1; s1 += x1 + s0.

    That is linear modulo 2^32, so each word has its weight in either sum.
    """

    def __init__(self, size_bytes: int) -> None:
        pairs = size_bytes // 8
        step = np.array([[1, 1], [1, 2]], dtype=np.uint32)
        weights = np.empty((pairs, 2, 2), dtype=np.uint32)
        power = np.array([[1, 0], [0, 1]], dtype=np.uint32)
        for pair in reversed(range(pairs)):
            weights[pair] = power @ np.array([[1, 0], [1, 1]], dtype=np.uint32)
            power = power @ step
        self._weights = weights
        self._power = power  #: of the sums before

    def of(self, data: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
        """The sums after ``data``, in words of this byte order."""
        words = np.frombuffer(data, dtype=order).astype(np.uint32).reshape(-1, 1, 2)
        sums = (self._weights * words).sum(axis=(0, 2), dtype=np.uint32)
        sums = sums + self._power @ np.array(before, dtype=np.uint32)
        return int(sums[0]), int(sums[1])
