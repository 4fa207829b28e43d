"""What a machine can run out of: how to know it, how to say it, and how much there is.

Room on a disk, descriptors of a process, processes.  None of it is a mistake of ours or of whoever
asked, and all of it may pass.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
from pathlib import Path

from railyard.cluster.errors import RailyardError, UsageError


class Exhausted(RailyardError):
    """This machine has no more of what would be needed: room, descriptors, processes."""


#: A file system without room, a user's quota, a limit on the size of files (``ulimit -f``).
_FULL = {
    errno.ENOSPC: "no space left on",
    errno.EDQUOT: "the quota is used up on",
    errno.EFBIG: "a file would be larger than the limit (ulimit -f) on",
}


def is_full(error: BaseException) -> bool:
    """Whether something could not be written for lack of space."""
    return isinstance(error, OSError) and error.errno in _FULL


def cause_of(error: OSError, where: Path | str) -> str:
    """Why something at ``where`` could not be written or read, for people.

    "no space left on /tmp (where /tmp/ry/c-1/nodes is)", "Permission denied".
    """
    if error.errno in _FULL:
        return f"{_FULL[error.errno]} {_disk_of(Path(where))}"
    return error.strerror or str(error)


def unusable(what: str, error: OSError, where: Path | str) -> RailyardError:
    """The error for a place that somebody chose: "WHAT: why"; also if it is only full."""
    kind = Exhausted if is_full(error) else UsageError
    return kind(f"{what}: {cause_of(error, where)}")


def exhausted(error: BaseException) -> str | None:
    """In words, if it is that the machine has no more of something; else None.

    Also of errors that other libraries make of the system's.
    """
    number = getattr(error, "errno", None)
    name = getattr(error, "filename", None)
    if number in _FULL:
        full = OSError(number, os.strerror(number))
        return cause_of(full, name) if isinstance(name, str) else f"{_FULL[number]} a disk"
    if number == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"too many open files: the limit is {soft} a process (ulimit -n)"
    if number in (errno.ENFILE, errno.ENOMEM):
        return f"{os.strerror(number)}: this machine has no more"
    return None


def allowed_descriptors() -> int:
    """Open files that this process and its children may have, once they ask for all."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def free_bytes(where: Path) -> int:
    """Bytes that this user may still write on the disk that ``where`` is on, or will be."""
    return shutil.disk_usage(_existing(where)).free


def _disk_of(where: Path) -> str:
    """The file system that a path is on, by where it is mounted, and the path."""
    where = where.absolute()
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
