"""Finds and kills all processes of a cluster, by an environment variable with the cluster's id.

The supervisor's environment is inherited by all its descendants: also by processes that user code
starts in a session of their own, and by those left over after a kill -9 of the supervisor.
A process is signalled through a descriptor opened before its environment was checked, so a reused
process id does no harm.  (Linux only.)
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

_MARK = "RAILYARD_CLUSTER"
#: Time to wait for killed processes before looking for more.
_LOOK_AGAIN_S = 0.2


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
                _kill(process)
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


def _kill(process: int) -> None:
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended


def _wait_until_ended(processes: list[int]) -> None:
    until_s = time.monotonic() + _LOOK_AGAIN_S
    poll = select.poll()
    for process in processes:
        poll.register(process, select.POLLIN)
    left = len(processes)
    while left and (left_s := until_s - time.monotonic()) > 0:
        for process, _ in poll.poll(left_s * 1000):
            poll.unregister(process)
            left -= 1
