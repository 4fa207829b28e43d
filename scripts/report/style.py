"""The style of all pictures: one colour per scheduler, on light and dark backgrounds."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FONTS = ["DejaVu Sans"]  # comes with matplotlib, so that pictures look the same everywhere


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours for one background."""

    name: str
    ground: str
    ink: str
    muted: str  #: axes, less important words
    line: str  #: grid and separators
    #: for schedulers, in order; distinct with any kind of colour vision
    colours: tuple[str, ...]
    heat: tuple[str, ...]  #: from nothing to all


#: After Okabe and Ito's palette.
LIGHT = Theme(
    name="light",
    ground="#ffffff",
    ink="#1c2230",
    muted="#667085",
    line="#e4e7ec",
    colours=(
        "#0a6ebd",
        "#d9560b",
        "#0b9163",
        "#a44a9d",
        "#b58900",
        "#3aa7c9",
        "#c0392b",
        "#5b6570",
    ),
    heat=("#f5f7fa", "#bcd9ef", "#5aa5d6", "#1867a8", "#0b3564"),
)
DARK = Theme(
    name="dark",
    ground="#151a23",
    ink="#e8ebf1",
    muted="#98a2b3",
    line="#2b3342",
    colours=(
        "#5cb3f2",
        "#ff9657",
        "#3ecf9b",
        "#d98bd2",
        "#e3bf4f",
        "#7fd6ee",
        "#f0776a",
        "#a7b0bd",
    ),
    heat=("#1d2430", "#1f4a73", "#2f7fbd", "#74b9ec", "#e3f2fd"),
)

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
            "svg.fonttype": "path",
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


def data_uri(picture: bytes) -> str:
    """An SVG as a data URI."""
    return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"


def job_colours(names: Sequence[str], theme: Theme) -> dict[str, tuple[float, float, float]]:
    """A colour for each job: neighbours in the list differ most."""
    import colorsys

    lightness, strength = (0.45, 0.62) if theme is LIGHT else (0.62, 0.62)
    # Steps of the golden ratio around the colour circle: any number of jobs is spread well.
    return {
        name: colorsys.hls_to_rgb((0.57 + 0.618034 * number) % 1.0, lightness, strength)
        for number, name in enumerate(names)
    }
