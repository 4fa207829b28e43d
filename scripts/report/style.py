"""The style of plots, in the colours of the pages (``gateway.page.theme``)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from railyard.gateway.page.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FONTS = ["DejaVu Sans"]  # comes with matplotlib, so that pictures look the same everywhere

_SVG_TEXT = "path"  #: letters are outlines, so that no font is needed

Draw = Callable[[Theme], "Figure"]


@contextmanager
def themed(theme: Theme) -> Iterator[None]:
    """Draw in this theme while the block runs."""
    import matplotlib as mpl

    with mpl.rc_context(
        {
            "font.family": _FONTS,
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


def time_axis(
    axes: Axes, until_s: float, label: str = "seconds since the first submission"
) -> None:
    """Time from 0, in seconds."""
    axes.set_xlim(0, until_s)
    axes.set_xlabel(label)


def title_rows(axes: Axes, rows: int, title: str, theme: Theme) -> None:
    """Prepare a panel of rows, the first on top, with a title."""
    axes.set_title(title, fontsize=8.8, fontweight="normal", color=theme.muted, pad=4)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def render(draw: Draw, theme: Theme, kind: str) -> bytes:
    """A picture as "svg" or "png"."""
    target = io.BytesIO()
    with themed(theme):
        figure = draw(theme)
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        figure.savefig(target, format=kind, dpi=160, metadata=metadata)
    return target.getvalue()


def job_colours(names: Sequence[str], theme: Theme) -> dict[str, tuple[float, float, float]]:
    """A colour for each job: neighbours in the list differ."""
    from matplotlib.colors import to_rgb

    return {name: to_rgb(theme.jobs[number % len(theme.jobs)]) for number, name in enumerate(names)}
