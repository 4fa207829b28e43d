"""``railyard run``: a job from its input to its checked output."""

from __future__ import annotations

import functools
import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from cluster.config import ClusterConfig
from cluster.errors import PeerLost, RailyardError, UsageError
from cluster.runfolder import RunFolder
from scripts.clusters import current_folder
from scripts.files import copy_out
from scripts.launch import ClusterFailed
from scripts.options import ClusterChoice, cluster_options, settings, size, writable_file
from scripts.progress import View, progress_view
from scripts.request import Wish, prepare
from scripts.session import Session, connected, own_session
from scripts.summary import make_summary, print_summary, save_everything, save_logs, write_json
from scripts.workplace import Submitter, Workplace

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
        click.option("--reduces", type=click.IntRange(min=1), help="Default: half of the slots."),
        click.option(
            "--param",
            "params",
            callback=settings,
            multiple=True,
            help="A parameter of the job, such as min_letters=12.  Repeatable.",
        ),
        click.option("--user", default=_me, help="Whose job it is; default: you."),
        click.option("--queue", default="default", help="Its queue or pool; default: default."),
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
@click.argument("job")
@_job_options
@cluster_options
def run(
    job: str,
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
    """Run a job and check its output.

    JOB is terasort, wordcount, topwords, or a Python file of yours: ./my_job.py, or
    ./my_job.py:MyJob if it has several.  It runs on the cluster that is up, or else on one that is
    started for it and removed afterwards.
    """
    up, config = _cluster(ClusterChoice(**choice))
    wish = Wish(
        job=job,
        inputs=inputs,
        output=output,
        size_bytes=size_bytes,
        reduces=reduces,
        params=params,
        seed=config.seed if choice["seed"] is None else choice["seed"],
    )
    prepared = prepare(wish, config.topology, cluster_is_up=up is not None)
    fetch_folder, results_folder = _new("--get", fetch_to), _new("--out", results)
    with progress_view() as view, _session(up, config, view) as session:
        session.on_death = lambda death: view.say(_of_a_rack(death))
        try:
            place = Workplace(session, view, Submitter(user, queue), prepared.copies)
            place.bring_input()
            outcome = place.carry_out(prepared.plan)
            summary = make_summary(session, prepared.name, outcome)
        except (ClusterFailed, PeerLost):
            if results_folder is not None:
                save_logs(session.folder, results_folder)
            raise
        if json_file is not None:
            write_json(summary, json_file)
        if results_folder is not None:
            save_everything(session.folder, summary, results_folder)
        if outcome.failure is not None:
            raise outcome.failure
        if fetch_folder is not None:
            copy_out(place.store, outcome.output, fetch_folder)
    print_summary(summary, outcome, config.topology)
    if outcome.verified is False:
        raise NotVerified(f"the output of {prepared.name} is not right")


def _cluster(choice: ClusterChoice) -> tuple[RunFolder | None, ClusterConfig]:
    """The cluster that is up, or None and the configuration of one to start."""
    up = current_folder()
    if up is None:
        return None, choice.config()
    config = ClusterConfig.load(up)
    choice.require_like(config)
    return up, config


@contextmanager
def _session(up: RunFolder | None, config: ClusterConfig, view: View) -> Iterator[Session]:
    if up is not None:
        with connected(up, config) as session:
            yield session
        return
    racks = config.topology.racks
    view.say(f"starting {config.topology.name}: {racks.count} racks, {config.topology.slots} slots")
    with own_session(config) as session:
        yield session


def _of_a_rack(death: dict[str, Any]) -> str:
    who = f"the {death['role']} {death['name']}"
    return f"{who} died ({death['how']}); its work is done elsewhere"


def _new(option: str, path: str | None) -> Path | None:
    """A local path that nothing is at yet; raises ``UsageError`` if something is."""
    if path is None:
        return None
    if Path(path).exists() or not Path(path).absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: need a new folder in a folder that exists")
    return Path(path)
