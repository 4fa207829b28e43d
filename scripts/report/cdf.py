"""Distributions of completion times: the share of jobs done after a time, by scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.errors import require
from railyard.cluster.units import format_duration, format_number
from railyard.gateway.page.theme import Theme
from railyard.scripts.report.style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From this ratio of the longest to the shortest time on, the axis is logarithmic.
_LOG_FROM = 30.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A scheduler's times."""

    label: str
    colour: int  #: its place in the theme's colours
    dashed: bool  #: whether it is simulated, beside emulated ones in the picture
    times_s: Sequence[float]  #: in order

    def __post_init__(self) -> None:
        for time_s in self.times_s:
            require(0 <= time_s < math.inf, f"a time of {self.label}", time_s, "seconds >= 0")


def draw_cdf(panels: Sequence[tuple[str, Sequence[Curve]]], theme: Theme) -> Figure:
    """Panels side by side, each with a title and its curves."""
    figure = new_figure(10.0, 3.7)
    for axes, (title, curves) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        _panel(axes, title, [curve for curve in curves if curve.times_s], theme)
    return figure


def _panel(axes: Axes, title: str, curves: Sequence[Curve], theme: Theme) -> None:
    axes.set_title(title, pad=10)
    if not curves:
        axes.axis("off")
        axes.text(0.0, 0.9, "none", transform=axes.transAxes, color=theme.muted)
        return
    longest = max(curve.times_s[-1] for curve in curves)
    until_s = longest * 1.02 or 1.0
    shortest = min(curve.times_s[0] for curve in curves)
    for curve in curves:
        heights = [
            100.0 * (number + 1) / len(curve.times_s) for number in range(len(curve.times_s))
        ]
        axes.step(
            [curve.times_s[0], *curve.times_s, until_s],
            [0.0, *heights, 100.0],
            where="post",
            color=theme.colours[curve.colour % len(theme.colours)],
            linestyle=(0, (4, 1.6)) if curve.dashed else "-",
            linewidth=1.9,
            solid_capstyle="butt",
        )
    if shortest > 0 and longest / shortest > _LOG_FROM:
        _make_logarithmic(axes, shortest, until_s)
    else:
        axes.set_xlim(0, until_s)
        axes.set_xlabel("seconds")
    axes.set_ylim(0, 101)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.grid(axis="both")
    _name(axes, curves, theme)


def _make_logarithmic(axes: Axes, from_s: float, until_s: float) -> None:
    """Powers of ten as "0.1 s", "1 s", "10 s"; matplotlib's own are in TeX, which is off here."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_xlim(from_s / 1.02, until_s)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda time_s, _: f"{format_number(time_s)} s"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _name(axes: Axes, curves: Sequence[Curve], theme: Theme) -> None:
    """Write the curves' names and means beside them, fastest first, in their colours."""
    by_mean = sorted(curves, key=lambda curve: _mean(curve))
    step = min(0.13, 0.9 / len(curves))
    for number, curve in enumerate(by_mean):
        colour = theme.colours[curve.colour % len(theme.colours)]
        height = 0.95 - number * step
        axes.plot(
            [1.03, 1.09],
            [height, height],
            transform=axes.transAxes,
            clip_on=False,
            color=colour,
            linestyle=(0, (2.4, 1.0)) if curve.dashed else "-",
            linewidth=2.2,
            solid_capstyle="butt",
        )
        axes.annotate(
            f"{curve.label}\n{format_duration(_mean(curve))} mean",
            (1.11, height),
            xycoords="axes fraction",
            va="center",
            fontsize=8.2,
            linespacing=1.25,
        )


def _mean(curve: Curve) -> float:
    return sum(curve.times_s) / len(curve.times_s)
