"""Results as text and HTML for notebooks: the same words and tables as on the terminal."""

from __future__ import annotations

import html
import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from railyard.cluster.shown import printable
from railyard.cluster.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.scripts.api.records import RunRecord
    from railyard.scripts.comparing.rows import Row

_CLOCKS = {"wall": "emulated", "virtual": "simulated"}


def run_as_html(run: RunRecord) -> str:
    """A run in a few rows."""
    rows = [
        ("workload", f"{run.workload} on {run.topology}, {_CLOCKS[run.clock]}, seed {run.seed}"),
        ("scheduler", f"{run.scheduler} + {run.flow_scheduler}"),
        ("jobs", _jobs(run)),
        ("makespan", format_duration(run.makespan_s)),
        ("job time", _times(run.jct_s.mean, run.jct_s.p95)),
        ("shuffle", _times(run.cct_s.mean, run.cct_s.p95)),
        ("between racks", format_size(run.bytes.cross_rack)),
    ]
    if not run.trusted:
        rows.append(("times", "not to be trusted: the machine was too busy"))
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(printable(text))}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def comparison_as_text(rows: Sequence[Row], title: str) -> str:
    """The tables and statements that the command prints."""
    from railyard.scripts.comparing.table import show

    return printed(lambda: show(rows, title))


def printed(show: Callable[[], object]) -> str:
    """What a function prints."""
    written = io.StringIO()
    with redirect_stdout(written):
        show()
    return written.getvalue().rstrip("\n")


def as_preformatted(text: str) -> str:
    """Text as HTML that keeps its columns."""
    return f"<pre style='line-height:1.2'>{html.escape(text)}</pre>"


def _jobs(run: RunRecord) -> str:
    failed = sum(not job.ok for job in run.jobs)
    wrong = ", output WRONG" if run.verified is False and not failed else ""
    verified = ", output verified" if run.verified else wrong
    count = format_count(len(run.jobs), "job")
    return f"{count}{f', {failed} failed' if failed else ''}{verified}"


def _times(mean_s: float | None, p95_s: float | None) -> str:
    if mean_s is None or p95_s is None:
        return "-"
    return f"mean {format_duration(mean_s)}, p95 {format_duration(p95_s)}"


def listing_as_html(listing: Mapping[str, Any]) -> str:
    """A row for each of what there is, a column for each of its fields."""
    every = list(listing.values())
    if not every:
        return "none"
    names = every[0].__struct_fields__
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in names)
    rows = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{_cell(one, n)}</td>" for n in names)
        + "</tr>"
        for one in every
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _cell(one: Any, name: str) -> str:
    value = getattr(one, name)
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return html.escape(printable(text, 1000))
