"""Tuning of memory: the allocator of processes that carry bulk bytes, collections after forks."""

from __future__ import annotations

import ctypes
import gc

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


#: How often a process that keeps freed memory returns what it has not needed again.
RETURN_PERIOD_S = 10.0


def keep_freed_memory(kept_bytes: int = 64 * 2**20) -> None:
    """Keep up to ``kept_bytes`` of freed memory for reuse instead of returning it to the system.

    Each chunk is received or read into newly allocated memory and then freed.  By default the C
    library maps fresh pages every time, which costs more than the socket (200 MB received, stored
    and forwarded: 1.1 s without this, 0.4 s with it).
    What a burst has taken and is not needed again is to be returned now and then, every
    ``RETURN_PERIOD_S``: otherwise the process stays as large as its largest burst.
    Does nothing where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 4 * 2**20)  # so chunks of 1 MiB come from the heap
        mallopt(_M_TRIM_THRESHOLD, kept_bytes)


def return_freed_memory() -> None:
    """Return to the system what is freed, and lies between what is in use.

    The C library returns only the end of each of its arenas by itself, of which a process with many
    threads has many.  Takes some milliseconds, during which other threads go on; does nothing where
    the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
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
