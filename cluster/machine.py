"""This machine: what it has left, what the kernel says of processes, and this one's share of it.

Never here: a clock (times are arguments).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import gc
import os
import resource
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from railyard.cluster.errors import RailyardError, UsageError

#: {error number: wording}: a full file system, a user's quota, a limit on file sizes (ulimit -f).
_FULL = {
    errno.ENOSPC: "no space left on",
    errno.EDQUOT: "the quota is used up on",
    errno.EFBIG: "a file would be larger than the limit (ulimit -f) on",
}
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
#: A silent daemon whose process runs, and may hang, is written off after so many times the expiry.
PATIENCE = 10
#: States of a process that will not go on by itself: stopped, traced, ended.
_NOT_RUNNING = frozenset("TtZXx")
#: Reduction of niceness where real-time priority is not permitted.
_NICER = 10
#: Reduction of this process's niceness by ``go_ahead``; inherited by forked processes.
_ahead_by = 0
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
#: How often a process that keeps freed memory returns what it has not needed again.
RETURN_PERIOD_S = 10.0


@functools.cache
def c_library() -> ctypes.CDLL:
    """The C library, cached so that forked processes need not load it again."""
    return ctypes.CDLL(None, use_errno=True)


class ProcessStat(NamedTuple):
    """A process of this machine that exists."""

    name: str  #: its first 15 bytes
    state: str  #: a letter: R runs or waits for a CPU, T stopped, t traced, Z or X has ended
    parent: int  #: process id


def process_stat(pid: int) -> ProcessStat | None:
    """What is known of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    begin, end = text.find("("), text.rfind(")")  # the name may contain both
    words = text[end + 1 :].split(maxsplit=2)
    if len(words) < 2:  # it ended while this was read
        return None
    return ProcessStat(text[begin + 1 : end], words[0], int(words[1]))


def is_alive(pid: int) -> bool:
    """Whether there is such a process that has not ended, stopped or not."""
    found = process_stat(pid)
    return found is not None and found.state not in "ZX"


# Exhausted resources ------------------------------------------------------------------------------
class Exhausted(RailyardError):
    """This machine has run out of disk space, memory, descriptors or processes, perhaps for now."""


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
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
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


# Dead, or on an overloaded machine ----------------------------------------------------------------
class AwakeClock:
    """A clock that stands still while its owner is held up.

    Heartbeats of that time wait in the owner's sockets, so it does not count as silence.
    ``at_s`` is to be called at least once a period; what exceeds two periods is not counted.
    """

    def __init__(self, now_s: float, period_s: float) -> None:
        self.held_up_s = 0.0  #: time that was not counted
        self._latest_s = now_s
        self._most_s = 2 * period_s

    def at_s(self, now_s: float) -> float:
        self.held_up_s += max(0.0, now_s - self._latest_s - self._most_s)
        self._latest_s = now_s
        return now_s - self.held_up_s


def is_running(pid: int) -> bool:
    """Whether a process of this machine exists and is not stopped."""
    found = process_stat(pid)
    return found is not None and found.state not in _NOT_RUNNING


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine was stopped (SIGSTOP) and waits for SIGCONT."""
    found = process_stat(pid)
    return found is not None and found.state == "T"


# Priorities ---------------------------------------------------------------------------------------
#: Ranks, the highest first: the network's clock; processes that decide, which need little time;
#: processes that send and receive by its grants.
CLOCK, DECIDER, CARRIER = 2, 1, 0


def take_priority(rank: int) -> bool:
    """Raise the priority of this thread and of all that it starts later; False if not permitted.

    Tasks may keep every core busy, but must not slow down the emulated network or the
    ResourceManager: without priorities it learnt of 32 maps that ended together up to 0.8 s late.
    Real-time priority if permitted: niceness counts only within a session if the kernel groups
    processes by session (sched_autogroup), and a process that wakes still waits for others.
    """
    try:
        lowest = os.sched_get_priority_min(os.SCHED_RR)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(lowest + rank))
    except PermissionError:
        try:
            os.nice(-_NICER)
        except PermissionError:
            return False
    return True


def go_ahead() -> None:
    """Run this process and those that it forks before computing processes, if permitted."""
    global _ahead_by
    before = os.nice(0)
    with suppress(PermissionError):
        _ahead_by += before - os.nice(-_NICER)


def fall_back() -> None:
    """Undo ``go_ahead`` of this process or of the one that forked it."""
    global _ahead_by
    os.nice(_ahead_by)
    _ahead_by = 0


# Memory of this process ---------------------------------------------------------------------------
def keep_freed_memory(kept_bytes: int = 64 * 2**20) -> None:
    """Keep up to ``kept_bytes`` of freed memory for reuse instead of returning it to the system.

    Each chunk is received or read into newly allocated memory and then freed.  By default the C
    library maps fresh pages every time, which costs more than the socket (200 MB received, stored
    and forwarded: 1.1 s without this, 0.4 s with it).
    What a burst has taken and is not needed again is to be returned now and then, every
    ``RETURN_PERIOD_S``: otherwise the process stays as large as its largest burst.
    Does nothing where the C library is not glibc.
    """
    mallopt = getattr(c_library(), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 4 * 2**20)  # so chunks of 1 MiB come from the heap
        mallopt(_M_TRIM_THRESHOLD, kept_bytes)


def return_freed_memory() -> None:
    """Return to the system what is freed, and lies between what is in use.

    The C library returns only the end of each of its arenas by itself, of which a process with many
    threads has many.  Takes some milliseconds, during which other threads go on; does nothing where
    the C library is not glibc.
    """
    trim = getattr(c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def freeze_objects() -> None:
    """Keep garbage collections, here and in forked children, from all objects that there are.

    So they do not copy the pages with them, which are shared.  And they count anew: a full
    collection waits until a quarter as many objects are new as the last one has left.  If that were
    all that a parent has imported, 100,000 and more, a child of few objects would have none for an
    hour, and whatever its garbage refers to outside of Python would pile up.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing, which is what the next one compares with
