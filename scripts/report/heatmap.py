"""How loaded each link was over time."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from scripts.report.results import LinkLoads
from scripts.report.style import Theme, new_figure, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_heatmap(loads: LinkLoads, until_s: float, theme: Theme) -> Figure:
    """A row for each link: those out of the racks, then those into them."""
    from matplotlib.colors import LinearSegmentedColormap

    order = sorted(range(len(loads.links)), key=lambda n: (_kind(loads.links[n]), n))
    names = [loads.links[number] for number in order]
    figure = new_figure(10.0, max(1.9, min(4.5, 0.13 * len(names) + 0.9)))
    axes = figure.subplots()
    mesh = axes.pcolormesh(
        loads.edges_s,
        range(len(names) + 1),
        loads.loads[order] * 100,
        cmap=LinearSegmentedColormap.from_list("load", theme.heat),
        vmin=0,
        vmax=100,
        rasterized=True,
    )
    axes.set_ylim(len(names), 0)
    step = -(-len(names) // 24)
    axes.set_yticks([row + 0.5 for row in range(0, len(names), step)], names[::step], fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    row = 0
    for _, same in groupby(names, key=_kind):
        row += len(list(same))
        if row < len(names):
            axes.axhline(row, color=theme.ground, linewidth=2.5)
    axes.spines["left"].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, aspect=18, pad=0.012)
    bar.set_ticks([0, 50, 100], labels=["idle", "50 %", "full"])
    bar.outline.set_visible(False)  # type: ignore[operator]  # matplotlib's stubs say Spines
    time_axis(axes, until_s)
    return figure


def _kind(link: str) -> tuple[str, str]:
    """Links of the same kind belong together: "r3.up" and "r4.up"."""
    place, _, kind = link.rpartition(".")
    return place.rstrip("0123456789"), {"up": "0", "down": "1"}.get(kind, kind)
