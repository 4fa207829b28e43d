"""``railyard run``: a job from its input to its verified output, on a cluster that is up or its own."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from cluster.config import ClusterConfig
from cluster.errors import UsageError
from scripts.clusters import current_folder
from scripts.files import copy_out
from scripts.options import ClusterChoice, Settings, Size, cluster_options, writable_file
from scripts.progress import View, progress_view
from scripts.session import Session, connected, own_session
from scripts.summary import make_summary, print_summary, save_everything, write_json
from scripts.workloads import Outcome, Wish, Workload, workload
from scripts.workplace import Workplace


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--input", "inputs", multiple=True, metavar="FILE",
              help="A local file, or dfs:/PATH of the cluster that is up; repeatable.")
@click.option("--output", metavar="PATH", help="Folder of the block store for the output.")
@click.option("--get", "get_folder", metavar="DIR", help="Fetch the output to this new local folder.")
@click.option("--size", "size_bytes", type=Size(), help="How much to generate; default: 10GB.")
@click.option("--reduces", type=click.IntRange(min=1), help="Default: half of the slots.")
@click.option("--param", "params", type=Settings(), multiple=True,
              help="A parameter of the job, such as min_letters=12; repeatable.")
@cluster_options
@click.option("--json", "json_file", callback=writable_file, metavar="FILE",
              help="Write the summary as JSON.")
@click.option("--out", "out_folder", metavar="DIR",
              help="Write summary, events, trace and logs to this folder.")
def run(
    job: str,
    inputs: tuple[str, ...],
    output: str | None,
    get_folder: str | None,
    size_bytes: int | None,
    reduces: int | None,
    params: tuple[tuple[str, str], ...],
    json_file: Path | None,
    out_folder: str | None,
    **choice: Any,
) -> None:
    """Run a job and verify its output.

    JOB is terasort, wordcount, or a Python file of yours such as ./my_job.py.  It runs on the
    cluster that is up, or on one that is started for it and removed afterwards.
    """
    wanted = ClusterChoice(**choice)
    up = current_folder()
    if up is None:
        config = wanted.config()
    else:
        config = ClusterConfig.load(up)
        wanted.require_like(config)
    wish = Wish(
        inputs=inputs,
        output=output,
        size_bytes=size_bytes,
        reduces=reduces,
        params=dict(params),
        seed=config.seed if wanted.seed is None else wanted.seed,
    )
    work = workload(job, wish, config.topology)
    local = _new_folder("--get", get_folder)
    results = _new_folder("--out", out_folder)
    if up is None and any(path.startswith("dfs:") for path in inputs):
        raise UsageError("--input dfs:...: no cluster is up: railyard up starts one")

    with progress_view() as view, _session(up, config, view) as session:
        session.on_death = lambda death: view.say(_in_words(death))
        place = Workplace(session, view, work.name)
        outcome = work.run(place)
        summary = make_summary(session, work.name, outcome)
        if local is not None:
            copy_out(place.store, outcome.output, local)
        if json_file is not None:
            write_json(summary, json_file)
        if results is not None:
            save_everything(session, summary, results)
    print_summary(summary, outcome, config)
