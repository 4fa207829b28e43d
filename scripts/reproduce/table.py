"""Figures as tables on the terminal: one for each measure, whose numbers have one unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

import click

from railyard.cluster.units import (
    NO_UNIT,
    Unit,
    format_digits,
    format_duration,
    format_number,
    format_ratio,
    format_size,
    size_unit,
    time_unit,
)
from railyard.scripts.reproduce.figures import Figure, Published
from railyard.scripts.reproduce.measures import POINTS, Measure, show_percent
from railyard.scripts.reproduce.values import Value
from railyard.scripts.terminal.options import seeds_in_words
from railyard.scripts.terminal.tables import Cell, Column, cell, plain_console, show_table

#: Units of quantities that are shown by these.
_UNITS: dict[Callable[[float], str], Callable[[float], Unit]] = {
    format_duration: time_unit,
    format_size: size_unit,
    show_percent: lambda _: POINTS,
    format_digits: lambda _: NO_UNIT,
    format_ratio: lambda _: NO_UNIT,
}


def show(figure: Figure, results: Sequence[Value], seeds: range) -> None:
    """Print a figure: our numbers beside the paper's, and how the experiment differs."""
    console = plain_console(highlight=False)
    console.print(cell(f"{figure.where}: {figure.title}", "bold"))
    order = {_words(value.line.measure): None for value in results}
    by_measure = sorted(results, key=lambda value: list(order).index(_words(value.line.measure)))
    for words, same in groupby(by_measure, key=lambda value: _words(value.line.measure)):
        click.echo(f"\n{words}")
        of_one = list(same)
        show_table(console, _columns(of_one[0].line.measure), _rows(of_one), elsewhere="--json")
    click.echo()
    several = f"seeds {seeds_in_words(seeds)}, mean ± 95 % confidence interval"
    console.print(several if len(seeds) > 1 else f"seed {seeds[0]}", style="dim")
    if figure.base:
        console.print(f"reductions are against {figure.base}", style="dim")
    for told in figure.scaled:
        console.print(cell(f"else than in the paper: {told}", "dim"))
    click.echo()


def _words(measure: Measure) -> str:
    return f"less {measure.title}" if measure.lessens else measure.title


def _columns(measure: Measure) -> list[Column]:
    unit = Unit(measure.unit, 1.0)
    quantity = _UNITS.get(measure.show, lambda _: NO_UNIT)
    return [
        Column("case"),
        Column("scheduler"),
        *(Column(heading, lambda _: unit) for heading in ("ours", "paper")),
        Column("off by", lambda _: unit, rank=1),
        *(Column(heading, quantity, rank=3) for heading in ("from", "to")),
        Column("runs", rank=2),
    ]


def _rows(values: Sequence[Value]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    before = None
    for value in values:
        line, measure = value.line, value.line.measure
        published = "" if line.published is None else published_words(line.published, "").strip()
        rows.append(
            [
                line.case if line.case != before else "",
                line.subject,
                _ours(value),
                published,
                f"{value.off_by:+.1f}" if value.off_by else "",
                *(_quantity(number, measure) for number in (value.base, value.own)),
                line.own.coarse or "exact",
            ]
        )
        before = line.case
    return rows


def _quantity(number: float | None, measure: Measure) -> Cell:
    return number if number is None or measure.show in _UNITS else measure.show(number)


def _ours(value: Value) -> str:
    return "-" if value.ours is None else mean_words(value.ours.mean, value.ours.half_width)


def mean_words(mean: float, spread: float | None) -> str:
    """A mean, and half of its interval if there are several seeds: "12.3 ± 4.5"."""
    return f"{mean:.1f}{'' if spread is None else f' ± {spread:.1f}'}"


def published_words(published: Published, unit: str) -> str:
    """What the paper says: "10 to 33 %", "> 0 %"."""
    if math.isinf(published.most):
        return f"> {format_number(published.least)} {unit}"
    if math.isinf(published.least):
        return f"< {format_number(published.most)} {unit}"
    if published.least == published.most:
        return f"{format_number(published.least)} {unit}"
    return f"{format_number(published.least)} to {format_number(published.most)} {unit}"
