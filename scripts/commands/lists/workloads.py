"""``railyard workloads``: the list, and a workload's statistics beside published ones."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import click

from railyard.cluster.units import format_duration, format_size
from railyard.scripts.simulating.fetch import fetch
from railyard.scripts.terminal.options import SEED

if TYPE_CHECKING:
    from railyard.jobs.workloads.model import Figure, Workload


@click.group(invoke_without_command=True)
@click.pass_context
def workloads(context: click.Context) -> None:
    """List the workloads that simulate can run, and the papers or projects they come from.

    Options follow the name: corral-w1,jobs=100,window=60min
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

    from railyard.jobs.workloads.figures import general
    from railyard.scripts.terminal.tables import cell, plain_console

    title = f"{made.name}, seed {seed}\n{made.source}"
    table = Table(title=cell(title), title_justify="left", box=SIMPLE)
    table.add_column("")
    table.add_column("here", justify="right")
    table.add_column("published", justify="right")
    table.add_column("")
    for figure in made.figures:
        here = _value(figure.measured, figure.unit)
        table.add_row(cell(figure.name), here, *_published(figure))
    table.add_section()
    named = {figure.name for figure in made.figures}
    for figure in general(made.jobs):
        if figure.name not in named:
            table.add_row(figure.name, _value(figure.measured, figure.unit))
    plain_console().print(table)


def _published(figure: Figure) -> tuple[str, str]:
    """The published number and its source, or by how much it is missed."""
    if figure.published is None:
        return "", figure.note
    least, most = (_value(value, figure.unit) for value in figure.published)
    words = least if least == most else f"{least} to {most}"
    missed = "" if figure.holds else f"missed by more than {figure.tolerance:.1%}; "
    return words, missed + figure.note


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value)
    if unit == "share":
        return f"{value:.3g}" if 0 < value < 0.001 else f"{value:.1%}"
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"
