"""Room on its disk that a file has before it needs it, beyond its end: nobody else gets it.

Not here: what is done once the disk is full and the room is used up.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys

_KEEP_SIZE = 1  #: FALLOC_FL_KEEP_SIZE
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS)


class Reserve:
    """Keeps ``size_bytes`` for a file that grows; on systems that can't, none."""

    def __init__(self, file: int, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._until_bytes = 0  #: the file may grow up to here

    @property
    def left_bytes(self) -> int:
        """How far the file may grow while the disk is full."""
        return max(0, self._until_bytes - os.fstat(self._file).st_size)

    def keep(self) -> None:
        """Reserve anew if half of it is used up.

        Raises ``OSError`` if the disk has no room for it; what there was is kept.
        """
        if self.left_bytes < self._size_bytes // 2:
            end_bytes = os.fstat(self._file).st_size
            _allocate(self._file, end_bytes, self._size_bytes)
            self._until_bytes = end_bytes + self._size_bytes

    def give_up(self) -> None:
        """Give the room back."""
        self._until_bytes = 0
        os.ftruncate(self._file, os.fstat(self._file).st_size)


def _allocate(file: int, offset: int, length: int) -> None:
    """Allocate blocks beyond a file's end, which stays."""
    if sys.platform != "linux":
        return
    where = ctypes.c_int64(offset), ctypes.c_int64(length)
    if _libc().fallocate(file, _KEEP_SIZE, *where) != 0:
        number = ctypes.get_errno()
        if number not in _UNSUPPORTED:
            raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
