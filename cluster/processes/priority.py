"""Which processes the system runs first: who decides, who carries bytes, then who computes.

A cluster's tasks may keep every core busy, and must not slow the network that they are measured
on, nor the ResourceManager: 32 maps that ended at one time, with the fetches that this began, were
known to it only after up to 0.8 s.  Where this process may not (it takes root, or CAP_SYS_NICE),
all works the same, but bytes and decisions are late while every core is busy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: The network's clock comes before all others; then those who decide, who need little; then those
#: who send and receive by its grants.
CLOCK, DECIDER, CARRIER = 2, 1, 0
#: By how much niceness is lowered where real time is out of reach.
_NICER = 10
#: By how much ``go_ahead`` has lowered that of this process; forked ones inherit both.
_ahead_by = 0


def take_priority(rank: int) -> bool:
    """Have the system run this thread, and all that it starts later, before other processes.

    In real time if that is permitted: `nice` counts only within a terminal's session where the
    kernel groups processes by session (sched_autogroup), and makes a process that wakes wait for
    others all the same.  False if neither is permitted.
    """
    try:
        lowest = os.sched_get_priority_min(os.SCHED_RR)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(lowest + rank))
    except (PermissionError, AttributeError):  # AttributeError: not Linux
        try:
            os.nice(-_NICER)
        except PermissionError:
            return False
    return True


def go_ahead() -> None:
    """Have this process, and those that it forks, run before others that compute, if permitted."""
    global _ahead_by
    before = os.nice(0)
    with suppress(PermissionError):
        _ahead_by += before - os.nice(-_NICER)


def fall_back() -> None:
    """Be as others again, after ``go_ahead`` of this process or of the one that forked it."""
    global _ahead_by
    os.nice(_ahead_by)
    _ahead_by = 0


@contextmanager
def priority(rank: int) -> Iterator[bool]:
    """``take_priority`` for a while."""
    before = os.nice(0)
    taken = take_priority(rank)
    try:
        yield taken
    finally:
        if taken and priority_of(0).startswith("real"):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        elif taken:
            os.nice(before - os.nice(0))


def priority_of(pid: int) -> str:
    """What a process has, in words: "real time", "nice -10", or "no priority"."""
    scheduler = getattr(os, "sched_getscheduler", None)  # None: not Linux
    if scheduler is not None and scheduler(pid) == os.SCHED_RR:
        return "real time"
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    return f"nice {niceness}" if niceness < 0 else "no priority"
