"""The processes of a test's cluster, as its run folder lists them: to look for, and to kill."""

from __future__ import annotations

import os
import signal
from typing import Any

from railyard.cluster.runfolder import RunFolder
from railyard.runs.home import daemons_of
from tests.command_line import CommandLine
from tests.waiting import wait_for


def folder_of(line: CommandLine) -> RunFolder:
    """The run folder of the only cluster."""
    [folder] = line.run_folders()
    return RunFolder(folder)


def rows_of(line: CommandLine, role: str, prefix: str = "") -> list[dict[str, Any]]:
    """All processes of a role so far whose names begin like that; none before there is a cluster.

    Each has its role, name and pid.
    """
    rows = folder_of(line).processes() if line.run_folders() else []
    return [row for row in rows if row["role"] == role and row["name"].startswith(prefix)]


def attempts_of(line: CommandLine, prefix: str = "") -> list[dict[str, Any]]:
    """The processes of attempts so far: of a job ("j2."), or of a stage of it ("j2.m")."""
    return rows_of(line, "Attempt", prefix)


def pid_of(line: CommandLine, name: str) -> int:
    """The process of a daemon, as it was started last."""
    return next(row["pid"] for row in daemons_of(folder_of(line)) if row["name"] == name)


def kill_all(line: CommandLine, role: str) -> list[int]:
    """Kill -9 all daemons of a role; their process ids."""
    pids = _pids(line, role)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids


def wait_until_back(line: CommandLine, role: str, killed: list[int]) -> None:
    """Wait until the daemons of a role that were killed have been started again."""

    def back() -> bool:
        pids = _pids(line, role)
        return len(pids) == len(killed) and not set(pids) & set(killed)

    wait_for(back, why=f"{role}s are started again")


def restart(line: CommandLine, name: str) -> None:
    """Kill -9 a daemon; it is back under another process id when this returns."""
    killed = pid_of(line, name)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: pid_of(line, name) != killed, 40, f"{name} is started again")


def _pids(line: CommandLine, role: str) -> list[int]:
    return [row["pid"] for row in daemons_of(folder_of(line)) if row["role"] == role]
