"""What every process of a cluster does about its own life: die with its parent, stop when asked.

On Linux the kernel does the first; elsewhere a process looks at its parent once a second.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import NoReturn

from railyard.cluster.messaging.reactor import Reactor

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTORS = 2**16


def fork(main: Callable[[], int | None]) -> int:
    """Run ``main`` in a child that dies with this process; the child's process id.

    It exits with what ``main`` returns (None: 0), or with 1 and a traceback on its stderr.
    """
    parent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(main, parent_pid)
    return pid


def _live(main: Callable[[], int | None], parent_pid: int) -> NoReturn:
    """Be a forked child: whatever happens, nothing of the parent's own work is done in it."""
    status = 1
    try:
        die_with_parent(parent_pid)
        status = main() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # a full disk
            status = status or 1
        finally:
            os._exit(status)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends.

    To be called first thing after a fork; ``parent_pid`` is what the parent's ``os.getpid()`` was
    before it, so that a parent that ended in between is noticed.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def allow_many_descriptors() -> None:
    """Let this process and its children have as many as the system grants for the asking.

    A map output that is being served takes one, and so does each connection to a daemon; what
    shells allow by default, 1024, is too few for a large job.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))


def close_descriptors_but(kept: Container[int]) -> None:
    """Close what this process has inherited, but for standard streams and what is ``kept``.

    For a forked child, before it opens anything: no object of its own may have a descriptor yet.
    """
    with os.scandir("/proc/self/fd") as entries:
        inherited = [int(entry.name) for entry in entries]
    for number in inherited:
        if number > 2 and number not in kept:
            with suppress(OSError):  # the one that the folder itself was read by
                os.close(number)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be reaped here."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def stop_on_sigterm(reactor: Reactor) -> None:
    """Make ``reactor.run`` return on SIGTERM, SIGINT, and when the parent is gone."""
    wake = wake_on_signals((signal.SIGTERM, signal.SIGINT))
    reactor.add(wake, reactor.stop)
    if sys.platform != "linux":
        parent_pid = os.getppid()
        reactor.call_every(1.0, lambda: reactor.stop() if os.getppid() != parent_pid else None)


def wake_on_signals(signals: Iterable[signal.Signals]) -> int:
    """A file descriptor that can be read (a byte a signal) once one of ``signals`` has come."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, _noted)
    return readable


def _noted(_number: int, _frame: object) -> None:
    """The signal's number is in the wake-up pipe already."""


def kill_descendants(grace_s: float = 2.0) -> None:
    """Kill whatever descends from this process and reap it; raises nothing if there is none."""
    import psutil  # only when something is torn down: no daemon needs it

    deadline_s = time.monotonic() + grace_s
    while time.monotonic() < deadline_s:
        family = psutil.Process().children(recursive=True)
        for member in family:
            try:
                member.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        reap()
        if not family:
            return
        time.sleep(0.005)


def kill_strays(known: Container[int]) -> None:
    """Kill and reap the children of this process that are not ``known``.

    For a process of one thread that adopts orphans: what its children had started and left behind.
    What a stray has started becomes a stray, and is killed as well.
    """
    while strays := signal_strays(known):
        for pid in strays:
            os.waitpid(pid, 0)


def signal_strays(known: Container[int]) -> list[int]:
    """Send SIGKILL to the children of this process that are not ``known``; which that are.

    For those who must not wait: they hear by SIGCHLD when it is time to reap and to look again.
    """
    strays = [pid for pid in _children() if pid not in known]
    for pid in strays:
        os.kill(pid, signal.SIGKILL)  # until it is reaped the number is its own
    return strays


def _children() -> list[int]:
    """Those of this thread: of the whole process if it has one.  Ended ones count until reaped."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # neither Linux, nor do orphans come here then
        return []


def reap() -> list[tuple[int, int]]:
    """Process id and wait status of every child that has ended."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def how_it_ended(status: int) -> str:
    """Say "exit 1" or "signal 9 (SIGKILL)" for a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"signal {number} ({signal.Signals(number).name})"
    return f"exit {os.waitstatus_to_exitcode(status)}"


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc().prctl(option, value, 0, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    """The C library; forked processes inherit it, so that each fork does not look for it again."""
    return ctypes.CDLL(None, use_errno=True)
