"""Files of ours: durable writes, bulk reads, and room that is reserved on the disk.

fast    data is left to the system's cache: it survives a crash of any process, not a power cut
safe    data is on the disk before the write is acknowledged

Files are read, never mapped: reading a mapping of a truncated file kills the process (SIGBUS), and
mapped bytes may change between their check and their use.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from railyard.cluster.machine import c_library

Durability = Literal["fast", "safe"]
#: Buffers of at least this size are mapped as anonymous memory of their own.
_LARGE_BYTES = 4 * 2**20
_KEEP_SIZE = 1  #: FALLOC_FL_KEEP_SIZE
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS)


def sync_file(file: int) -> None:
    """Wait until an open file's data, and the metadata needed to read it, are on the disk."""
    os.fdatasync(file)


@contextmanager
def opened_folder(path: Path, parent: int | None = None, *, links: bool = True) -> Iterator[int]:
    """A descriptor of a folder, to sync it or for calls with names in it; raises ``OSError``.

    ``parent``: open it by its name in this folder; without ``links``, unless it is a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    folder = os.open(path if parent is None else path.name, flags, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk."""
    with opened_folder(path) as folder:
        os.fsync(folder)


def new_buffer(size: int) -> memoryview:
    """Allocate ``size`` writable bytes; raises ``MemoryError`` if the system refuses them."""
    if size < _LARGE_BYTES:
        return memoryview(bytearray(size))
    # Huge pages: touching 200 MB for the first time took 0.17 s without and 0.02 s with them.
    try:
        large = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no room for {size} bytes") from error
    with contextlib.suppress(OSError):  # a kernel without huge pages
        large.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(large)


def read_range(file: int, offset: int, size: int) -> memoryview:
    """Read ``size`` bytes of an open file from ``offset`` on; fewer only at its end.

    Raises ``OSError``, and ``MemoryError`` if the system refuses the memory.
    """
    if size < _LARGE_BYTES:  # a single read, into memory that is not zeroed first
        data = os.pread(file, size, offset)
        if len(data) == size:
            return memoryview(data)
    buffer = new_buffer(size)
    return buffer[: fill(buffer, file, offset)]


def fill(buffer: memoryview, file: int, offset: int) -> int:
    """Read an open file from ``offset`` on into ``buffer``; return the number of bytes read.

    It is less than the buffer's size only at the end of the file.  Raises ``OSError``.
    """
    filled = 0
    while filled < len(buffer):
        count = os.preadv(file, [buffer[filled:]], offset + filled)
        if count == 0:
            break
        filled += count
    return filled


class NewLines:
    """The whole lines that were added to a file since they were last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0  #: of the next line

    def read(self, bytes_min: int = -1) -> list[bytes]:
        """These lines; none if there is no such file.  With ``bytes_min``, about so many bytes."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines = file.readlines(bytes_min)
        except OSError:
            return []
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()  # it may even be written anew
        self._offset += sum(map(len, lines))
        return lines


class Reserve:
    """Keeps ``size_bytes`` for a file that grows; on file systems that can't, none."""

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
        self._until_bytes = 0
        os.ftruncate(self._file, os.fstat(self._file).st_size)


def _allocate(file: int, offset: int, length: int) -> None:
    """Allocate blocks beyond a file's end, which stays."""
    where = ctypes.c_int64(offset), ctypes.c_int64(length)
    if c_library().fallocate(file, _KEEP_SIZE, *where) != 0:
        number = ctypes.get_errno()
        if number not in _UNSUPPORTED:
            raise OSError(number, os.strerror(number))
