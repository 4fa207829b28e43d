"""The processes of a cluster as its run folder lists them, and what is done to them."""

from __future__ import annotations

import json
import resource
from contextlib import suppress
from typing import Any

from railyard.cluster.files.procfs import is_alive
from railyard.cluster.files.runfolder import RunFolder
from railyard.scripts.chaos.newlines import NewLines


class Processes:
    """The processes of a cluster that live, as they come and go."""

    def __init__(self, folder: RunFolder) -> None:
        self._lines = NewLines(folder.path / "processes.jsonl")
        self._rows: list[dict[str, Any]] = []

    def living(self, role: str = "", name: str = "") -> list[dict[str, Any]]:
        """Those of a role or a name if one is given, the oldest first: role, name, pid."""
        for line in self._lines.read():
            with suppress(json.JSONDecodeError):  # cut short by a full disk
                self._rows.append(json.loads(line))
        self._rows = [row for row in self._rows if is_alive(row["pid"])]
        return [
            row for row in self._rows if role in ("", row["role"]) and name in ("", row["name"])
        ]


def pid_of(row: dict[str, Any]) -> int:
    """The process of a row of a run folder's list."""
    return int(row["pid"])


def fill_disk_of(pid: int) -> bool:
    """Have a process find that no file may grow, as on a full disk; whether there was one."""
    return _limit_files(pid, 0)


def free_disk_of(pid: int) -> bool:
    """Let its files grow again."""
    return _limit_files(pid, None)


def _limit_files(pid: int, size_bytes: int | None) -> bool:
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        soft = hard if size_bytes is None else size_bytes
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    except ProcessLookupError:
        return False
    return True
