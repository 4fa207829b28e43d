"""How much memory an attempt uses together with all processes that it has started.

What counts is private memory and what is shared without a file on a disk (such as ``mmap`` gives,
or ``/dev/shm``), also if it is swapped out.  Files do not: the system can drop what it has of them.

What several processes share must count once.  The kernel knows that (``Pss``) after a walk through
all of their pages, about 0.15 s for a GB.  What each process has singly, of shared pages too, is
never less and costs 50 us a process (32 attempts, four times a second: 0.7 % of a core).  So the
walk is done only once that is above the limit, and again when what has come to it since could be
above, or after a pause: pages cease to be shared when they are written.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from railyard.cluster.units import format_size
from railyard.nodemanager.memory import in_words

#: After a walk there is none for so many times as long, unless more memory is used since.
_PAUSE_RATIO = 20.0
_SINGLY = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_ONCE = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_ONCE_BEFORE_5_9 = (b"\nPss:", b"SwapPss:")  #: files included: that Linux did not separate them


class TreeMemory:
    """Watches one attempt: ``excess`` is to be called again and again while it runs."""

    def __init__(self, pid: int, inherited_bytes: int, allowed_bytes: int) -> None:
        """``inherited_bytes`` is what ``resident_bytes`` says of who forks the attempt."""
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
        others = _with_others(len(family) - 1)
        return f"uses {format_size(used_bytes)}{others}: {in_words(self._allowed_bytes)}"


def resident_bytes(pid: int | str = "self") -> int:
    """Bytes of one process, all that it shares included; 0 if it has ended."""
    return _sum_of(_read(f"/proc/{pid}/status"), _SINGLY)


def _share_bytes(pid: int) -> int:
    """Bytes of one process; of a page that n processes share, one n-th."""
    said = _read(f"/proc/{pid}/smaps_rollup")
    return _sum_of(said, _ONCE if _ONCE[0] in said else _ONCE_BEFORE_5_9)


def _with_others(started: int) -> str:
    if not started:
        return ""
    return f" with the {started} process{'' if started == 1 else 'es'} that it started"


def _family(pid: int) -> list[int]:
    """A process and its living descendants; it adopts the orphans among them."""
    family = [pid]
    for member in family:  # which grows meanwhile
        with suppress(OSError), os.scandir(f"/proc/{member}/task") as threads:
            for thread in threads:
                family += map(int, _read(f"{thread.path}/children").split())
    return family


def _sum_of(said: bytes, keys: tuple[bytes, ...]) -> int:
    """The sum of some of the lines "KEY:  123 kB", in bytes."""
    total = 0
    for key in keys:
        at = said.find(key)
        if at >= 0:
            total += int(said[at + len(key) : said.index(b"kB", at)]) * 1024
    return total


def _read(file: str) -> bytes:
    """A file about a process; empty if that has ended."""
    try:
        with open(file, "rb", buffering=0) as said:
            return said.readall()
    except OSError:
        return b""
