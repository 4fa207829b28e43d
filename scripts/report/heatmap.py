"""How loaded each link was over time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from railyard.gateway.page.theme import Theme
from railyard.scripts.report.results import LinkLoads, natural
from railyard.scripts.report.style import title_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_links(axes: Axes, loads: LinkLoads, theme: Theme) -> None:
    """Draw a row for each link: links out of racks first, then links into them."""
    from matplotlib.colors import LinearSegmentedColormap

    order = in_order(loads.links)
    names = [loads.links[number] for number in order]
    mesh = axes.pcolormesh(
        loads.edges_s,
        [row - 0.5 for row in range(len(names) + 1)],
        loads.loads[order] * 100,
        cmap=LinearSegmentedColormap.from_list("load", theme.heat),
        vmin=0,
        vmax=100,
        rasterized=True,
    )
    title = "load of the racks' links: up is out of the rack, down into it"
    title_rows(axes, len(names), title, theme)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False)
    step = -(-len(names) // 20)
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize=7.5)
    row = 0
    for _, same in groupby(names, key=lambda name: _kind(name)[:2]):
        row += len(list(same))
        if row < len(names):
            axes.axhline(row - 0.5, color=theme.ground, linewidth=2.5)
    beside = axes.inset_axes((1.008, 0.0, 0.011, 1.0))
    bar = axes.figure.colorbar(mesh, cax=beside)
    bar.set_ticks([0, 50, 100], labels=["idle", "50 %", "full"], fontsize=8)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


def in_order(links: Sequence[str]) -> list[int]:
    """The links' indices in the order in which they are shown."""
    return sorted(range(len(links)), key=lambda number: _kind(links[number]))


def _kind(link: str) -> tuple[str, str, list[tuple[int, str]]]:
    """The kind of a link, by which rows are grouped: "r3.up" and "r4.up" have the same."""
    place, _, kind = link.rpartition(".")
    return re.sub(r"\d+", "", place), {"up": "0", "down": "1"}.get(kind, kind), natural(place)
