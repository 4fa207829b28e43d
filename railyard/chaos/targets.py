"""The processes and files of a live cluster: what faults do to them, and when they are well again.

Not here: which are hit when (``plan``), and the rest that faults do (``injector``).
"""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.files import NewLines
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


# Recoveries: steps that end once a cluster has recovered from a fault -----------------------------
Recovery = Generator[None, None, None]


def at_once() -> Recovery:
    """What is mended works again."""
    yield from ()


def answers(
    transport: Transport,
    daemon: str,
    question: Message,
    answer: type[M],
    is_right: Callable[[M], bool] = lambda _: True,
) -> Recovery:
    """A daemon answers, and its answer is right; until then the request is repeated."""
    received: list[M | Refusal] = []
    with closing(LastingLink(transport, daemon)) as link:
        while True:
            link.insist(question, answer, lambda got, _: received.append(got))
            while not received:
                yield
            got = received.pop()
            if not isinstance(got, Refusal) and is_right(got):
                return
            yield from _pause(_ASK_AGAIN_S)


def another(
    processes: Processes,
    role: str,
    is_it: Callable[[dict[str, Any]], bool],
    is_needless: Callable[[], bool] = bool,  # it is always replaced
) -> Recovery:
    """A process of a role comes in place of the dead one (``is_it``), or ``is_needless``."""
    while not (any(map(is_it, processes.living(role))) or is_needless()):
        yield


def replicated(
    folder: RunFolder,
    wanted: Mapping[str, tuple[int, bytes | None]],
    spared: set[str],
    notice: Callable[[], None] = lambda: None,
) -> Recovery:
    """Each of these blocks has so many sound replicas again, or is no longer wanted.

    ``wanted``: {file: (number, sound content; None if all that there are count)}.  ``notice`` is
    called now and again until then, as a reader would come upon the damage.  ``spared`` has the
    names of all blocks that lack replicas.
    """
    disks = [path / "blocks" for path in sorted((folder.path / "nodes").iterdir())]
    missing, noticed_s = dict(wanted), float("-inf")
    spared |= wanted.keys()
    while True:
        for name, (number, content) in list(missing.items()):
            found = sum(_is_sound(disk / name, content) for disk in disks)
            if not 0 < found < number:
                del missing[name]
        if not missing:
            break
        if time.monotonic() > noticed_s + _NOTICE_AGAIN_S:
            noticed_s = time.monotonic()
            notice()
        yield from _pause(_CHECK_AGAIN_S)
    spared -= wanted.keys()


def _is_sound(path: Path, content: bytes | None) -> bool:
    try:
        return path.is_file() if content is None else path.read_bytes() == content
    except OSError:
        return False


def _pause(length_s: float) -> Recovery:
    end_s = time.monotonic() + length_s
    yield
    while time.monotonic() < end_s:
        yield
