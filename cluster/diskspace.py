"""A disk that is full: how to know it, how to say it, and how much room there is."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

#: A file system without room, a user's quota, a limit on the size of files (``ulimit -f``).
_FULL = {
    errno.ENOSPC: "no space left on",
    errno.EDQUOT: "the quota is used up on",
    errno.EFBIG: "a file would be larger than the limit (ulimit -f) on",
}


def is_full(error: BaseException) -> bool:
    """Whether something could not be written for lack of space, which may pass."""
    return isinstance(error, OSError) and error.errno in _FULL


def cause_of(error: OSError, where: Path | str) -> str:
    """Why something at ``where`` could not be written or read, for people.

    "no space left on /tmp (of /tmp/ry/c-1/nodes)", "Permission denied".
    """
    if error.errno in _FULL:
        return f"{_FULL[error.errno]} {_disk_of(Path(where))}"
    return error.strerror or str(error)


def free_bytes(where: Path) -> int:
    """Bytes that this user may still write on the disk that ``where`` is on, or will be."""
    return shutil.disk_usage(_existing(where)).free


def _disk_of(where: Path) -> str:
    """The file system that a path is on, by where it is mounted, and the path."""
    mount = _existing(where)
    while not os.path.ismount(mount):
        mount = mount.parent
    return f"{mount} (where {where} is)" if mount != where else str(mount)


def _existing(path: Path) -> Path:
    """The path, or what there is of it."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
