"""Running ``railyard`` in tests as people do: as a process, in a home of its own."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import psutil
import pytest

from railyard.cli.main import run

ROOT = Path(__file__).parent.parent
#: A topology for tests with whole clusters.
SMALL = ROOT / "tests" / "integration" / "small.toml"


class CommandLine:
    """``railyard`` with a home folder that no other test uses."""

    def __init__(self, home: Path) -> None:
        self.home = home
        # wide enough that no table folds its texts
        self.environment = os.environ | {"RAILYARD_HOME": str(home), "COLUMNS": "200"}
        self.environment.pop("PYTHONPATH", None)  # what is installed, and nothing else, is found

    def run(
        self, *arguments: str | Path, cwd: Path | None = None, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "railyard.cli.main", *map(str, arguments)],
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            timeout=100,
            input=stdin,
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )

    def call(
        self, *arguments: str | Path, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, for those that end at once: it takes no start."""
        out, errors = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
            patch.setattr(sys, "argv", ["railyard", *map(str, arguments)])
            patch.setenv("RAILYARD_HOME", str(self.home))
            patch.chdir(cwd or Path.cwd())
            status = run()
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())

    def ok(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run a command that must succeed; what it printed."""
        done = self.run(*arguments, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(
        self, *arguments: str | Path, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        """Start a command and leave it to the test."""
        return subprocess.Popen(
            preexec_fn=_heed_interrupts,
            args=[sys.executable, "-P", "-m", "railyard.cli.main", *map(str, arguments)],
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self) -> list[psutil.Process]:
        """Every process of clusters in this home: their command lines name it."""
        found = []
        for process in psutil.process_iter():
            try:
                if any(str(self.home) in word for word in process.cmdline()):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found

    def run_folders(self) -> list[Path]:
        """The folders of clusters that are there."""
        return sorted((self.home / "clusters").glob("c-*"))

    def current(self) -> Path | None:
        """The run folder of the cluster that was left running, alive or not."""
        link = self.home / "clusters" / "current"
        return link.resolve() if link.exists() else None

    def nothing_left(self) -> bool:
        """Whether neither a process nor a run folder nor the note of a current cluster is left."""
        left = {path.name for path in (self.home / "clusters").glob("*")}
        return not self.processes() and left <= {"lock", "permits"}


def command_line() -> Iterator[CommandLine]:
    """A command line; afterwards the test fails if it left anything, which is removed."""
    with tempfile.TemporaryDirectory(prefix="ry") as home:
        line = CommandLine(Path(home))
        yield line
        left = [" ".join(process.cmdline()) for process in line.processes()]
        left += [str(path) for path in line.run_folders()]
        for process in line.processes():
            process.kill()
        assert not left, f"left behind: {left}"


def up(line: CommandLine, *options: str | Path) -> Iterator[CommandLine]:
    """The command line with a cluster that is up; afterwards nothing of it may be left."""
    line.ok("up", *options)
    yield line
    line.ok("down")
    assert line.nothing_left()


def _heed_interrupts() -> None:
    """Whoever runs the tests in the background ignores interrupts; these commands must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ctrl-C a command: its exit status and what it said."""
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    return process.returncode, stderr
