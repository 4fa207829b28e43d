"""The processes and files of a live cluster: what faults do to them, and when they are well again.

Not here: which are hit when (``plan``), and the rest that faults do (``injector``).
"""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from railyard.cluster.machine import is_alive
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.cluster.runfolder import RunFolder

M = TypeVar("M", bound=Message)

#: Between two questions to a daemon whose answer was not yet right.
_ASK_AGAIN_S = 0.05
#: Between two checks of the disks, and two notices of damage.
_CHECK_AGAIN_S = 0.1
_NOTICE_AGAIN_S = 1.0
#: In events after which a task, or a job, needs no more attempts.
_ENDS = (b'"attempt-succeeded"', b'"job-committed"', b'"job-killed"', b'"job-commit-failed"')


class NewLines:
    """The whole lines that were added to a file since they were last read."""

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


# Watches: what shows that a cluster has recovered from a fault ------------------------------------
class Watch:
    """Looks for a recovery; this one for that of what is well at once."""

    def is_well(self) -> bool:
        return True

    def close(self) -> None:
        """Stop watching."""


class Answers(Watch, Generic[M]):
    """A daemon answers, and its answer is right; until then the request is repeated."""

    def __init__(
        self,
        transport: Transport,
        daemon: str,
        question: Message,
        answer: type[M],
        is_right: Callable[[M], bool] = lambda _: True,
    ) -> None:
        self._reactor = transport.reactor
        self._link = LastingLink(transport, daemon)
        self._question, self._answer, self._is_right = question, answer, is_right
        self._well = False
        self._closed = False
        self._ask()

    def is_well(self) -> bool:
        return self._well

    def close(self) -> None:
        self._closed = True
        self._link.close()

    def _ask(self) -> None:
        if not self._closed:
            self._link.insist(self._question, self._answer, self._answered)

    def _answered(self, answer: M | Refusal, _: memoryview | None) -> None:
        if not isinstance(answer, Refusal) and self._is_right(answer):
            self._well = True
        else:
            self._reactor.call_later(_ASK_AGAIN_S, self._ask)


class InTurn(Watch):
    """One thing is well, then another, which is watched only from then on."""

    def __init__(self, *watches: Callable[[], Watch]) -> None:
        self._later = list(watches[1:])
        self._now = watches[0]()

    def is_well(self) -> bool:
        while self._now.is_well():
            if not self._later:
                return True
            self._now.close()
            self._now = self._later.pop(0)()
        return False

    def close(self) -> None:
        self._now.close()


class Another(Watch):
    """Another process of a role lives, or ``is_needless`` that none will.

    ``is_it``: whether a process of the role comes in place of the dead one.
    """

    def __init__(
        self,
        processes: Processes,
        role: str,
        is_it: Callable[[dict[str, Any]], bool],
        is_needless: Callable[[], bool] = bool,  # it is always replaced
    ) -> None:
        self._processes, self._role = processes, role
        self._is_it, self._is_needless = is_it, is_needless

    def is_well(self) -> bool:
        return any(map(self._is_it, self._processes.living(self._role))) or self._is_needless()


class Journal:
    """Whether a task or its job has ended: by the ResourceManager's journal."""

    def __init__(self, folder: RunFolder) -> None:
        self._lines = NewLines(folder.events)
        self._ended: set[str] = set()

    def has_ended(self, job: str, task: str = "") -> bool:
        """Whether this job has ended, or a task of it has succeeded."""
        for line in self._lines.read():
            if any(tag in line for tag in _ENDS):
                event = json.loads(line)
                attempt = event.get("attempt", "")
                self._ended.add(attempt.rpartition(".")[0] or event["job"])
        return job in self._ended or (task != "" and task in self._ended)


class Replicas(Watch):
    """Each of these blocks has so many sound replicas again, or is no longer wanted.

    ``wanted``: {file: (number, sound content; None if all that there are count)}.  ``notice`` is
    called now and again until then, as a reader would come upon the damage.  ``spared`` has the
    names of all blocks that lack replicas.
    """

    def __init__(
        self,
        folder: RunFolder,
        wanted: Mapping[str, tuple[int, bytes | None]],
        spared: set[str],
        notice: Callable[[], None] = lambda: None,
    ) -> None:
        self._blocks = [path / "blocks" for path in sorted((folder.path / "nodes").iterdir())]
        self._names, self._missing = set(wanted), dict(wanted)
        self._spared = spared
        self._notice = notice
        self._checked_s = self._noticed_s = float("-inf")
        spared |= self._names

    def is_well(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._checked_s + _CHECK_AGAIN_S:
            return not self._missing
        self._checked_s = now_s
        found = {name: self._number(name, content) for name, (_, content) in self._missing.items()}
        self._missing = {
            name: wanted for name, wanted in self._missing.items() if 0 < found[name] < wanted[0]
        }
        if self._missing and now_s > self._noticed_s + _NOTICE_AGAIN_S:
            self._noticed_s = now_s
            self._notice()
        return not self._missing

    def close(self) -> None:
        if not self._missing:
            self._spared -= self._names

    def _number(self, name: str, content: bytes | None) -> int:
        return sum(_is_sound(folder / name, content) for folder in self._blocks)


def _is_sound(path: Path, content: bytes | None) -> bool:
    try:
        return path.is_file() if content is None else path.read_bytes() == content
    except OSError:
        return False
