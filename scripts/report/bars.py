"""Bars of a comparison: one metric of each contender, with what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from railyard.gateway.page.theme import Theme
from railyard.scripts.comparing.metrics import Metric
from railyard.scripts.comparing.rows import CLOCK_WORDS, Contender, Row
from railyard.scripts.comparing.statements import Statements, flaw
from railyard.scripts.report.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES_A_BAR = 0.34


def draw_bars(
    rows: Sequence[Row],
    metric: Metric,
    labels: Mapping[Contender, str],
    colours: Mapping[str, int],
    said: Statements,
    theme: Theme,
) -> Figure:
    """A bar for each row: the mean over seeds and its 95 % interval, its change and the mark."""
    cells = [row.cells[metric.key] for row in rows]
    most = max((cell.high for cell in cells if cell is not None), default=0.0)
    unit = metric.kind.unit(most)
    figure = new_figure(7.0, 0.9 + _INCHES_A_BAR * len(rows))
    axes = figure.subplots()
    for number, (row, cell) in enumerate(zip(rows, cells, strict=True)):
        if cell is None:
            axes.annotate("none", (0, number), va="center", color=theme.muted)
            continue
        axes.barh(
            number,
            cell.mean / unit.factor,
            height=0.7,
            xerr=None if cell.half_width is None else cell.half_width / unit.factor,
            color=theme.colours[colours[labels[row.contender]] % len(theme.colours)],
            alpha=0.65 if row.contender.clock == "virtual" else 1.0,
            ecolor=theme.ink,
            capsize=2.5,
        )
        axes.annotate(
            _beside(metric.show(cell.mean), row, metric, said),
            (cell.high / unit.factor, number),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.2,
        )
    axes.set_yticks(range(len(rows)), _names(rows, labels))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, most / unit.factor * 1.35 or 1.0)  # the words beside the longest bar
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(metric.title)
    axes.set_xlabel(unit.name)
    return figure


def _beside(shown: str, row: Row, metric: Metric, said: Statements) -> str:
    one = said.of(row.contender).get(metric.key)
    return shown if one is None else f"{shown}  {one.amount()} {one.verdict.mark}"


def _names(rows: Sequence[Row], labels: Mapping[Contender, str]) -> list[str]:
    both = len({row.contender.clock for row in rows}) > 1
    return [
        labels[row.contender]
        + (f", {CLOCK_WORDS[row.contender.clock]}" if both else "")
        + (" !" if flaw(row) else "")
        for row in rows
    ]
