"""The folder of a run, on either clock: its files' names, and the only place that writes them.

A simulation writes ``events.jsonl`` there as it goes on, an emulation's is copied from its cluster.
Files of results are written whole or not at all, with an error that says why.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from railyard.cluster.errors import printable
from railyard.cluster.machine import Exhausted, cause_of
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.units import format_count, format_size

if TYPE_CHECKING:
    from railyard.runs.networkwatch import NetworkRecord

SUMMARY = "summary.json"
EVENTS = "events.jsonl"
NETWORK = "network.jsonl"
TRACE = "trace.json"
ORIGIN = "origin.json"
PAGE = "index.html"
#: What each is, in the order in which people want them.
FILES = {
    SUMMARY: "the figures of the run and of its jobs, as --json writes them",
    TRACE: "who had which slot when, shuffles, links: open it at ui.perfetto.dev",
    EVENTS: "every event that the ResourceManager handled; railyard replay runs it again",
    NETWORK: "bytes that each link had carried, over time, and circuits",
    ORIGIN: "the command, the version, the date and the machine",
    "logs": "what the daemons logged",
    "attempts": "what the jobs' attempts wrote to standard error",
}


def save_logs(cluster: RunFolder, results: Path) -> None:
    """Write the logs of daemons and attempts to a new folder; raises ``NotWritten``."""
    with naming(results):
        results.mkdir()
        for name in ("logs", "attempts"):
            shutil.copytree(cluster.path / name, results / name)


def save_emulation(
    cluster: RunFolder, results: Path, summary: dict[str, Any], network: NetworkRecord
) -> None:
    """Write all that an emulated run leaves to a new folder; raises ``NotWritten``."""
    save_logs(cluster, results)
    with naming(results):
        shutil.copy(cluster.jobs / EVENTS, results)
    save_results(results, summary, network)


def save_results(results: Path, summary: dict[str, Any], network: NetworkRecord) -> None:
    """Write summary, network and trace beside the events; raises ``NotWritten``."""
    from railyard.resourcemanager.driving.eventlog import replay
    from railyard.resourcemanager.driving.trace import chrome_trace

    write_json(summary, results / SUMMARY)
    with naming(results):
        network.write(results / NETWORK)
    changes = list(network.link_log.changes())
    trace = chrome_trace(replay(results / EVENTS), network.circuits(), changes)
    write_json(trace, results / TRACE, indent=None)


# Writing ------------------------------------------------------------------------------------------
#: Of more, only the number is said.
_FOLDERS_NAMED_MAX = 4


class NotWritten(Exhausted):
    """A file could not be written: the disk is full, say."""


def write_json(value: Any, file: Path, indent: int | None = 2) -> None:
    """Write a value as JSON; raises ``NotWritten``."""
    write_text(json.dumps(value, indent=indent) + "\n", file)


def write_or_print_json(value: Any, file: str) -> None:
    """Write a value as JSON; "-" prints it."""
    if file == "-":
        click.echo(json.dumps(value, indent=2))
    else:
        write_json(value, Path(file))


def write_text(text: str, file: Path) -> None:
    """Write a text, in place of what the file had; raises ``NotWritten``, and then that stays."""
    with naming(file):
        file = file.resolve()
        is_ordinary = file.is_file() or not file.exists()
        if not is_ordinary or not os.access(file.parent, os.W_OK):
            file.write_text(text, encoding="utf-8")
            return
        unfinished = file.with_name(f".railyard-{secrets.token_hex(4)}.part")
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(file)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def say_written(folder: Path | None, json_file: Path | None) -> None:
    """Say on standard error what was written: a folder of results, a file with the summary."""
    if folder is not None and folder.is_dir():
        page = folder / "index.html"
        others = sorted(path for path in folder.iterdir() if path != page)
        names = [path.name for path in others if not path.is_dir()]
        folders = [f"{path.name}/" for path in others if path.is_dir()]
        names += folders if len(folders) <= _FOLDERS_NAMED_MAX else [f"{len(folders)} folders"]
        first = f"{page} shows it" if page.exists() else str(folder)
        click.echo(f"written: {printable(first)}; beside it {', '.join(names)}", err=True)
    if json_file is not None:
        click.echo(f"written: {printable(str(json_file))}", err=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise ``NotWritten`` with this path for what the system says of writing in the block."""
    try:
        yield
    except OSError as error:
        is_of_tree = isinstance(error, shutil.Error)  # it has one of each file
        why = error.args[0][0][2] if is_of_tree else cause_of(error, path.parent)
        raise NotWritten(f"{printable(str(path))}: cannot be written: {why}") from error


# Where results come from --------------------------------------------------------------------------
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
        of_checkout = f", commit {self.commit}" if self.commit else ""
        yield "Version", f"Railyard {self.version}{of_checkout}"
        yield "Date", self.written_at.replace("T", " ")
        cpus, memory = format_count(self.cpus, "CPU"), format_size(self.memory_bytes)
        yield "Machine", f"{self.host}: {cpus} ({self.cpu}), {memory}, {self.system}"


def origin_now() -> Origin:
    """That of what this process writes now."""
    from importlib.metadata import version  # commands are quicker to start without them

    import psutil

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
    from importlib.metadata import version

    return commit() or f"railyard {version('railyard')}"


def _cpu() -> str:
    """The model of the machine's CPUs, or what they are called in general."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
