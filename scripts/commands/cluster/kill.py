"""``railyard kill``: end jobs of the cluster that is up."""

from __future__ import annotations

from collections.abc import Sequence

import click

from railyard.cluster.errors import Refused, UsageError, unknown_name
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.shown import printable
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    JobStatus,
    KillJob,
)
from railyard.scripts.clusters.session import running_session
from railyard.scripts.terminal.request import Command


@click.command(cls=Command)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
def kill(jobs: tuple[str, ...]) -> None:
    """End jobs of the cluster that is up; others go on.

    JOB is as j3, or the name of a job that is the only one of that name to run.  The command that
    waits for it ends with status 1, and says that it was killed.
    """
    with running_session() as session:
        link = session.link("resourcemanager")
        known = link.ask(GetClusterStatus(), ClusterStatus).jobs
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
            raise unknown_name(
                "job", word, [name for job in running for name in (job.job, job.name)]
            )
        found = ended[-1:]
    if len(found) > 1:
        ids = ", ".join(job.job for job in found)
        raise UsageError(
            f"{printable(word)}: {len(found)} jobs of that name run: need one of {ids}"
        )
    [job] = found
    if job.finished_s is not None:
        raise UsageError(f"{job.job}: has ended already: {job.state}")
    return job.job
