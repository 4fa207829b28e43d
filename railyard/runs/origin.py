"""Where results come from: the command that made them, the state of the code, the machine, when."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import psutil

from railyard.cluster.units import format_count, format_size


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a run's folder comes from: ``origin.json``."""

    command: str | None  #: as it can be typed again; None: made by a program of the user's
    folder: str  #: in which the command was typed
    version: str  #: of Railyard
    commit: str | None  #: of the checkout, "-dirty" if files differ from it; None: not a checkout
    written_at: str  #: ISO 8601, with the offset from UTC
    host: str  #: the machine's name
    cpu: str  #: its model
    cpus: int
    memory_bytes: int
    system: str  #: the kernel and Python

    def rows(self) -> Iterator[tuple[str, str]]:
        """Names and words for readers."""
        yield "Command", self.command or "none: from a program"
        yield (
            "Version",
            f"Railyard {self.version}" + (f", commit {self.commit}" if self.commit else ""),
        )
        yield "Date", self.written_at.replace("T", " ")
        memory = format_size(self.memory_bytes)
        yield (
            "Machine",
            f"{self.host}: {format_count(self.cpus, 'CPU')} ({self.cpu}), {memory}, {self.system}",
        )


def origin_now() -> Origin:
    """That of what this process writes now."""
    typed = click.get_current_context(silent=True) is not None
    return Origin(
        command=shlex.join(["railyard", *sys.argv[1:]]) if typed else None,
        folder=str(Path.cwd()),
        version=version("railyard"),
        commit=commit(),
        written_at=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        host=platform.node(),
        cpu=_cpu(),
        cpus=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
    )


def commit() -> str | None:
    """The commit of the checkout, "-dirty" if files differ from it; None outside of one."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--match="],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def code_state() -> str:
    """The commit, or Railyard's version."""
    return commit() or f"railyard {version('railyard')}"


def _cpu() -> str:
    """The model of the machine's CPUs, or what they are called in general."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
