"""The style sheet and the script of a page, joined from the files of ``browser/``.

The files are plain functions that follow one another in one script, in a scope of its own, so that
the pages of runs and comparisons and the live page draw with the same code.
"""

from __future__ import annotations

from pathlib import Path

from railyard.gateway.page.theme import css_variables

#: What the live page is made of besides, the last of which begins.
LIVE_PARTS = (
    "asking.js",
    "model.js",
    "matrix.js",
    "jobtable.js",
    "details.js",
    "blocks.js",
    "scrubber.js",
    "live.js",
)
_BROWSER = Path(__file__).parent / "browser"
#: What every page draws with, in this order: each uses only what is before it.
PARTS = (
    "drawing.js",
    "timewindow.js",
    "panel.js",
    "why.js",
    "stacked.js",
    "timeline.js",
    "links.js",
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
    return (_BROWSER / name).read_text(encoding="utf-8")
