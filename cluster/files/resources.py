"""Exhausted resources of the machine: recognizing such errors, wording them, and what is left.

Disk space, memory, file descriptors, processes.  Running out of them is neither a bug nor a user's
mistake, and may pass.
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
    """This machine has run out of disk space, memory, descriptors or processes."""


#: {error number: wording}: a full file system, a user's quota, a limit on file sizes (ulimit -f).
_FULL = {
    errno.ENOSPC: "no space left on",
    errno.EDQUOT: "the quota is used up on",
    errno.EFBIG: "a file would be larger than the limit (ulimit -f) on",
}

_CONTROL_GROUPS = Path("/sys/fs/cgroup")


def is_full(error: BaseException) -> bool:
    """Whether a write failed for lack of space."""
    return isinstance(error, OSError) and error.errno in _FULL


def cause_of(error: OSError, where: Path | str) -> str:
    """The reason why ``where`` could not be written or read, for users.

    For instance "no space left on /tmp (where /tmp/ry/c-1/nodes is)" or "Permission denied".
    """
    if error.errno in _FULL:
        return f"{_FULL[error.errno]} {_disk_of(Path(where))}"
    return error.strerror or str(error)


def unusable(what: str, error: OSError, where: Path | str) -> RailyardError:
    """The error "WHAT: cause" for a path given by the user: ``Exhausted`` if its disk is full."""
    kind = Exhausted if is_full(error) else UsageError
    return kind(f"{what}: {cause_of(error, where)}")


def exhausted(error: BaseException) -> str | None:
    """The cause in words if an error means that a resource is exhausted; None otherwise.

    Also recognizes errors of other libraries that carry a system error number.
    """
    number = getattr(error, "errno", None)
    name = getattr(error, "filename", None)
    if number in _FULL:
        full = OSError(number, os.strerror(number))
        return cause_of(full, name) if isinstance(name, str) else f"{_FULL[number]} a disk"
    if number == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"too many open files: the limit is {soft} per process (ulimit -n)"
    if number in (errno.ENFILE, errno.ENOMEM):
        return f"{os.strerror(number)}: this machine has no more"
    return None


def allowed_descriptors() -> int:
    """The hard limit on open files of this process and its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def free_bytes(where: Path) -> int:
    """Bytes that this user may still write on the disk of ``where``, which need not exist yet."""
    return shutil.disk_usage(_existing(where)).free


def free_memory_bytes() -> int:
    """Bytes of memory that new processes may take: on this machine, and in its control groups."""
    import psutil  # no daemon asks

    free_bytes = psutil.virtual_memory().available
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return free_bytes
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "memory"):
            root = _CONTROL_GROUPS / controllers
            folder = root / group.lstrip("/")
            for limited in (folder, *folder.parents):
                free_bytes = min(free_bytes, _room_in(limited, free_bytes))
                if limited == root:
                    break
    return free_bytes


def _room_in(group: Path, otherwise: int) -> int:
    """Bytes below a control group's limit on memory; ``otherwise``, if it has none."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, now = int((group / limit).read_text()), int((group / used).read_text())
            stat = (group / "memory.stat").read_text().split()
        except (OSError, ValueError):  # no such file, or "max"
            continue
        pairs = dict(zip(stat[::2], stat[1::2], strict=False))
        cache = pairs.get("total_inactive_file", pairs.get("inactive_file", "0"))
        return max(0, most - now + int(cache))  # the system drops what it has of files
    return otherwise


def _disk_of(where: Path) -> str:
    """The mount point of a path's file system, and the path."""
    where = where.absolute()
    mount = _existing(where)
    while not os.path.ismount(mount):
        mount = mount.parent
    return f"{mount} (where {where} is)" if mount != where else str(mount)


def _existing(path: Path) -> Path:
    """The path, or its nearest ancestor that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
