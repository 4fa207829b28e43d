"""How pages and pictures look: colours on light and dark, style sheets, scripts.

The files of ``browser/`` are plain functions that follow one another in one script, in a scope of
its own, so that the pages of runs and comparisons and the live page draw with the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Colours of loads in the browser, of which the first is that of none; ``browser/links.js``.
_HEAT_STEPS = 9


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours for one background."""

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


def _palette(colours: str) -> tuple[str, ...]:
    return tuple(colours.split())


#: How far colours are apart with each kind of colour vision is in tests/report/test_pictures.py.
LIGHT = Theme(
    ground="#ffffff",
    ink="#1c2230",
    muted="#667085",
    line="#e4e7ec",
    soft="#f7f8fa",
    colours=_palette("#0a6ebd #d9560b #0b9163 #a44a9d #d2b163 #524714 #8bb4d4 #364a51"),
    jobs=_palette("#3b4087 #eca647 #19cbb3 #ae1941 #d998f1 #9fa86d #3a7e8b #8e4608"),
    places=("#3a7e8b", "#eca647", "#ae1941"),
    heat=("#f5f7fa", "#bcd9ef", "#5aa5d6", "#1867a8", "#0b3564"),
)
DARK = Theme(
    ground="#151a23",
    ink="#e8ebf1",
    muted="#98a2b3",
    line="#2b3342",
    soft="#1b212c",
    colours=_palette("#5cb3f2 #ff9657 #3ecf9b #d98bd2 #fedb4d #8f7545 #d2dfed #5f8f84"),
    jobs=_palette("#7e8dfb #d5a838 #08d6fe #f17d7a #fcd4d5 #aff485 #60842a #ba4da6"),
    places=("#08d6fe", "#d5a838", "#ba4da6"),
    heat=("#1d2430", "#1f4a73", "#2f7fbd", "#74b9ec", "#e3f2fd"),
)


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
    for kind, colours in (("s", theme.colours), ("j", theme.jobs), ("h", _steps(theme.heat))):
        named |= {f"{kind}{number}": colour for number, colour in enumerate(colours)}
    named |= dict(zip(("near", "between", "far"), theme.places, strict=True))
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


def _steps(heat: Sequence[str]) -> list[str]:
    """So many colours from the first to the last."""
    rgb = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in heat]
    places = np.linspace(0, len(heat) - 1, _HEAT_STEPS)
    parts = [np.interp(places, range(len(heat)), [one[part] for one in rgb]) for part in range(3)]
    return ["#" + "".join(f"{round(part):02x}" for part in one) for one in zip(*parts, strict=True)]


# Style sheets and scripts -------------------------------------------------------------------------
#: What the live page is made of besides, the last of which begins.
LIVE_PARTS = (
    *("asking.js", "model.js", "matrix.js", "jobtable.js"),
    *("details.js", "blocks.js", "scrubber.js", "live.js"),
)
#: What every page draws with, in this order: each uses only what is before it.
PARTS = (
    *("drawing.js", "timewindow.js", "panel.js", "why.js"),
    *("stacked.js", "timeline.js", "links.js"),
)


def style(*more: str) -> str:
    """The style sheet: colours, the look of all pages, and ``more`` files."""
    return css_variables() + "".join(map(_read, ("page.css", *more)))


def script(*more: str) -> str:
    """The parts that draw, then ``more`` files, of which the last begins to."""
    return "\n".join(['"use strict";', "(() => {", *map(_read, (*PARTS, *more)), "})();"])


def live_page() -> str:
    """The live page."""
    page = _read("live.html").replace("/*STYLE*/", style("live.css"))
    return page.replace("/*SCRIPT*/", script(*LIVE_PARTS))


def _read(name: str) -> str:
    return (Path(__file__).parent / "browser" / name).read_text(encoding="utf-8")
