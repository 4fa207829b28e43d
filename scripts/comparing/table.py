"""A comparison as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from railyard.scripts.comparing.agreement import Agreement, agreements
from railyard.scripts.comparing.metrics import (
    Cell,
    Contender,
    Metric,
    OwnFigure,
    Row,
    labelled,
    own_figures,
    shown_metrics,
)
from railyard.scripts.terminal import tables

if TYPE_CHECKING:
    from rich.console import Console

CLOCK_WORDS = {"wall": "emulated", "virtual": "simulated"}


def show(rows: Sequence[Row], title: str) -> None:
    """Print it: below each metric its ratio to the first contender's on the same clock."""
    from rich.box import SIMPLE
    from rich.table import Table

    seeds = len(rows[0].runs)
    clocks = {row.contender.clock for row in rows}
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    metrics = shown_metrics(rows)
    for metric in metrics:
        table.add_column(metric.title, justify="right")
    labels = label_rows(rows)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.contender.clock != row.contender.clock:
            table.add_section()
        clock = CLOCK_WORDS[row.contender.clock] if len(clocks) > 1 else ""
        cells = [_cell(metric, row.cells[metric.key]) for metric in metrics]
        table.add_row(f"{labels[row.contender]}\n[dim]{clock}[/]", *cells)
    console = tables.plain_console()
    console.print(table)
    note = f"{seeds} seeds: mean ± 95 % confidence interval; " if seeds > 1 else ""
    console.print(f"{note}x: ratio to {labels[rows[0].contender]} on the same clock", style="dim")
    if found := agreements(rows, labels):
        _show_agreements(console, found)
    if own := own_figures(rows):
        _show_own(console, own, labels, with_clock=len(clocks) > 1)


def label_rows(rows: Sequence[Row]) -> dict[Contender, str]:
    """Each contender's label."""
    return labelled(row.contender for row in rows)


def shown(metric: Metric, cell: Cell) -> tuple[str, str, str]:
    """A cell's value, the half width of its interval and its ratio; "" where there is none."""
    spread = cell.value.half_width
    within = "" if spread is None else f"± {metric.show(spread)}"
    if cell.ratio is None:
        return metric.show(cell.value.mean), within, ""
    unsure = "" if cell.ratio.half_width is None else f" ± {cell.ratio.half_width:.2f}"
    return metric.show(cell.value.mean), within, f"{cell.ratio.mean:.2f}x{unsure}"


def _show_agreements(console: Console, found: Sequence[Agreement]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    title = "\nDo the two clocks agree?"
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    table.add_column("figure")
    for heading in ("emulated", "simulated", "emulated is", "by chance"):
        table.add_column(heading, justify="right")
    before = ""
    for one in found:
        beyond = "\n[dim]beyond chance[/]" if one.beyond_chance else ""
        emulated, *others = one.shown()
        who = "" if one.who == before else one.who
        table.add_row(who, one.metric.title, emulated + beyond, *others)
        before = one.who
    console.print(table)
    if any(one.by_chance for one in found):
        note = "by chance: of more simulations, with tasks a few ms shorter or longer"
        console.print(note, style="dim")


def _show_own(
    console: Console, own: Sequence[OwnFigure], labels: Mapping[Contender, str], *, with_clock: bool
) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    title = "\nThe schedulers' own figures"
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    table.add_column("policy")
    table.add_column("figure")
    table.add_column("", justify="right")
    before: Contender | None = None
    for one in own:
        of, who = one.contender, ""
        if of != before:
            clock = f", {CLOCK_WORDS[of.clock]}" if with_clock else ""
            who, before = labels[of] + clock, of
        value = " ".join(filter(None, one.shown()))
        table.add_row(who, tables.cell(one.policy), tables.cell(one.name), value)
    console.print(table)


def _cell(metric: Metric, cell: Cell | None) -> str:
    if cell is None:
        return "-"
    value, *others = shown(metric, cell)
    return "\n".join([value, *(f"[dim]{other}[/]" for other in others if other)])
