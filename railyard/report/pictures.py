"""Pictures of comparisons, drawn with matplotlib: their style, completion times, bars.

Colours are those of the pages (``gateway.page.theme``).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import NodeId, rack_of
from railyard.cluster.units import format_count, format_duration, format_number
from railyard.experiments.contenders import Row
from railyard.experiments.reproduction import Value
from railyard.experiments.statements import Statements
from railyard.gateway.page.theme import Theme
from railyard.report.recordedrun import LinkLoads, Outcome, Results, link_kind, natural
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
        heights = [100.0 * n / len(curve.times_s) for n in range(1, len(curve.times_s) + 1)]
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


# A paper's figure ---------------------------------------------------------------------------------
def draw_published(title: str, values: Sequence[Value], theme: Theme) -> Figure:
    """Our means with their intervals beside the paper's numbers, a panel for each measure.

    What the paper says is a tick, the two ends of a range, or an arrow from 0 to the better side.
    """
    panels: dict[str, list[Value]] = {}
    for value in values:
        if value.ours is not None:
            panels.setdefault(value.line.measure.words, []).append(value)
    heights = [len(some) + 2.0 for some in panels.values()]
    figure = new_figure(7.0, 0.7 + 0.22 * sum(heights))
    figure.suptitle(title, x=0.0, ha="left", fontsize=10.5, fontweight="bold")
    every = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (words, some) in zip(every, panels.items(), strict=True):
        _beside_published(axes, some, theme)
        unit = some[0].line.measure.unit
        _title_rows(axes, len(some), f"{words}, {unit}" if unit else words, theme)
    return figure


def _beside_published(axes: Axes, values: Sequence[Value], theme: Theme) -> None:
    for row, value in enumerate(values):
        ours, known = value.ours, value.line.published
        assert ours is not None
        if known is not None:
            ends = [end for end in (known.least, known.most) if math.isfinite(end)]
            mark = "|" if known.is_number else ">" if known.least == 0 else "<"
            colour = theme.colours[1]
            rows = [row] * len(ends)
            axes.plot(ends, rows, f"{mark}-", markersize=9, color=colour, label="paper")
        axes.errorbar(
            ours.mean,
            row,
            xerr=ours.half_width,
            fmt="o",
            markersize=3.5,
            color=theme.colours[0],
            capsize=2.5,
            label="Railyard, 95 %",
        )
    names = [f"{value.line.case}  {value.line.subject}".strip() for value in values]
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), fontsize=7, frameon=False, loc="best")


# A run over time ----------------------------------------------------------------------------------
def _title_rows(axes: Axes, rows: int, title: str, theme: Theme) -> None:
    """Prepare a panel of rows, the first on top, with a title."""
    axes.set_title(title, fontsize=8.8, fontweight="normal", color=theme.muted, pad=4)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def draw_links(axes: Axes, loads: LinkLoads, theme: Theme) -> None:
    """Draw a row for each link."""
    from matplotlib.colors import LinearSegmentedColormap

    names = loads.links
    mesh = axes.pcolormesh(
        loads.edges_s,
        [row - 0.5 for row in range(len(names) + 1)],
        loads.loads * 100,
        cmap=LinearSegmentedColormap.from_list("load", theme.heat),
        vmin=0,
        vmax=100,
        rasterized=True,
    )
    title = "load of the racks' links: up is out of the rack, down into it"
    _title_rows(axes, len(names), title, theme)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False)
    step = -(-len(names) // 20)
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize=7.5)
    row = 0
    for _, same in groupby(names, key=lambda name: link_kind(name)[:2]):
        row += len(list(same))
        if row < len(names):
            axes.axhline(row - 0.5, color=theme.ground, linewidth=2.5)
    bar = axes.figure.colorbar(mesh, cax=axes.inset_axes((1.008, 0.0, 0.011, 1.0)))
    bar.set_ticks([0, 50, 100], labels=["idle", "50 %", "full"], fontsize=8)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


# The whole run ------------------------------------------------------------------------------------
#: More names of jobs would not be readable.
_NAMED_MAX = 28
#: So many bars or more are drawn as a bitmap: as vectors they would make the file large.
_RASTER_FROM = 1500
#: Of what did not count at once.
_HATCHES: dict[Outcome, str] = {"taken": "///", "not taken": "....", "lost": "xxxxx"}


def draw_run(results: Results, until_s: float, theme: Theme) -> Figure:
    """Jobs on top, slots below them; then reservations, circuits and links, where there are any."""
    jobs = results.summary["jobs"]
    slots = sum(results.nodes.values())
    ports = sorted({circuit.src for circuit in results.circuits}, key=natural)
    loads = results.loads()
    colours = _job_colours([job["name"] for job in jobs], theme)
    of_job = 0.17 if len(jobs) <= _NAMED_MAX else 0.05
    draw = partial(_jobs, results=results, colours=colours, theme=theme)
    height = max(0.5, min(len(jobs), 40) * of_job)
    panels: list[tuple[float, Callable[[Axes], None]]] = [(height, draw)]
    if results.attempts:
        draw = partial(_slots, results=results, colours=colours, theme=theme)
        panels.append((max(1.4, min(4.2, slots * 0.085)), draw))
    if results.reservations:
        draw = partial(_waiting, results=results, colours=colours, theme=theme)
        panels.append((1.0, draw))
    if ports:
        draw = partial(_circuits, results=results, ports=ports, theme=theme)
        panels.append((max(0.6, min(2.5, len(ports) * 0.17)), draw))
    if loads is not None:
        height = max(1.0, min(3.6, 0.115 * len(loads.links)))
        panels.append((height, partial(draw_links, loads=loads, theme=theme)))
    heights = [height for height, _ in panels]
    figure = new_figure(10.0, sum(heights) + 0.32 * len(panels) + 0.4)
    every = figure.subplots(len(panels), 1, sharex=True, height_ratios=heights, squeeze=False)
    for axes, (_, draw_panel) in zip(every[:, 0], panels, strict=True):
        draw_panel(axes)
    every[-1, 0].set_xlim(0, until_s)
    every[-1, 0].set_xlabel("seconds since the first submission")
    return figure


_Colours = dict[str, tuple[float, float, float]]


def _jobs(axes: Axes, results: Results, colours: _Colours, theme: Theme) -> None:
    jobs = results.summary["jobs"]
    for row, job in enumerate(jobs):
        begin_s = job["submitted_s"] - results.begin_s
        if job["finished_s"] is not None:
            end_s = job["finished_s"] - results.begin_s
            axes.plot(
                [begin_s, end_s],
                [row, row],
                color=colours[job["name"]],
                linewidth=3.2 if len(jobs) <= _NAMED_MAX else 1.0,
                solid_capstyle="butt",
            )
    named = len(jobs) <= _NAMED_MAX
    axes.set_yticks(range(len(jobs)) if named else [], [j["name"] for j in jobs] if named else [])
    if named:
        for label, job in zip(axes.get_yticklabels(), jobs, strict=True):
            label.set_color(colours[job["name"]])
            label.set_fontsize(7.5)
    _title_rows(axes, len(jobs), f"{format_count(len(jobs), 'job')}, from submission to end", theme)


def _slots(axes: Axes, results: Results, colours: _Colours, theme: Theme) -> None:
    first: dict[str, int] = {}
    rows = 0
    for node, slots in results.nodes.items():
        first[node], rows = rows, rows + slots
    raster = len(results.attempts) > _RASTER_FROM
    for held in results.attempts:
        colour = colours[held.job]
        axes.barh(
            first[held.node] + held.lane,
            held.end_s - held.begin_s,
            left=held.begin_s,
            height=0.84 if rows <= 120 else 1.0,
            color=_pale(colour, theme) if held.first_stage else colour,
            hatch=_HATCHES.get(held.outcome),
            edgecolor="none" if held.outcome == "counted" else theme.ground,
            linewidth=0,
            rasterized=raster,
        )
    ticks, names = [], []
    for rack, nodes in groupby(results.nodes, key=lambda node: rack_of(NodeId(node))):
        own = list(nodes)
        begin, end = first[own[0]], first[own[-1]] + results.nodes[own[-1]]
        ticks.append((begin + end - 1) / 2)
        names.append(rack)
        if begin:
            axes.axhline(begin - 0.5, color=theme.line, linewidth=0.7)
    step = -(-len(names) // 16)
    axes.set_yticks(ticks[::step], names[::step], fontsize=8)
    title = f"{format_count(rows, 'slot')}: maps pale, reduces strong, failed or killed crossed"
    if any(held.outcome in ("taken", "not taken") for held in results.attempts):
        title += "; of outputs that were kept, those taken striped, others dotted"
    _title_rows(axes, rows, title, theme)


def _waiting(axes: Axes, results: Results, colours: _Colours, theme: Theme) -> None:
    """How many attempts of each job wait for a slot, one job on top of the other."""
    changes: dict[str, list[tuple[float, int]]] = {}
    for one in results.reservations:
        changes.setdefault(one.job, []).extend(((one.begin_s, 1), (one.end_s, -1)))
    times_s = np.unique([at_s for each in changes.values() for at_s, _ in each])
    counts = np.zeros((len(changes), len(times_s)))
    for number, each in enumerate(changes.values()):
        at = np.searchsorted(times_s, [at_s for at_s, _ in each])
        np.add.at(counts[number], at, [by for _, by in each])
    counts = counts.cumsum(axis=1)
    axes.stackplot(times_s, counts, colors=[colours[job] for job in changes], step="post")
    most = int(counts.sum(axis=0).max())
    title = f"attempts that have no slot yet, {most} at most, in the colour of their job"
    _title_rows(axes, most, title, theme)
    axes.set_ylim(0, max(most, 1))


def _circuits(axes: Axes, results: Results, ports: Sequence[str], theme: Theme) -> None:
    racks = sorted({end for c in results.circuits for end in (c.src, c.dst)}, key=natural)
    colours = _job_colours(racks, theme)
    raster = len(results.circuits) > _RASTER_FROM
    for circuit in results.circuits:
        axes.barh(
            ports.index(circuit.src),
            circuit.end_s - circuit.begin_s,
            left=circuit.begin_s,
            height=0.8,
            color=colours[circuit.dst],
            linewidth=0,
            rasterized=raster,
        )
    step = -(-len(ports) // 16)
    axes.set_yticks(range(0, len(ports), step), ports[::step], fontsize=8)
    title = "circuits of each rack's outgoing port, in the colour of the rack they lead to"
    _title_rows(axes, len(ports), title, theme)


def _job_colours(names: Sequence[str], theme: Theme) -> dict[str, tuple[float, float, float]]:
    """A colour for each job: neighbours in the list differ."""
    from matplotlib.colors import to_rgb

    return {name: to_rgb(theme.jobs[number % len(theme.jobs)]) for number, name in enumerate(names)}


def _pale(colour: tuple[float, float, float], theme: Theme) -> tuple[float, float, float]:
    """A colour mixed with as much of the background."""
    from matplotlib.colors import to_rgb

    pairs = zip(colour, to_rgb(theme.ground), strict=True)
    red, green, blue = ((part + ground) / 2 for part, ground in pairs)
    return red, green, blue
