"""The exit status for each kind of failure; ``docs/exit-status.md`` is the same for users."""

from __future__ import annotations

from enum import IntEnum

from railyard.cluster.errors import (
    ClusterFailed,
    InvariantError,
    NotDone,
    PeerLost,
    RailyardError,
    UsageError,
)
from railyard.cluster.machine import Exhausted, exhausted
from railyard.runs.figures import TooBusy


class Status(IntEnum):
    """What a script can learn from the exit status."""

    OK = 0
    FAILED = 1  #: a job failed, an output is wrong, a check or a benchmark's bound does not hold
    USAGE = 2  #: the command was wrong
    CLUSTER = 3  #: the cluster did not start, or ended while it was needed
    MACHINE = 4  #: the disk is full, a file could not be written, a system limit is reached
    UNTRUSTED = 5  #: the machine was too busy for the results to be trusted (--strict)
    DIFFERS = 6  #: an output under faults is not that without (railyard chaos)
    BUG = 70  #: an error in Railyard or in a scheduler (EX_SOFTWARE of sysexits.h)
    SIGNAL = 128  #: plus the signal's number: 130 for Ctrl-C


#: The first kind that fits counts.
_KINDS: tuple[tuple[type[Exception], Status], ...] = (
    (UsageError, Status.USAGE),
    (ClusterFailed, Status.CLUSTER),
    (PeerLost, Status.CLUSTER),
    (TooBusy, Status.UNTRUSTED),
    (Exhausted, Status.MACHINE),
    (NotDone, Status.MACHINE),
    (InvariantError, Status.BUG),
    (RailyardError, Status.FAILED),
)


def status_of(error: Exception) -> Status:
    """The exit status for an error that ends a command."""
    for kind, status in _KINDS:
        if isinstance(error, kind):
            return status
    return Status.BUG if exhausted(error) is None else Status.MACHINE
