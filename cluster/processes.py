"""A cluster's processes: fork, die with the parent, stop on signals, reap, find, kill.

On Linux the kernel kills a process when its parent dies; elsewhere a process checks its parent once
a second.  All processes of a cluster are found (on Linux) by an environment variable with its id,
which all descendants of the supervisor inherit: also those that user code starts in a session of
their own, and those left over after a kill -9 of the supervisor.
"""

from __future__ import annotations

import ctypes
import functools
import getpass
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from railyard.cluster.messaging.reactor import Reactor

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTORS = 2**16
_MARK = "RAILYARD_CLUSTER"
#: Time to wait for killed processes before looking for more.
_RECHECK_S = 0.2


def fork(main: Callable[[], int | None]) -> int:
    """Run ``main`` in a child that dies with this process; return the child's process id.

    Its exit status is the result of ``main`` (None: 0), or 1 with a traceback on its stderr.
    """
    parent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(main, parent_pid)
    return pid


def _live(main: Callable[[], int | None], parent_pid: int) -> NoReturn:
    """Run ``main`` in the forked child and exit: the child never returns to the parent's code."""
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
    """Have the kernel kill this process when its parent ends in any way.

    To be called first after a fork; ``parent_pid`` is the parent's ``os.getpid()`` from before it,
    so that a parent that ended in between is noticed.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def allow_many_descriptors() -> None:
    """Raise the soft limit on open files of this process and its children to the hard limit.

    Each map output that is being served takes a descriptor, and so does each connection; the usual
    soft limit, 1024, is too low for a large job.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))


def close_descriptors_but(kept: Container[int]) -> None:
    """Close all inherited descriptors except the standard streams and those in ``kept``.

    For a forked child, before it opens anything.
    """
    with os.scandir("/proc/self/fd") as entries:
        inherited = [int(entry.name) for entry in entries]
    for number in inherited:
        if number > 2 and number not in kept:
            with suppress(OSError):  # the descriptor by which the folder was listed
                os.close(number)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants (subreaper), so that they can be reaped here."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def stop_on_sigterm(reactor: Reactor) -> None:
    """Make ``reactor.run`` return on SIGTERM and SIGINT, and when the parent has ended."""
    wake = wake_on_signals((signal.SIGTERM, signal.SIGINT))
    reactor.add(wake, reactor.stop)
    if sys.platform != "linux":
        parent_pid = os.getppid()
        reactor.call_every(1.0, lambda: reactor.stop() if os.getppid() != parent_pid else None)


def wake_on_signals(signals: Iterable[signal.Signals]) -> int:
    """Return a descriptor that becomes readable on ``signals``, with one byte per signal."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, _noted)
    return readable


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: Python has written the signal's number to the wake-up pipe."""


def kill_descendants() -> None:
    """Kill and reap all descendants of this process, if there are any, within two seconds."""
    import psutil  # imported late: no daemon needs it

    deadline_s = time.monotonic() + 2.0
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

    For a single-threaded process that adopts orphans: these are the processes that its ended
    children left behind.  The children of a stray become strays, and are killed as well.
    """
    while strays := signal_strays(known):
        for pid in strays:
            os.waitpid(pid, 0)


def signal_strays(known: Container[int]) -> list[int]:
    """Send SIGKILL to the children of this process that are not ``known``; return their ids.

    Does not wait: SIGCHLD says when to reap them and to look again.
    """
    strays = [pid for pid in _children() if pid not in known]
    for pid in strays:
        os.kill(pid, signal.SIGKILL)  # its id cannot be reused before it is reaped
    return strays


def _children() -> list[int]:
    """Process ids of this thread's children, including ended ones that are not yet reaped."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # not Linux, where orphans are not adopted either
        return []


def reap(options: int = 0) -> list[tuple[int, int]]:
    """Reap all children that have ended; return (process id, wait status) of each.

    With ``options`` (``os.WUNTRACED | os.WCONTINUED``), those that were stopped or continued, too.
    """
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | options)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def how_it_ended(status: int) -> str:
    """Format a wait status as "exit 1" or "signal 9 (SIGKILL)"."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"signal {number} ({signal.Signals(number).name})"
    return f"exit {os.waitstatus_to_exitcode(status)}"


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc().prctl(option, value, 0, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    """The C library, cached so that forked processes need not load it again."""
    return ctypes.CDLL(None, use_errno=True)


# All processes of a cluster -----------------------------------------------------------------------
def marked(environment: dict[str, str], cluster: str) -> dict[str, str]:
    """Return the environment with the id of the cluster, for the supervisor's start."""
    return environment | {_MARK: cluster}


def signal_member(cluster: str, pid: int, number: signal.Signals) -> bool:
    """Signal a process if it exists and belongs to the cluster; return whether it does."""
    process = _open(cluster, pid)
    if process is None:
        return False
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def kill_members(cluster: str, timeout_s: float) -> list[int]:
    """Kill all processes of a cluster but this one; return the ids of those that remain."""
    deadline_s = time.monotonic() + timeout_s
    while found := _members(cluster):
        try:
            for process in found.values():
                with suppress(ProcessLookupError):  # it has ended
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            _wait_until_ended(list(found.values()))
        finally:
            for process in found.values():
                os.close(process)
        if time.monotonic() > deadline_s:
            return sorted(found)
    return []


def members(cluster: str) -> list[int]:
    """The ids of all processes of a cluster but this one, sorted."""
    found = _members(cluster)
    for process in found.values():
        os.close(process)
    return sorted(found)


def _members(cluster: str) -> dict[int, int]:
    """{process id: process descriptor} of a cluster's processes.

    Incomplete if this process runs out of descriptors.
    """
    found: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            process = None if pid == os.getpid() else _open(cluster, pid)
        except OSError:
            if found:
                break
            raise
        if process is not None:
            found[pid] = process
    return found


def _open(cluster: str, pid: int) -> int | None:
    """Open a process descriptor; None if it has ended or does not belong to the cluster.

    Raises ``OSError`` if this process has no descriptors left.
    """
    folder = Path(f"/proc/{pid}")
    try:
        if folder.stat().st_uid != os.geteuid():
            return None
        process = os.pidfd_open(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        environment = (folder / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        environment = b""  # it has ended, or is not readable
    except OSError:
        os.close(process)
        raise
    if f"{_MARK}={cluster}".encode() in environment.split(b"\0"):
        return process
    os.close(process)
    return None


def _wait_until_ended(processes: list[int]) -> None:
    until_s = time.monotonic() + _RECHECK_S
    poll = select.poll()
    for process in processes:
        poll.register(process, select.POLLIN)
    left = len(processes)
    while left and (left_s := until_s - time.monotonic()) > 0:
        for process, _ in poll.poll(left_s * 1000):
            poll.unregister(process)
            left -= 1


def user_name() -> str:
    """The user's name, or "user" for an account without one, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"
