"""What attempts may use, memory and disks, and how they failed, in words.

Never here: who is killed for it.
"""

from __future__ import annotations

import os
import resource
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from railyard.cluster.errors import RailyardError, printable, words_of
from railyard.cluster.machine import Exhausted, cause_of, is_full
from railyard.cluster.units import format_size

_OWN_CODE = Path(__file__).parent.parent
_OWN_FOLDERS = tuple(f"{_OWN_CODE / name}{os.sep}" for name in ("nodemanager", "jobs", "dfs"))
_TAIL_BYTES = 8192
_REASON_LETTERS_MAX = 300


def reason_of(error: BaseException) -> str:
    """An exception in one line, such as "ValueError: invalid literal for int()"."""
    lines = words_of(error).strip().splitlines()
    # NumPy's MemoryError has a private name of its own
    name = "MemoryError" if isinstance(error, MemoryError) else type(error).__name__
    return printable(f"{name}: {lines[0]}" if lines else name, _REASON_LETTERS_MAX)


def user_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, from the first frame on that is not Railyard's.

    Empty for what Railyard raises on purpose, unless it came of some of the user's lines: it says
    all.
    """
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frames = frames.tb_next
    if frames is None:  # it is all ours
        if isinstance(error, RailyardError) and error.__cause__ is None:
            return ""
        frames = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def tail_of(path: Path) -> str:
    """The end of a text file, whole lines if it has any; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return ""
    if size > _TAIL_BYTES:
        data = data.split(b"\n", 1)[-1] or data  # one line that is longer than this: its end
    return data.decode(errors="replace")


# Private memory of one process: what Linux counts for RLIMIT_DATA, which is private, writable
# mappings, those included that a fork inherits; neither mapped files nor code.
def in_words(allowed_bytes: int) -> str:
    """The limit that the topology sets, in words, for errors."""
    return f"compute.memory allows {format_size(allowed_bytes)} an attempt"


def limit_memory(size_bytes: int) -> None:
    """Let allocations fail that would take this process above ``size_bytes``."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        size_bytes = min(size_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (size_bytes, most))


def lift_limit() -> None:
    """Undo ``limit_memory``, so that there is room to report that it was reached."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def data_bytes() -> int:
    """Bytes that count of this process now."""
    return _sum_of(_read("/proc/self/status"), (b"VmData:",))


#: After a walk there is none for so many times as long, unless more memory is used since.
_PAUSE_RATIO = 20.0
_SINGLY = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_ONCE = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_ONCE_BEFORE_5_9 = (b"\nPss:", b"SwapPss:")  #: files included: that Linux did not separate them


class TreeMemory:
    """The memory of one attempt and of all processes that it has started.

    What counts is private memory and what is shared without a file on a disk (such as ``mmap``
    gives, or ``/dev/shm``), also if it is swapped out.  Files do not: the system can drop what it
    has of them.

    What several processes share must count once.  The kernel knows that (``Pss``) after a walk
    through all of their pages, about 0.15 s for a GB.  What each process has singly, of shared
    pages too, is never less and costs 50 us a process (32 attempts, four times a second: 0.7 % of a
    core).  So the walk is done only once that is above the limit, and again when what has come to
    it since could be above, or after a pause: pages cease to be shared when they are written.
    """

    def __init__(self, pid: int, inherited_bytes: int, allowed_bytes: int) -> None:
        """``inherited_bytes``: the ``resident_bytes`` of the process that forks the attempt."""
        self._pid = pid
        self._inherited_bytes = inherited_bytes
        self._allowed_bytes = allowed_bytes
        self._slack_bytes = 0  #: how much more it may have singly before it is walked through again
        self._walk_again_s = 0.0

    def excess(self) -> str:
        """By how much the attempt exceeds its limit, in words; "" if it does not."""
        family = _family(self._pid)
        singly_bytes = sum(map(resident_bytes, family)) - self._inherited_bytes
        if singly_bytes <= self._allowed_bytes:
            return ""
        begun_s = time.monotonic()
        if singly_bytes <= self._slack_bytes and begun_s < self._walk_again_s:
            return ""
        used_bytes = sum(map(_share_bytes, family)) - self._inherited_bytes
        ended_s = time.monotonic()
        self._walk_again_s = ended_s + _PAUSE_RATIO * (ended_s - begun_s)
        self._slack_bytes = singly_bytes + self._allowed_bytes - used_bytes
        if used_bytes <= self._allowed_bytes:
            return ""
        started = len(family) - 1
        processes = f"the {started} process{'' if started == 1 else 'es'}"
        others = f" with {processes} that it started" if started else ""
        return f"uses {format_size(used_bytes)}{others}: {in_words(self._allowed_bytes)}"


def resident_bytes(pid: int | str = "self") -> int:
    """Bytes of one process, all that it shares included; 0 if it has ended."""
    return _sum_of(_read(f"/proc/{pid}/status"), _SINGLY)


def _share_bytes(pid: int) -> int:
    """Bytes of one process; of a page that n processes share, one n-th."""
    text = _read(f"/proc/{pid}/smaps_rollup")
    return _sum_of(text, _ONCE if _ONCE[0] in text else _ONCE_BEFORE_5_9)


def _family(pid: int) -> list[int]:
    """A process and its living descendants; it adopts the orphans among them."""
    family = [pid]
    for member in family:  # which grows meanwhile
        with suppress(OSError), os.scandir(f"/proc/{member}/task") as threads:
            for thread in threads:
                family += map(int, _read(f"{thread.path}/children").split())
    return family


def _sum_of(text: bytes, keys: tuple[bytes, ...]) -> int:
    """The sum of some of the lines "KEY:  123 kB", in bytes."""
    total = 0
    for key in keys:
        at = text.find(key)
        if at >= 0:
            total += int(text[at + len(key) : text.index(b"kB", at)]) * 1024
    return total


def _read(file: str) -> bytes:
    """A file about a process; empty if that has ended."""
    with suppress(OSError), open(file, "rb", buffering=0) as text:
        return text.readall()
    return b""


T = TypeVar("T")
#: Before each try but the first.
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 1.5, 3.0)


def once_there_is_room(write: Callable[[], T], where: Path, pause: Callable[[float], object]) -> T:
    """What ``write`` returns, in one of several tries; ``Exhausted`` says what is full."""
    pauses_s = iter(PAUSES_S)
    while True:
        try:
            return write()
        except OSError as error:
            if not is_full(error):
                raise
            pause_s = next(pauses_s, None)
            if pause_s is None:
                raise Exhausted(cause_of(error, where)) from error
            pause(pause_s)
