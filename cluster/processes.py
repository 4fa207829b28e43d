"""A cluster's processes: fork, die with the parent, stop on signals, reap, find, kill.

The kernel kills a process when its parent dies.  All processes of a cluster are found by an
environment variable with its id, which all descendants of the supervisor inherit: also those that
user code starts in a session of their own, and those left over after a kill -9 of the supervisor.
"""

from __future__ import annotations

import getpass
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from railyard.cluster.machine import c_library

if TYPE_CHECKING:
    import psutil  # at run time within functions: no daemon needs it

    from railyard.cluster.messaging.reactor import Reactor

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTORS = 2**16
_MARK = "RAILYARD_CLUSTER"
#: Time after which it is looked again for processes that were killed.
_RECHECK_S = 0.02


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
    c_library().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
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
    c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stop_on_sigterm(reactor: Reactor) -> None:
    """Make ``reactor.run`` return on SIGTERM and SIGINT."""
    reactor.add(wake_on_signals((signal.SIGTERM, signal.SIGINT)), reactor.stop)


def wake_on_signals(signals: Iterable[signal.Signals]) -> int:
    """Return a descriptor that becomes readable on ``signals``, with one byte per signal."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)  # its number is in the pipe already
    return readable


def kill_descendants() -> None:
    """Kill and reap all descendants of this process, if there are any, within two seconds."""
    import psutil

    deadline_s = time.monotonic() + 2.0
    while time.monotonic() < deadline_s:
        family = psutil.Process().children(recursive=True)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
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
    # This thread's children, also those that have ended and are not yet reaped.
    with open("/proc/thread-self/children", encoding="ascii") as file:
        strays = [pid for pid in map(int, file.read().split()) if pid not in known]
    for pid in strays:
        os.kill(pid, signal.SIGKILL)  # its id cannot be reused before it is reaped
    return strays


def reap(options: int = 0) -> list[tuple[int, int]]:
    """Reap all children that have ended; return (process id, wait status) of each.

    With ``options`` (``os.WUNTRACED | os.WCONTINUED``), those that were stopped or continued, too.
    """
    ended: list[tuple[int, int]] = []
    with suppress(ChildProcessError):  # there is none any more
        while (found := os.waitpid(-1, os.WNOHANG | options))[0]:
            ended.append(found)
    return ended


def how_it_ended(status: int) -> str:
    """Format a wait status as "exit 1" or "signal 9 (SIGKILL)"."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"signal {number} ({signal.Signals(number).name})"
    return f"exit {os.waitstatus_to_exitcode(status)}"


# All processes of a cluster -----------------------------------------------------------------------
def marked(environment: dict[str, str], cluster: str) -> dict[str, str]:
    """Return the environment with the id of the cluster, for the supervisor's start."""
    return environment | {_MARK: cluster}


def signal_member(cluster: str, pid: int, number: signal.Signals) -> bool:
    """Signal a process if it exists and belongs to the cluster; return whether it does."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if _is_member(process, cluster):
            process.send_signal(number)
            return True
    return False


def kill_members(cluster: str, timeout_s: float) -> list[int]:
    """Kill all processes of a cluster but this one; return the ids of those that remain."""
    import psutil

    deadline_s = time.monotonic() + timeout_s
    while found := members(cluster):
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if time.monotonic() > deadline_s:
            return sorted(process.pid for process in found)
        time.sleep(_RECHECK_S)  # not psutil's wait: it would reap children of this process
    return []


def members(cluster: str) -> list[psutil.Process]:
    """All processes of a cluster but this one."""
    import psutil

    others = (process for process in psutil.process_iter() if process.pid != os.getpid())
    return [process for process in others if _is_member(process, cluster)]


def _is_member(process: psutil.Process, cluster: str) -> bool:
    """Whether a process belongs to the cluster; False for one that ends, or of another user."""
    import psutil

    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        is_own = process.uids().effective == os.geteuid()
        return is_own and process.environ().get(_MARK) == cluster
    return False


def user_name() -> str:
    """The user's name, or "user" for an account without one, as in containers."""
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return "user"
