"""Submitting one job to the ResourceManager and staying with it until it has ended."""

from __future__ import annotations

import contextlib

from cluster.errors import PeerLost, RailyardError
from cluster.ids import JobId
from cluster.shown import printable
from cluster.transport import Link
from cluster.wire import Done
from resourcemanager.messages import (
    JobAccepted,
    JobEnded,
    JobProgress,
    KillJob,
    SubmitJob,
    TaskFailure,
    WatchJob,
)
from scripts.interrupts import Interrupted, deferred
from scripts.progress import View
from scripts.session import Session

_STDERR_LINES = 15
#: A longer line hides what is around it.
_LETTERS_MAX = 400


class JobFailed(RailyardError):
    """A job did not end well; the text is a report for whoever wrote the job."""

    def __init__(self, name: str, ended: JobEnded) -> None:
        super().__init__(failure_report(name, ended))
        self.ended = ended


def run_to_end(session: Session, job: SubmitJob, view: View) -> JobEnded:
    """Submit a job and wait for its end; ``JobFailed`` if it fails.

    An interrupt kills the job, since the cluster may go on without us.
    """
    ended: list[JobEnded | PeerLost] = []

    def lost() -> None:
        ended.append(PeerLost("the ResourceManager is gone"))

    link = session.transport.link("resourcemanager", on_lost=lost)
    try:
        link.on(JobProgress, lambda progress, _: view.show(job.name, progress))
        link.on(JobEnded, lambda end, _: ended.append(end))
        number = link.call(job, JobAccepted).job
        try:
            link.call(WatchJob(job=number), Done)
            session.reactor.run_until(lambda: bool(ended))
        except Interrupted:
            _kill(link, number)
            raise
    finally:
        link.close()
    end = ended[0]
    if isinstance(end, PeerLost):
        raise end
    if not end.ok:
        raise JobFailed(job.name, end)
    return end


def failure_report(name: str, end: JobEnded) -> str:
    """Why a job failed: the reason, then the task that broke, where, and what it said."""
    lines = [f"{name} ({end.job}) failed: {end.reason}"]
    if end.failures:
        lines += _describe(end.failures[-1])
        others = len(end.failures) - 1
        if others:
            lines.append(f"  {others} more failed attempts: {_summary(end.failures[:-1])}")
    return "\n".join(lines)


def _describe(failure: TaskFailure) -> list[str]:
    lines = [
        f"  task {failure.task}, attempt {failure.attempt} on {failure.node}: {failure.reason}"
    ]
    said = failure.stderr.strip("\n").split("\n")
    if said != [""]:
        lines.append("  its standard error ends with:")
        lines += [f"    {printable(line, _LETTERS_MAX)}" for line in said[-_STDERR_LINES:]]
    return lines


def _summary(failures: tuple[TaskFailure, ...]) -> str:
    return ", ".join(f"{failure.attempt} on {failure.node}" for failure in failures)


def _kill(link: Link, job: JobId) -> None:
    with contextlib.suppress(RailyardError, Interrupted), deferred():
        link.call(KillJob(job=job, reason="interrupted by its user"), Done, timeout_s=2.0)
