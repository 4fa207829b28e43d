"""The processes and files of a live cluster, as faults find them, and what is done to them.

Not here: which are hit when (``plan``), and the rest that faults do (``injector``).
"""

from __future__ import annotations

import json
import os
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from railyard.cluster.machine import is_alive
from railyard.cluster.runfolder import RunFolder


class NewLines:
    """The whole lines that were added to a file since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def read(self) -> list[bytes]:
        """These lines, without their ends; none if there is no such file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read_bytes += len(whole) + len(newline)
        return whole.splitlines()


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


def limit(which: int, pid: int, most: int | None) -> bool:
    """Set a limit of a process, such as ``RLIMIT_FSIZE``; None: as high as it may be.

    Returns whether there was such a process.
    """
    try:
        _, hard = resource.prlimit(pid, which)
        resource.prlimit(pid, which, (hard if most is None else most, hard))
    except ProcessLookupError:
        return False
    return True


# Block files and map outputs as they lie on a cluster's disks, and what damages them
Damage = Callable[[random.Random, list[Path]], None]


def replicas(run_folder: Path) -> dict[str, list[Path]]:
    """{name of a block's file: its replicas}, of all nodes."""
    found: dict[str, list[Path]] = {}
    for path in sorted(run_folder.glob("nodes/*/blocks/*")):
        if path.is_file() and path.suffix != ".part":
            found.setdefault(path.name, []).append(path)
    return found


def map_outputs(run_folder: Path) -> list[Path]:
    """The map outputs that there are now."""
    return [path for path in sorted(run_folder.glob("nodes/*/shuffle/*/*")) if path.is_file()]


def flip(dice: random.Random, paths: list[Path]) -> None:
    """Flip some bits, in place."""
    for path in paths:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            for _ in range(dice.choice((1, 3))):
                at = dice.randrange(max(size, 1))
                byte = os.pread(file.fileno(), 1, at)
                if byte:
                    os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << dice.randrange(8)]), at)


def overwrite(dice: random.Random, paths: list[Path]) -> None:
    """Write other bytes over the middle, in place."""
    for path in paths:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            os.pwrite(file.fileno(), dice.randbytes(size // 2), size // 4)


def delete(_: random.Random, paths: list[Path]) -> None:
    """Remove."""
    for path in paths:
        path.unlink()
