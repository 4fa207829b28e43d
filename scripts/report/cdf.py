"""Distributions of completion times: the share of jobs done after a time, by scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.units import format_duration
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
        axes.text(0.0, 0.9, "none: no job shuffled", transform=axes.transAxes, color=theme.muted)
        return
    longest = max(curve.times_s[-1] for curve in curves)
    shortest = min(curve.times_s[0] for curve in curves)
    for curve in curves:
        heights = [
            100.0 * (number + 1) / len(curve.times_s) for number in range(len(curve.times_s))
        ]
        axes.step(
            [curve.times_s[0], *curve.times_s, longest * 1.02],
            [0.0, *heights, 100.0],
            where="post",
            color=theme.colours[curve.colour % len(theme.colours)],
            linestyle=(0, (4, 1.6)) if curve.dashed else "-",
            linewidth=1.9,
            solid_capstyle="butt",
        )
    if shortest > 0 and longest / shortest > _LOG_FROM:
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(0, 101)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.grid(axis="both")
    axes.set_xlabel("seconds")
    _name(axes, curves, theme)


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
