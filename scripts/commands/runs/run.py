"""``railyard run``: a job from its input to its checked output."""

from __future__ import annotations

import functools
import getpass
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.files.runfolder import RunFolder
from railyard.jobs.mixes.mixes import Defaults, is_single, read_mix, user_files
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.running.request import DEFAULT_SIZE_BYTES, Wish, incoming_bytes, prepare
from railyard.scripts.running.room import require_room, require_room_for_mix
from railyard.scripts.running.trial import survived
from railyard.scripts.running.work import SeveralJobs, SingleJob, Work, run_on, session_for
from railyard.scripts.running.workplace import Submitter
from railyard.scripts.terminal.options import (
    REDUCES,
    ClusterChoice,
    cluster_options,
    name,
    new_folder,
    settings,
    size,
    writable_file,
)
from railyard.scripts.terminal.progress import progress_view

F = TypeVar("F", bound=Callable[..., Any])


class NotVerified(RailyardError):
    """A job's output is not what it should be."""


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return "user"


def _job_options(command: F) -> F:
    """Add the options that say what to run."""
    options = [
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="FILE",
            help="A local file, or dfs:/PATH of the cluster that is up.  Repeatable.",
        ),
        click.option("--output", metavar="PATH", help="Folder of the block store for the output."),
        click.option("--get", "fetch_to", metavar="DIR", help="Fetch the output to a new folder."),
        click.option(
            "--size", "size_bytes", callback=size, help="How much to generate; default: 10GB."
        ),
        click.option("--reduces", type=REDUCES, help="Default: half of the slots."),
        click.option(
            "--param",
            "params",
            callback=settings,
            multiple=True,
            help="A parameter of the job, such as min_letters=12.  Repeatable.",
        ),
        click.option("--user", default=_me, callback=name, help="Whose job it is; default: you."),
        click.option(
            "--queue", default="default", callback=name, help="Its queue or pool; default: default."
        ),
        click.option(
            "--json", "json_file", callback=writable_file, help="Write the summary as JSON."
        ),
        click.option(
            "--out",
            "results",
            metavar="DIR",
            help="Write summary, events and logs to a new folder.",
        ),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@_job_options
@cluster_options
def run(
    jobs: tuple[str, ...],
    inputs: tuple[str, ...],
    output: str | None,
    fetch_to: str | None,
    size_bytes: int | None,
    reduces: int | None,
    params: tuple[tuple[str, str], ...],
    user: str,
    queue: str,
    json_file: Path | None,
    results: str | None,
    **choice: Any,
) -> None:
    """Run a job, or several at once, and check the output.

    JOB is terasort, wordcount, topwords, or a Python file of yours: ./my_job.py, or
    ./my_job.py:MyJob if it has several.  It runs on the cluster that is up, or else on one that is
    started for it and removed afterwards.

    Of several jobs more can be said, each for itself: terasort,size=2GB,submit=5s,times=3 (also
    reduces, user, queue, param.NAME).  mix,jobs=20,sizes=1GB+2GB,window=30s draws jobs by the seed
    (also of=terasort+wordcount, users, queues, reduces), and a file jobs.toml has a table [[job]]
    for each.  Schedulers that plan ahead are told of them, with their measured sizes: recurring=0.5
    predicts half of them, size_error=0.1 wrongly; inputs=own makes one for each.
    """
    up, config = _cluster(ClusterChoice(**choice))
    seed = config.seed if choice["seed"] is None else choice["seed"]
    results_folder = new_folder("--out", results)
    if is_single(jobs):
        wish = Wish(
            job=jobs[0],
            inputs=inputs,
            output=output,
            size_bytes=size_bytes,
            reduces=reduces,
            params=params,
            seed=seed,
        )
        require_room(up, config.topology, jobs[0], *[incoming_bytes(wish, config.topology)] * 2)
        work: Work = SingleJob(
            survived(
                user_files(jobs), partial(prepare, wish, config.topology, cluster_is_up=bool(up))
            ),
            Submitter(user, queue),
            new_folder("--get", fetch_to),
        )
    else:
        for option, value in (("--input", inputs), ("--output", output), ("--get", fetch_to)):
            if value:
                raise UsageError(f"{option}: is for a single job: need one JOB, and nothing else")
        defaults = Defaults(
            size_bytes=DEFAULT_SIZE_BYTES if size_bytes is None else size_bytes,
            reduces=reduces,
            user=user,
            queue=queue,
            params=params,
        )
        mix = read_mix(jobs, defaults, seed)
        require_room_for_mix(up, mix, config.topology)
        work = SeveralJobs(mix, config.topology, seed)
    with progress_view() as view, session_for(up, config, view) as session:
        ran = run_on(session, work, view, results_folder)
    work.tell(ran.summary, config.topology)
    if json_file is not None:
        write_json(ran.summary, json_file)
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {work.name} is not right")


def _cluster(choice: ClusterChoice) -> tuple[RunFolder | None, ClusterConfig]:
    """The cluster that is up, or None and the configuration of one to start."""
    up = current_folder()
    if up is None:
        return None, choice.config()
    config = ClusterConfig.load(up)
    choice.require_like(config)
    return up, config
