"""Figures as tables on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from railyard.scripts.reproduce.figures import Figure, Published
from railyard.scripts.reproduce.values import Value
from railyard.scripts.terminal.options import seeds_in_words
from railyard.scripts.terminal.tables import plain_console


def show(figure: Figure, results: Sequence[Value], seeds: range) -> None:
    """Print a figure: our numbers beside the paper's, and how the experiment differs."""
    from rich.box import SIMPLE
    from rich.table import Table

    title = f"{figure.where}: {figure.title}"
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    for column in ("", "scheduler", ""):
        table.add_column(column, no_wrap=True)
    for column in ("ours", "paper", "off by", "from", "to", "runs"):
        table.add_column(column, justify="right", no_wrap=True)
    before = None
    for value in results:
        case = value.line.case
        if before not in (None, case):
            table.add_section()
        table.add_row(case if case != before else "", *_cells(value))
        before = case
    console = plain_console()
    console.print(table)
    several = f"seeds {seeds_in_words(seeds)}, mean ± 95 % confidence interval"
    console.print(several if len(seeds) > 1 else f"seed {seeds[0]}", style="dim")
    if figure.base:
        console.print(f"reductions are against {figure.base}", style="dim")
    for words in figure.scaled:
        console.print(f"else than in the paper: {words}", style="dim")
    console.print()


def _cells(value: Value) -> tuple[str, ...]:
    line, measure = value.line, value.line.measure
    what = f"less {measure.title}" if measure.lessens else measure.title
    return (
        line.subject,
        what,
        _ours(value),
        "" if line.published is None else published_words(line.published, measure.unit),
        _off(value),
        "" if value.base is None else measure.show(value.base),
        "-" if value.own is None else measure.show(value.own),
        line.own.coarse or "exact",
    )


def _ours(value: Value) -> str:
    if value.ours is None:
        return "-"
    spread = value.ours.half_width
    within = "" if spread is None else f" ± {spread:.1f}"
    return f"{value.ours.mean:.1f}{within} {value.line.measure.unit}"


def published_words(published: Published, unit: str) -> str:
    """What the paper says: "10 to 33 %", "> 0 %"."""
    if math.isinf(published.most):
        return f"> {published.least:g} {unit}"
    if math.isinf(published.least):
        return f"< {published.most:g} {unit}"
    if published.least == published.most:
        return f"{published.least:g} {unit}"
    return f"{published.least:g} to {published.most:g} {unit}"


def _off(value: Value) -> str:
    """How far our mean is off the published range; "" within it."""
    return f"{value.off_by:+.1f}" if value.off_by else ""
