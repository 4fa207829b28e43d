"""``railyard compare``: the same jobs under several schedulers, on either clock or on both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import RailyardError
from railyard.cluster.units import format_count
from railyard.scripts.comparing.request import CompareRequest
from railyard.scripts.results.outputfile import say_written
from railyard.scripts.results.trust import require_trusted
from railyard.scripts.terminal.request import command

if TYPE_CHECKING:
    from railyard.scripts.api.comparison import Comparison
    from railyard.scripts.simulating.request import RunsRequest


class NotAllVerified(RailyardError):
    """A job failed, or its output is not what it should be."""


@command(CompareRequest)
def compare(request: CompareRequest) -> None:
    """Run the same jobs under several schedulers: what differs, beyond chance; with --out a page.

    JOB is what railyard run takes: terasort wordcount, or terasort,size=2GB,times=3, or
    mix,jobs=20,window=30s, or jobs.toml.  With --clock virtual it may be a workload for the
    simulator: railyard workloads lists them.
    """
    comparison = carry_out(request)
    bad = [run for run in comparison.runs if run.verified is False]
    if bad:
        runs = format_count(len(bad), "run")
        raise NotAllVerified(f"{runs} had jobs that failed or have wrong output")
    if request.strict:
        require_trusted(run.summary for run in comparison.runs)


def carry_out(request: RunsRequest) -> Comparison:
    """Carry out a comparison; print its table, write its files."""
    from railyard.scripts.api.studies import compared
    from railyard.scripts.results.summary import require_figures

    comparison = compared(request)
    click.echo(str(comparison))
    if request.json_file is not None:
        comparison.save_json(request.json_file)
    if comparison.folder is not None:
        comparison.write_page()
    say_written(comparison.folder, request.json_file)
    require_figures(run.summary for run in comparison.runs)
    return comparison
