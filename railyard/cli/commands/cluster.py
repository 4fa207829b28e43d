"""``railyard down``, ``kill`` and ``logs``: ending the cluster that is up, or jobs of it; its logs.

These are quick to start: what only ``kill`` needs is imported there.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import Refused, UsageError, printable, unknown_name
from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count, format_size
from railyard.runs.home import current_folder, dead_current_folder, forget, stop_running
from railyard.terminal.options import Command

if TYPE_CHECKING:
    from railyard.resourcemanager.process.messages import JobStatus


@click.command(cls=Command)
def down() -> None:
    """Stop the cluster that is up, and remove its folder with all its files."""
    folder = current_folder()
    if folder is not None:
        stop_running(folder)
        click.echo("stopped")
        return
    dead = dead_current_folder()
    if dead is None:
        raise UsageError("no cluster is up: railyard up starts one")
    forget(dead)
    click.echo("it had ended already; its folder is removed")


# Jobs and what they have written ------------------------------------------------------------------
#: An attempt's folder: "j1.m0.0", or what importing the job printed in a rack: "j1.load-r0".
_ATTEMPT = re.compile(r"(j\d+)\.(?:load-r(\d+)|([a-z]+)(\d+)\.(\d+))")


@click.command(cls=Command)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
def kill(jobs: tuple[str, ...]) -> None:
    """End jobs of the cluster that is up; others go on.

    JOB is as j3, or the name of a job that is the only one of that name to run.  The command that
    waits for it ends with status 1, and says that it was killed.
    """
    from railyard.cluster.messaging.wire import Done
    from railyard.resourcemanager.process.messages import KillJob
    from railyard.runs.clusters import running_session

    with running_session() as session:
        link = session.link("resourcemanager")
        known = session.status().jobs
        for chosen in dict.fromkeys(_chosen(word, known) for word in jobs):
            try:
                link.ask(KillJob(job=chosen, reason="killed by railyard kill"), Done)
            except Refused as refused:
                raise UsageError(str(refused)) from None
            click.echo(f"{chosen} is killed")


def _chosen(word: str, known: Sequence[JobStatus]) -> JobId:
    """The job that a word names; ``UsageError`` if there is none, or it has ended."""
    running = [job for job in known if job.finished_s is None]
    found = [job for job in known if job.job == word]
    found = found or [job for job in running if job.name == word]
    if not found:
        ended = [job for job in known if job.name == word]
        if not ended:
            names = [name for job in running for name in (job.job, job.name)]
            raise unknown_name("job", word, names)
        found = ended[-1:]
    if len(found) > 1:
        right = f"need one of {', '.join(job.job for job in found)}"
        raise UsageError(f"{printable(word)}: {len(found)} jobs of that name run: {right}")
    [job] = found
    if job.finished_s is not None:
        raise UsageError(f"{job.job}: has ended already: {job.state}")
    return job.job


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
        for stream in ("stdout", "stderr"):
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
        total = format_size(sum(wrote.values()))
        if _ATTEMPT.fullmatch(next(iter(wrote), "")):
            shown = ", ".join(list(wrote)[:5]) + (", ..." if len(wrote) > 5 else "")
            click.echo(f"{name}: {format_count(len(wrote), 'attempt')} wrote {total} ({shown})")
        elif wrote:
            click.echo(f"{name}: {total}")
    if not any(sizes.values()):
        click.echo("nobody has written anything", err=True)


def _copy(path: Path) -> None:
    """Copy a file to standard output, with its bytes as they are."""
    sys.stdout.flush()
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()
