"""Pictures of comparisons, drawn with matplotlib: their style, completion times, bars.

Colours are those of the pages (``gateway.page.theme``).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.cluster.errors import require
from railyard.cluster.units import format_duration, format_number
from railyard.experiments.contenders import Row
from railyard.experiments.statements import Statements
from railyard.gateway.page.theme import Theme
from railyard.runs.figures import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SVG_TEXT = "path"  #: letters are outlines, so that no font is needed
Draw = Callable[[Theme], "Figure"]


@contextmanager
def themed(theme: Theme) -> Iterator[None]:
    """Draw in this theme while the block runs."""
    import matplotlib as mpl

    with mpl.rc_context(
        {
            "font.family": ["DejaVu Sans"],  # comes with matplotlib, everywhere
            "font.size": 9.5,
            "text.color": theme.ink,
            "text.parse_math": False,  # a job may be called $x
            "axes.labelcolor": theme.muted,
            "axes.edgecolor": theme.line,
            "axes.facecolor": theme.ground,
            "axes.titlecolor": theme.ink,
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "grid.color": theme.line,
            "grid.linewidth": 0.8,
            "xtick.color": theme.line,
            "ytick.color": theme.line,
            "xtick.labelcolor": theme.muted,
            "ytick.labelcolor": theme.muted,
            "figure.facecolor": theme.ground,
            "savefig.facecolor": theme.ground,
            "svg.fonttype": _SVG_TEXT,
        }
    ):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def render(draw: Draw, theme: Theme, kind: str) -> bytes:
    """A picture as "svg" or "png"."""
    target = io.BytesIO()
    with themed(theme):
        figure = draw(theme)
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        figure.savefig(target, format=kind, dpi=160, metadata=metadata)
    return target.getvalue()


# Distributions: the share of jobs that are done after a time --------------------------------------
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


# Completion times of a comparison ----------------------------------------------------------------
def completion_panels(rows: Sequence[Row]) -> list[tuple[str, Sequence[Curve]]]:
    """Distributions over all jobs of all seeds; simulated ones are dashed beside emulated ones."""
    both = len({row.clock for row in rows}) > 1

    def curves(key: str) -> list[Curve]:
        return [
            Curve(
                label=row.name,
                colour=row.colour,
                dashed=both and row.contender.clock == "virtual",
                times_s=sorted(
                    job[key]
                    for run in row.runs
                    for job in run["jobs"]
                    if job["ok"] and job[key] is not None
                ),
            )
            for row in rows
        ]

    return panels_of(curves("jct_s"), curves("cct_s"))


def panels_of(jobs: Sequence[Curve], coflows: Sequence[Curve]) -> list[tuple[str, Sequence[Curve]]]:
    """The panels of a picture of completion times."""
    return [("Job completion time", jobs), ("Coflow completion time", coflows)]


# Bars of a comparison ----------------------------------------------------------------------------
def draw_bars(rows: Sequence[Row], metric: Metric, said: Statements, theme: Theme) -> Figure:
    """A bar for each row: the mean over seeds and its 95 % interval, its change and the mark."""
    cells = [row.cells[metric.key] for row in rows]
    most = max((cell.high for cell in cells if cell is not None), default=0.0)
    unit = metric.kind.unit(most)
    figure = new_figure(7.0, 0.9 + 0.34 * len(rows))
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
            color=theme.colours[row.colour % len(theme.colours)],
            alpha=0.65 if row.contender.clock == "virtual" else 1.0,
            ecolor=theme.ink,
            capsize=2.5,
        )
        one = said.of(row.contender).get(metric.key)
        words = metric.show(cell.mean)
        axes.annotate(
            words if one is None else f"{words}  {one.amount()} {one.verdict.mark}",
            (cell.high / unit.factor, number),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.2,
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, most / unit.factor * 1.35 or 1.0)  # the words beside the longest bar
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(metric.title)
    axes.set_xlabel(unit.name)
    return figure
