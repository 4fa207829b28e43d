"""Telling dead daemons from an overloaded machine, for those who listen for heartbeats.

Whoever listens may be late himself: heartbeats of that time wait in his sockets, so it does not
count as silence (``AwakeClock``).  And a daemon may be silent because it got no CPU: the kernel
knows whether its process runs, is stopped or gone (``is_running``).

Never here: a clock (times are arguments), and who is written off.
"""

from __future__ import annotations

from railyard.cluster.files.procfs import process_stat

#: A silent daemon whose process runs is written off after so many times the usual expiry: it may
#: hang.
PATIENCE = 10
#: States of a process that will not go on by itself: stopped, traced, ended.
_NOT_RUNNING = frozenset("TtZXx")


class AwakeClock:
    """A clock that stands still while its owner is held up.

    ``at_s`` is to be called at least once a period; what exceeds two periods is not counted.
    """

    def __init__(self, now_s: float, period_s: float) -> None:
        self.held_up_s = 0.0  #: time that was not counted
        self._latest_s = now_s
        self._most_s = 2 * period_s

    def at_s(self, now_s: float) -> float:
        """The time on this clock."""
        self.held_up_s += max(0.0, now_s - self._latest_s - self._most_s)
        self._latest_s = now_s
        return now_s - self.held_up_s


def is_running(pid: int) -> bool:
    """Whether a process of this machine exists and is not stopped; False where that is unknown."""
    return _state(pid) not in _NOT_RUNNING


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine was stopped (SIGSTOP) and waits for SIGCONT."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """The letter that the kernel gives a process's state; that of one that is gone if unknown."""
    found = process_stat(pid)
    return "X" if found is None else found.state
