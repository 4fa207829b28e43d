"""Bulk bytes in private memory: buffers for them, and files read into them.

Files are read, never mapped: whoever reads a mapping of a file that is cut short is killed
(SIGBUS), and what was checked there may have changed by the time it is used.
"""

from __future__ import annotations

import contextlib
import mmap
import os

#: From here on a buffer is worth pages of its own.
_LARGE_BYTES = 4 * 2**20


def new_buffer(size: int) -> memoryview:
    """``size`` writable bytes; ``MemoryError`` if this process may not have so many."""
    if size < _LARGE_BYTES:
        return memoryview(bytearray(size))
    # Huge pages: touching 200 MB for the first time took 0.17 s without and 0.02 s with them.
    try:
        large = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no room for {size} bytes") from error
    with contextlib.suppress(OSError):  # a kernel without them
        large.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(large)


def read_range(file: int, offset: int, size: int) -> memoryview:
    """``size`` bytes of an open file from ``offset`` on; fewer only at its end.

    Raises ``OSError``, and ``MemoryError`` if this process may not have so many.
    """
    if size < _LARGE_BYTES:  # read at once, into memory that need not be cleared first
        data = os.pread(file, size, offset)
        if len(data) == size:
            return memoryview(data)
    buffer = new_buffer(size)
    return buffer[: fill(buffer, file, offset)]


def fill(buffer: memoryview, file: int, offset: int) -> int:
    """Read the bytes of an open file from ``offset`` on; how many: fewer only at its end.

    Raises ``OSError``.
    """
    filled = 0
    while filled < len(buffer):
        count = os.preadv(file, [buffer[filled:]], offset + filled)
        if count == 0:
            break
        filled += count
    return filled
