"""``railyard workloads``: the list, and a workload's statistics beside published ones."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import click

from railyard.cluster.units import format_duration, format_number, format_size
from railyard.scripts.simulating.fetch import fetch
from railyard.scripts.terminal.options import SEED

if TYPE_CHECKING:
    from railyard.jobs.workloads.model import Statistic, Workload


@click.group(invoke_without_command=True)
@click.pass_context
def workloads(context: click.Context) -> None:
    """List the workloads that simulate can run, and the papers or projects they come from.

    Options follow the name: corral-w1,jobs=100,window=60min.  All workloads have skew=1.2 (inputs
    spread over the racks by Zipf's law) and skew_ratio=8 (most / least); see docs/workloads.md.
    """
    if context.invoked_subcommand is not None:
        return
    from railyard.jobs.workloads.catalog import FAMILIES

    for name, family in FAMILIES.items():
        asked_for = f"{name}:{family.file}" if family.file else name
        click.echo(f"{asked_for}\n    {family.about}\n    {family.source}")
        words = ", ".join(family.defaults())
        click.echo(fill(words, 96, initial_indent="    ", subsequent_indent="    "))


workloads.add_command(fetch)


@workloads.command()
@click.argument("name", metavar="NAME[:FILE][,KEY=VALUE...]")
@click.option("--seed", type=SEED, default=1, help="Default: 1.")
def show(name: str, seed: int) -> None:
    """Show the statistics of a workload, next to the published ones."""
    from railyard.jobs.workloads.catalog import workload

    _table(workload(name, seed), seed)


def _table(made: Workload, seed: int) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from railyard.jobs.workloads.statistics import general
    from railyard.scripts.terminal.tables import cell, plain_console

    title = f"{made.name}, seed {seed}\n{made.source}"
    table = Table(title=cell(title), title_justify="left", box=SIMPLE)
    table.add_column("")
    table.add_column("here", justify="right")
    table.add_column("published", justify="right")
    table.add_column("")
    for statistic in made.statistics:
        here = _value(statistic.measured, statistic.unit)
        table.add_row(cell(statistic.name), here, *_published(statistic))
    table.add_section()
    named = {statistic.name for statistic in made.statistics}
    for statistic in general(made.jobs):
        if statistic.name not in named:
            table.add_row(statistic.name, _value(statistic.measured, statistic.unit))
    plain_console().print(table)


def _published(statistic: Statistic) -> tuple[str, str]:
    """The published number and its source, or by how much it is missed."""
    if statistic.published is None:
        return "", statistic.note
    least, most = (_value(value, statistic.unit) for value in statistic.published)
    words = least if least == most else f"{least} to {most}"
    missed = "" if statistic.holds else f"missed by more than {statistic.tolerance:.1%}; "
    return words, missed + statistic.note


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value)
    if unit == "share":
        return f"{value:.3g}" if 0 < value < 0.001 else f"{value:.1%}"
    return format_number(value)
