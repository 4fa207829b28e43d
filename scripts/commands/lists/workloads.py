"""``railyard workloads``: the list, and a workload's statistics beside published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from railyard.cluster.shown import printable
from railyard.cluster.units import format_duration, format_number, format_share, format_size
from railyard.scripts.simulating.fetch import fetch
from railyard.scripts.terminal.options import SEED
from railyard.scripts.terminal.request import Commands
from railyard.scripts.terminal.tables import wrapped

if TYPE_CHECKING:
    from railyard.jobs.workloads.model import Statistic, Workload
    from railyard.scripts.terminal.tables import Cell


@click.group(cls=Commands, invoke_without_command=True)
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
        click.echo(asked_for)
        for text in (family.about, family.source, ", ".join(family.defaults())):
            click.echo(wrapped(text, 4))


workloads.add_command(fetch)


@workloads.command()
@click.argument("name", metavar="NAME[:FILE][,KEY=VALUE...]")
@click.option("--seed", type=SEED, default=1, help="Default: 1.")
def show(name: str, seed: int) -> None:
    """Show the statistics of a workload, next to the published ones."""
    from railyard.jobs.workloads.catalog import workload

    _table(workload(name, seed), seed)


def _table(made: Workload, seed: int) -> None:
    from railyard.jobs.workloads.statistics import general
    from railyard.scripts.terminal.tables import Column, plain_console, plain_numbers, show_table

    console = plain_console(highlight=False)
    click.echo(printable(f"{made.name}, seed {seed}"))
    click.echo(f"{printable(made.source)}\n")
    rows: list[list[Cell]] = [
        [statistic.name, _value(statistic.measured, statistic.unit), *_published(statistic)]
        for statistic in made.statistics
    ]
    columns = [Column(""), Column("here", plain_numbers), Column("published", plain_numbers)]
    if rows:
        show_table(console, [*columns, Column("source")], rows)
        click.echo()
    named = {statistic.name for statistic in made.statistics}
    rows = [
        [statistic.name, _value(statistic.measured, statistic.unit)]
        for statistic in general(made.jobs)
        if statistic.name not in named
    ]
    show_table(console, columns[:2], rows)


def _published(statistic: Statistic) -> tuple[str, str]:
    """The published number and its source, or by how much it is missed."""
    if statistic.published is None:
        return "", statistic.note
    least, most = (_value(value, statistic.unit) for value in statistic.published)
    words = least if least == most else f"{least} to {most}"
    if statistic.holds:
        return words, statistic.note
    by = f" by more than {format_share(statistic.tolerance)}" if statistic.tolerance else ""
    return words, f"missed{by}; {statistic.note}"


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value)
    if unit == "share":
        return format_share(value)
    return format_number(value)
