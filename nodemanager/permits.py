"""Permits to use the machine's CPUs: only so many attempts start or compute at once.

All NodeManagers of all clusters are processes of one machine.  Without a bound, thousands of
attempts that begin together keep its cores busy for minutes, and what is late then looks like slow
disks, slow networks and dead daemons.  So an attempt has a permit from before it is forked until
it waits for the first time (for bytes, or for its pace), and needs another one to compute again.
A job's helper has one while it imports the job's module.

Permits are bytes of one file that all clusters of Railyard's home share, locked by the NodeManager
that uses them: the kernel gives those of a dead one back.

Never here: what attempts do, and who learns of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.machine import process_stat
from railyard.cluster.messaging.reactor import Reactor, now_s

#: Permits for each CPU: attempts that start wait for answers now and then, and other programs of
#: the machine take their share of each CPU.
_EACH_CPU = 4
_LEAST = 4
#: A NodeManager tries again to get a permit after so long, then after twice as long, and so on.
_RETRY_S_MIN = 0.005
#: In the end all NodeManagers together try so often a second, which takes 3 % of a CPU.
_RETRIES_PER_S = 500.0
#: A NodeManager passes a permit on among its own attempts for so long, then others have a chance.
_PASSED_ON_S = 0.1
#: How often it is checked whether those who have permits compute.
_USE_PERIOD_S = 0.25
#: Who wanted a CPU for less than this share of the time does not compute.
_USE_SHARE = 0.5


def permits_of_machine() -> int:
    """How many attempts may start or compute at once on this machine."""
    return max(_LEAST, _EACH_CPU * len(os.sched_getaffinity(0)))


class SharedPermits:
    """Permits that the processes of a machine share, as locks of a file's bytes; one a process."""

    def __init__(self, file: Path, count: int) -> None:
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._others = list(range(count))  #: those that this process has not

    def take(self) -> int | None:
        for place, number in enumerate(self._others):
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except (BlockingIOError, PermissionError):  # POSIX allows either
                continue
            del self._others[place]
            return number
        return None

    def give_back(self, number: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, number)
        self._others.append(number)


@dataclass
class _Permit:
    number: int
    since_s: float  #: when this NodeManager took it
    pid: int | None = None  #: who computes; None: its process is not known yet
    wanted_s: float = 0.0  #: how long that process had wanted a CPU at ``checked_s``
    checked_s: float = 0.0


class Permits:
    """The permits of one NodeManager's attempts: who has one, and who waits for one."""

    def __init__(self, reactor: Reactor, shared: SharedPermits, racks: int) -> None:
        self._reactor = reactor
        self._shared = shared
        self._retry_s_max = max(_RETRY_S_MIN, racks / _RETRIES_PER_S)
        self._retry_s = _RETRY_S_MIN
        self._waiting: dict[str, Callable[[], None]] = {}  #: in order
        self._given: dict[str, _Permit] = {}
        self._retry_is_due = False  #: for permits that others give back
        self._checks = False  #: whether those given are in use

    def ask(self, who: str, granted: Callable[[], None]) -> None:
        """Call ``granted`` once ``who`` has a permit: at once or later."""
        if who in self._given:
            granted()
            return
        self._waiting[who] = granted
        if len(self._waiting) == 1:
            self._give_out()

    def runs_as(self, who: str, pid: int) -> None:
        """``who`` has a process: if that does not compute, its permit goes to another."""
        permit = self._given.get(who)
        if permit is not None:
            permit.pid, permit.wanted_s, permit.checked_s = pid, _wanted_s(pid), now_s()

    def give_back(self, who: str) -> None:
        """``who`` has ended, or waits: it needs no permit now, and asks for none."""
        self._waiting.pop(who, None)
        permit = self._given.pop(who, None)
        if permit is None:
            return
        if self._waiting and now_s() - permit.since_s < _PASSED_ON_S:
            self._give(permit.number, permit.since_s)
        else:
            self._shared.give_back(permit.number)
            self._retry_later()

    def waits(self, who: str) -> bool:
        return who in self._waiting

    def _give_out(self) -> None:
        while self._waiting:
            number = self._shared.take()
            if number is None:
                self._retry_later()
                return
            self._give(number, now_s())
        self._retry_s = _RETRY_S_MIN

    def _give(self, number: int, since_s: float) -> None:
        who = next(iter(self._waiting))
        granted = self._waiting.pop(who)
        self._given[who] = _Permit(number, since_s)
        if not self._checks:
            self._checks = True
            self._reactor.call_later(_USE_PERIOD_S, self._check_use)
        granted()

    def _retry_later(self) -> None:
        if self._waiting and not self._retry_is_due:
            self._retry_is_due = True
            self._reactor.call_later(self._retry_s, self._retry)
            self._retry_s = min(2 * self._retry_s, self._retry_s_max)

    def _retry(self) -> None:
        self._retry_is_due = False
        self._give_out()

    def _check_use(self) -> None:
        """Take permits back of those that sleep, such as user code that waits for something."""
        self._checks = False
        now = now_s()
        for who, permit in list(self._given.items()):
            passed_s = now - permit.checked_s
            if permit.pid is None or passed_s < _USE_PERIOD_S / 2:
                continue
            wanted_s = _wanted_s(permit.pid)
            slept = wanted_s - permit.wanted_s < _USE_SHARE * passed_s
            found = process_stat(permit.pid)
            if slept and (found is None or found.state != "R"):  # nor waits for a CPU now
                self.give_back(who)
            else:
                permit.wanted_s, permit.checked_s = wanted_s, now
        if self._given:
            self._checks = True
            self._reactor.call_later(_USE_PERIOD_S, self._check_use)


def _wanted_s(pid: int) -> float:
    """Seconds for which a process has run or, in waits that are over, waited for a CPU; or 0."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as text:
            ran_ns, waited_ns, _ = map(int, text.read().split())
    except (OSError, ValueError):
        return 0.0
    return (ran_ns + waited_ns) / 1e9
