"""The style of all pictures: colours of schedulers, jobs and loads, on light and dark."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of loads in the browser, of which the first is that of none; ``browser/links.js``.
_HEAT_STEPS = 9
_FONTS = ["DejaVu Sans"]  # comes with matplotlib, so that pictures look the same everywhere


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours for one background."""

    name: str
    ground: str
    ink: str
    muted: str  #: axes, less important words
    line: str  #: grid and separators
    soft: str  #: what can be pressed
    #: for schedulers, in order; distinct with any kind of colour vision
    colours: tuple[str, ...]
    jobs: tuple[str, ...]  #: for jobs, likewise; none is a scheduler's
    places: tuple[str, str, str]  #: what a map reads is on its node, in its rack, further away
    heat: tuple[str, ...]  #: from nothing to all


#: How far colours are apart with each kind of colour vision is in tests/scripts/test_colours.py.
LIGHT = Theme(
    name="light",
    ground="#ffffff",
    ink="#1c2230",
    muted="#667085",
    line="#e4e7ec",
    soft="#f7f8fa",
    colours=(
        "#0a6ebd",
        "#d9560b",
        "#0b9163",
        "#a44a9d",
        "#d2b163",
        "#524714",
        "#8bb4d4",
        "#364a51",
    ),
    jobs=(
        "#3b4087",
        "#eca647",
        "#19cbb3",
        "#ae1941",
        "#d998f1",
        "#9fa86d",
        "#3a7e8b",
        "#8e4608",
    ),
    places=("#3a7e8b", "#eca647", "#ae1941"),
    heat=("#f5f7fa", "#bcd9ef", "#5aa5d6", "#1867a8", "#0b3564"),
)
DARK = Theme(
    name="dark",
    ground="#151a23",
    ink="#e8ebf1",
    muted="#98a2b3",
    line="#2b3342",
    soft="#1b212c",
    colours=(
        "#5cb3f2",
        "#ff9657",
        "#3ecf9b",
        "#d98bd2",
        "#fedb4d",
        "#8f7545",
        "#d2dfed",
        "#5f8f84",
    ),
    jobs=(
        "#7e8dfb",
        "#d5a838",
        "#08d6fe",
        "#f17d7a",
        "#fcd4d5",
        "#aff485",
        "#60842a",
        "#ba4da6",
    ),
    places=("#08d6fe", "#d5a838", "#ba4da6"),
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


def job_colours(names: Sequence[str], theme: Theme) -> dict[str, tuple[float, float, float]]:
    """A colour for each job: neighbours in the list differ."""
    from matplotlib.colors import to_rgb

    return {name: to_rgb(theme.jobs[number % len(theme.jobs)]) for number, name in enumerate(names)}


def css_variables() -> str:
    """Both themes' colours for a style sheet, and a class for each."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}"
    classes = [
        f".{kind}{number} {{ --c: var(--{kind}{number}); }}"
        for kind, count in (("s", len(LIGHT.colours)), ("j", len(LIGHT.jobs)), ("h", _HEAT_STEPS))
        for number in range(count)
    ]
    return "\n".join([f":root {{ {_variables(LIGHT)} }}", dark, *classes, ""])


def _variables(theme: Theme) -> str:
    named = {name: getattr(theme, name) for name in ("ground", "ink", "muted", "line", "soft")}
    named |= {f"s{number}": colour for number, colour in enumerate(theme.colours)}
    named |= {f"j{number}": colour for number, colour in enumerate(theme.jobs)}
    named |= {f"h{number}": colour for number, colour in enumerate(_steps(theme.heat))}
    named |= dict(zip(("near", "between", "far"), theme.places, strict=True))
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


def _steps(heat: Sequence[str]) -> list[str]:
    """So many colours from the first to the last."""
    rgb = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in heat]
    places = np.linspace(0, len(heat) - 1, _HEAT_STEPS)
    parts = [np.interp(places, range(len(heat)), [one[part] for one in rgb]) for part in range(3)]
    return ["#" + "".join(f"{round(part):02x}" for part in one) for one in zip(*parts, strict=True)]
