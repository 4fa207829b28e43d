"""``railyard compare``: the same jobs under several schedulers, on either clock or on both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.files.lasting import Durability
from railyard.cluster.shown import printable
from railyard.cluster.units import format_count
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.terminal.options import (
    COUNT,
    REDUCES,
    SEED,
    durability_option,
    new_folder,
    settings,
    size,
    topology_options,
    writable_file,
)

F = TypeVar("F", bound=Callable[..., Any])

_CLOCKS = {"wall": ("wall",), "virtual": ("virtual",), "both": ("wall", "virtual")}


class NotAllVerified(RailyardError):
    """A job failed, or its output is not what it should be."""


def _options(command: F) -> F:
    options = [
        click.option(
            "--schedulers",
            default="fair,delay,capacity",
            metavar="NAME,...",
            help="The others are measured against the first.  Default: fair,delay,capacity.",
        ),
        click.option(
            "--flow-scheduler",
            "flow_schedulers",
            metavar="NAME",
            multiple=True,
            help="Default: maxmin.  Repeat it to have each scheduler with each of several.",
        ),
        click.option(
            "--clock",
            type=click.Choice(list(_CLOCKS)),
            default="both",
            help="Real processes, simulation, or both (the default), to see whether they agree.",
        ),
        click.option("--seeds", type=COUNT, default=1, metavar="N", help="Runs of each."),
        click.option("--seed", type=SEED, default=1, help="The first seed.  Default: 1."),
        click.option(
            "--size", "size_bytes", callback=size, help="How much to generate a job; default: 10GB."
        ),
        click.option("--reduces", type=REDUCES, help="Of each job."),
        click.option(
            "--set",
            "scheduler_options",
            metavar="KEY=VALUE",
            callback=settings,
            multiple=True,
            help="A setting of one of the schedulers, such as delay.node_wait_s=3; repeatable.",
        ),
        click.option(
            "--on",
            metavar="dask:ADDRESS|ray:ADDRESS",
            help="Simulate there, rather than on this machine's cores.  With --out, it must share "
            "this machine's files.",
        ),
        durability_option,
        click.option(
            "--json", "json_file", callback=writable_file, help="Write the table as JSON."
        ),
        click.option(
            "--out",
            "out",
            metavar="DIR",
            help="Write a page with pictures, and all that the runs left, to a new folder.",
        ),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@_options
@topology_options
def compare(
    jobs: tuple[str, ...],
    schedulers: str,
    flow_schedulers: tuple[str, ...],
    clock: str,
    seeds: int,
    seed: int,
    size_bytes: int | None,
    reduces: int | None,
    scheduler_options: tuple[tuple[str, str], ...],
    on: str | None,
    durability: Durability | None,
    json_file: Path | None,
    out: str | None,
    topology: str | None,
    network: tuple[tuple[str, str], ...],
) -> None:
    """Run the same jobs under several schedulers: one table, and a page with pictures.

    JOB is what railyard run takes: terasort wordcount, or terasort,size=2GB,times=3, or
    mix,jobs=20,window=30s, or jobs.toml.  With --clock virtual it may be a workload for the
    simulator: railyard workloads lists them.
    """
    from railyard.scripts.comparing.comparison import Comparison, Terms
    from railyard.scripts.comparing.metrics import as_json, compared
    from railyard.scripts.comparing.table import show

    folder = new_folder("--out", out)
    comparison = Comparison(
        Terms(
            words=jobs,
            schedulers=_names(schedulers),
            flow_schedulers=flow_schedulers or ("maxmin",),
            clocks=_CLOCKS[clock],
            seeds=tuple(range(seed, seed + seeds)),
            size_bytes=size_bytes,
            reduces=reduces,
            scheduler_options=scheduler_options,
            topology=topology,
            durability=durability,
            network=network,
            on=on,
        ),
        folder,
    )
    summaries = comparison.run()
    rows = compared(summaries, comparison.scatter)
    show(rows, comparison.title)
    if json_file is not None:
        write_json(as_json(rows), json_file)
    if folder is not None:
        from railyard.scripts.report.page import write_page

        write_page(folder, rows, comparison.told())
        page = printable(str(folder / "index.html"))
        click.echo(f"{page} has it all, with pictures", err=True)
    bad = [run for row in rows for run in row.runs if run["verified"] is False]
    if bad:
        runs = format_count(len(bad), "run")
        raise NotAllVerified(f"{runs} had jobs that failed or whose output is not right")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(names):
        raise UsageError(f"--schedulers {text}: need names with commas between")
    return tuple(dict.fromkeys(names))
