"""A RAILYARD_HOME of an attack's own: commands in it, its processes, and what is left of them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from railyard.benchmarks.attacks._grounds.guard import kill_all, processes_of
from railyard.chaos.targets import Processes
from railyard.cluster.runfolder import RunFolder

SMALL = Path(__file__).parent / "small.toml"
_ROOT = Path(__file__).resolve().parents[3]
_COMMAND_TIMEOUT_S = 90.0
_LEFT_TIMEOUT_S = 8.0
#: A run folder has this in it, wherever below the home it is.
_SOCKETS = "sockets"
#: A home has this, wherever below it, while a cluster is up.
_CURRENT = "current"


class Broken(Exception):
    """An attack did something that must not be: says what."""


def require(holds: object, what: str) -> None:
    """Raise ``Broken`` unless it holds."""
    if not holds:
        raise Broken(what)


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    command: str
    status: int
    stdout: bytes
    stderr: str

    def require(self, holds: object, what: str) -> None:
        """Raise ``Broken``, with what the command said, unless it holds."""
        if not holds:
            said = " / ".join(self.stderr.strip().splitlines()[-3:])[-600:]
            raise Broken(f"{self.command}: {what}; exit {self.status}: {said}")

    def require_words(self) -> None:
        """It ended with words for people: no traceback, and not by a signal nobody sent."""
        self.require("Traceback" not in self.stderr, "a traceback")
        self.require(self.status >= 0, "ended by a signal")

    def require_ok(self) -> None:
        """It did what it was asked to do."""
        self.require_words()
        self.require(self.status == 0, "failed")

    def require_clear_failure(self, *words: str) -> None:
        """It failed, other than by a wrong command or a bug, and said one of ``words``."""
        self.require_words()
        self.require(self.status in (1, 3, 4), "should have failed with exit 1, 3 or 4")
        said = self.stderr.lower()
        self.require(
            not words or any(word.lower() in said for word in words), f"should name {words}"
        )


class Command:
    """A command that runs."""

    def __init__(
        self,
        home: Home,
        arguments: tuple[str, ...],
        prepare: Callable[[], None],
        stdout: int | None = None,
    ) -> None:
        self.text = f"railyard {' '.join(arguments)}".replace(str(SMALL), "small.toml")
        self.begun_s = time.monotonic()
        self._files = [tempfile.TemporaryFile(dir=home.scratch) for _ in range(2)]  # noqa: SIM115  closed in end
        self.process = subprocess.Popen(
            [sys.executable, "-m", "railyard.cli.main", *arguments],
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=self._files[0] if stdout is None else stdout,
            stderr=self._files[1],
            preexec_fn=prepare,
        )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.running:
            self.process.send_signal(number)

    def end(self, timeout_s: float = _COMMAND_TIMEOUT_S) -> Ran:
        """Wait for its end.  ``Broken`` if that takes too long; it is killed then."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Broken(f"{self.text}: hangs: no end within {timeout_s:g} s") from None
        said = []
        for file in self._files:
            file.seek(0)
            said.append(file.read())
            file.close()
        return Ran(self.text, status, said[0], said[1].decode("utf-8", "replace"))

    def require_verified(self) -> Ran:
        """It is a job that ended well, and its output was checked."""
        ran = self.end()
        ran.require_ok()
        ran.require(b"verified" in ran.stdout, "was not verified")
        return ran


class Home:
    """One home, with a scratch folder beside it."""

    def __init__(self, folder: Path, stopping: threading.Event, dice: random.Random) -> None:
        self.path = folder / "h"
        self.scratch = folder / "scratch"
        self.dice = dice
        self._stopping = stopping
        self.path.mkdir(mode=0o700, parents=True)
        self.scratch.mkdir()
        self.environment = os.environ | {
            "RAILYARD_HOME": str(self.path),
            "PYTHONPATH": str(_ROOT),
            "TMPDIR": str(self.scratch),
        }

    @property
    def is_stopping(self) -> bool:
        """Whether the attacks are being stopped."""
        return self._stopping.is_set()

    # Commands ----------------------------------------------------------------------------------
    def start(
        self,
        *arguments: str | Path,
        limit: Callable[[], None] | None = None,
        stdout: int | None = None,
    ) -> Command:
        """Start a command; ``limit`` is called in its process before it is one.

        What it prints is kept, or goes to the descriptor ``stdout``.
        """
        if self._stopping.is_set():
            raise Broken("the attacks were stopped")

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what runs in the background
            if limit is not None:
                limit()

        return Command(self, tuple(map(str, arguments)), prepare, stdout)

    def run(self, *arguments: str | Path, timeout_s: float = _COMMAND_TIMEOUT_S) -> Ran:
        """Run a command to its end."""
        return self.start(*arguments).end(timeout_s)

    def start_job(self, size: str = "1GB", workload: str = "terasort") -> Command:
        """Run a job with verified output, on the cluster that is up or on a new one."""
        topology = () if self.is_up else ("--topology", SMALL)
        return self.start("run", workload, "--size", size, *topology)

    def up(self) -> None:
        """Have a cluster up."""
        self.run("up", "--topology", SMALL).require_ok()

    def down(self) -> None:
        """End the cluster that is up; nothing is left of it."""
        self.run("down").require_ok()
        self.require_nothing_left()

    @property
    def is_up(self) -> bool:
        return any(_CURRENT in {*inner, *files} for _, inner, files in os.walk(self.path))

    @property
    def lives(self) -> bool:
        """Whether a cluster's supervisor lives."""
        return bool(self.rows("Supervisor"))

    # Processes ---------------------------------------------------------------------------------
    def run_folders(self) -> list[Path]:
        """The folders of clusters, dead or alive."""
        found = []
        for folder, inner, _ in os.walk(self.path):  # folders that go meanwhile are left out
            if _SOCKETS in inner:
                found.append(Path(folder))
                inner.clear()  # a cluster's disks may have very many files, and no cluster
        return found

    def run_folder(self) -> Path:
        """The folder of the one cluster."""
        found = self.run_folders()
        require(len(found) == 1, f"{len(found)} run folders: need one")
        return found[0]

    def rows(self, role: str) -> list[dict[str, Any]]:
        """The processes of a role that live, the oldest first: role, name, pid."""
        rows = []
        for folder in self.run_folders():
            rows += Processes(RunFolder(folder)).living(role)
        return rows

    def living(self) -> list[int]:
        """All processes that were started with this home."""
        return processes_of(self.path)

    def is_ready(self) -> bool:
        """Whether a cluster's daemons are all up."""
        events = [
            row for folder in self.run_folders() for row in _lines(folder / "supervisor.jsonl")
        ]
        return any(row.get("event") == "ready" for row in events)

    def wait_for(self, what: str, holds: Callable[[], object], timeout_s: float = 40.0) -> None:
        """Wait until something holds; ``Broken`` if it takes longer than that."""
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            require(time.monotonic() < deadline_s, f"waited {timeout_s:g} s for {what}")
            require(not self._stopping.is_set(), "the attacks were stopped")
            time.sleep(0.01)

    def require_nothing_left(self) -> None:
        """``Broken`` unless all processes and run folders are gone, or go in a moment."""
        deadline_s = time.monotonic() + _LEFT_TIMEOUT_S
        while left := self._left():
            require(time.monotonic() < deadline_s, f"left behind: {', '.join(left)[:400]}")
            time.sleep(0.02)

    def _left(self) -> list[str]:
        left = [f"process {pid} ({_command_of(pid)})" for pid in self.living()]
        return left + [str(path) for path in self.run_folders()]

    # Files -------------------------------------------------------------------------------------
    def random_file(self, name: str, size_bytes: int) -> Path:
        """A new local file."""
        path = self.scratch / name
        path.write_bytes(self.dice.randbytes(size_bytes))
        return path

    def close(self) -> None:
        """Remove all of it."""
        kill_all(self.path)
        shutil.rmtree(self.path.parent, ignore_errors=True)


class Grounds:
    """A private folder for all homes, which a guard removes whatever becomes of this process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rya-", dir="/tmp"))  # short, for sockets' paths
        self.stopping = threading.Event()
        self._made = 0
        self._lock = threading.Lock()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "railyard.benchmarks.attacks._grounds.guard", str(self.folder)],
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )

    def home(self, dice: random.Random) -> Home:
        """A new home."""
        with self._lock:
            self._made += 1
            return Home(self.folder / str(self._made), self.stopping, dice)

    def __enter__(self) -> Grounds:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Have everything killed and removed; no command is started from now on."""
        self.stopping.set()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return b" ".join(words[1:5]).decode("utf-8", "replace")


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON; none if there is no such file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
