"""``railyard logs``: what jobs' attempts and the daemons have written."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from railyard.cluster.errors import UsageError
from railyard.cluster.shown import printable
from railyard.cluster.units import format_count, format_size
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.terminal.request import Command

#: An attempt's folder: "j1.m0.0", or what importing the job printed in a rack: "j1.load-r0".
_ATTEMPT = re.compile(r"(j\d+)\.(?:load-r(\d+)|([a-z]+)(\d+)\.(\d+))")
_STREAMS = ("stdout", "stderr")
_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class _Log:
    """A file that an attempt or a daemon has written to."""

    who: str  #: "j1.m0.0", "nodemanager-r0"
    path: Path

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0


@click.command(cls=Command)
@click.argument("what", metavar="[JOB|TASK|ATTEMPT|DAEMON]", default="")
@click.option(
    "--of",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Of a run that has ended: the folder that run --out wrote.",
)
def logs(what: str, folder: Path | None) -> None:
    """Show what attempts and daemons have written to standard output and standard error.

    j3: all of the job's attempts; j3.m7: all of a task's; j3.m7.0: an attempt; resourcemanager,
    nodemanager-r0 and so on: a daemon's log.  Without one, a list of those that wrote something.
    """
    found = list(_logs(_folder(folder)))
    if not what:
        _list(found)
        return
    chosen = [log for log in found if log.who == what or log.who.startswith(f"{what}.")]
    if not chosen:
        raise UsageError(f"{printable(what)}: nothing is known of it: railyard logs lists what is")
    written = [log for log in chosen if log.size_bytes]
    if not written:
        click.echo(f"{what} has written nothing", err=True)
    for log in written:
        if len(written) > 1:
            click.echo(f"==> {log.who} {log.path.name} <==")
        _copy(log.path)


def _folder(given: Path | None) -> Path:
    """The run folder, or that of a run's results."""
    if given is not None:
        if not (given / "logs").is_dir():
            right = "need a folder that railyard run --out wrote"
            raise UsageError(f"{printable(str(given))}: has no logs: {right}")
        return given
    up = current_folder()
    if up is None:
        raise UsageError("no cluster is up: need --of DIR, which railyard run --out wrote")
    return up.path


def _logs(folder: Path) -> Iterator[_Log]:
    """All logs: those of attempts in the order of jobs and tasks, then the daemons'."""
    attempts = {path.name: path for path in (folder / "attempts").glob("j*")}
    for name in sorted(filter(_ATTEMPT.fullmatch, attempts), key=_order):
        for stream in _STREAMS:
            yield _Log(name, attempts[name] / stream)
    for path in sorted((folder / "logs").glob("*.log")):
        yield _Log(path.stem, path)


def _order(name: str) -> tuple[object, ...]:
    match = _ATTEMPT.fullmatch(name)
    assert match is not None, "as the caller checks"
    job, rack, stage, task, attempt = match.groups()
    if rack is not None:
        return int(job[1:]), 0, "", int(rack), 0
    return int(job[1:]), 1, stage, int(task), int(attempt)


def _list(found: Iterable[_Log]) -> None:
    """A line for each job and each daemon that wrote something."""
    sizes: dict[str, dict[str, int]] = {}
    for log in found:
        size = log.size_bytes
        of = sizes.setdefault(log.who.partition(".")[0], {})
        if size:
            of[log.who] = of.get(log.who, 0) + size
    for name, wrote in sizes.items():
        if _ATTEMPT.fullmatch(next(iter(wrote), "")):
            words = (
                f"{format_count(len(wrote), 'attempt')} wrote {format_size(sum(wrote.values()))}"
            )
            shown = ", ".join(list(wrote)[:5]) + (", ..." if len(wrote) > 5 else "")
            click.echo(f"{name}: {words} ({shown})")
        elif wrote:
            click.echo(f"{name}: {format_size(sum(wrote.values()))}")
    if not any(sizes.values()):
        click.echo("nobody has written anything", err=True)


def _copy(path: Path) -> None:
    """Copy a file to standard output, with its bytes as they are."""
    sys.stdout.flush()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
