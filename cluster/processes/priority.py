"""Scheduling priorities of processes: network clock, decisions, carrying bytes, then computing.

A cluster's tasks may keep every core busy, but must not slow down the emulated network or the
ResourceManager: without priorities, it learnt of 32 maps that ended at the same time, and started
their fetches, up to 0.8 s late.  Without the permission (root or CAP_SYS_NICE) everything works,
but bytes and decisions are late while every core is busy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Ranks, the highest first: the network's clock; processes that decide, which need little time;
#: processes that send and receive by its grants.
CLOCK, DECIDER, CARRIER = 2, 1, 0
#: Reduction of niceness where real-time priority is not permitted.
_NICER = 10
#: Reduction of this process's niceness by ``go_ahead``; inherited by forked processes.
_ahead_by = 0


def take_priority(rank: int) -> bool:
    """Raise the priority of this thread and of all that it starts later; False if not permitted.

    Real-time priority if permitted: niceness counts only within a session if the kernel groups
    processes by session (sched_autogroup), and a process that wakes still waits for others.
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


@contextmanager
def priority(rank: int) -> Iterator[bool]:
    """``take_priority`` as a context manager."""
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
    """The priority of a process in words: "real time", "nice -10", or "no priority"."""
    scheduler = getattr(os, "sched_getscheduler", None)  # None: not Linux
    if scheduler is not None and scheduler(pid) == os.SCHED_RR:
        return "real time"
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    return f"nice {niceness}" if niceness < 0 else "no priority"
