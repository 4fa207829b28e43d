"""Pictures for notebooks and files, drawn as those of a comparison's page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.cluster.errors import UsageError, unknown_name
from railyard.gateway.page.theme import DARK, LIGHT
from railyard.scripts.comparing.metrics import METRICS
from railyard.scripts.comparing.rows import CLOCK_WORDS, Row, label_rows
from railyard.scripts.comparing.statements import statements
from railyard.scripts.report.bars import draw_bars
from railyard.scripts.report.cdf import Curve, draw_cdf
from railyard.scripts.report.completion import colours_of, completion, panels_of
from railyard.scripts.report.results import Results
from railyard.scripts.report.style import Draw, render, themed
from railyard.scripts.report.timeline import draw_run
from railyard.scripts.results.outputfile import naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from railyard.scripts.api.records import RunRecord

_KINDS = ("png", "svg")


@dataclass(frozen=True)
class Picture:
    """A picture.  A notebook shows it; ``figure`` is matplotlib's, to be changed."""

    draw: Draw

    def figure(self, *, dark: bool = False) -> Figure:
        """Draw it; each call makes a new figure."""
        theme = DARK if dark else LIGHT
        with themed(theme):
            return self.draw(theme)

    def save(self, file: str | Path, *, dark: bool = False) -> None:
        """Write it to a file, NAME.png or NAME.svg; ``UsageError`` for another kind."""
        path = Path(file)
        kind = path.suffix.removeprefix(".")
        if kind not in _KINDS:
            raise UsageError(f"{file}: need a file that ends with .png or .svg")
        with naming(path):
            path.write_bytes(render(self.draw, DARK if dark else LIGHT, kind))

    def _repr_png_(self) -> bytes:
        return render(self.draw, LIGHT, "png")


def timeline_of(run: RunRecord) -> Picture:
    """A run over time: its jobs; with its files slots, circuits and links, too."""
    results = Results(run.folder, run.summary)
    return Picture(partial(draw_run, results, run.makespan_s or 1.0))


def cdf_of(run: RunRecord) -> Picture:
    """Distributions of a run's job and coflow completion times."""
    label = f"{run.scheduler}, {CLOCK_WORDS[run.clock]}"
    done = [job for job in run.jobs if job.ok]
    jobs, coflows = (
        Curve(
            label=label,
            colour=0,
            dashed=False,
            times_s=sorted(time_s for time_s in times if time_s is not None),
        )
        for times in ([job.jct_s for job in done], [job.cct_s for job in done])
    )
    return Picture(partial(draw_cdf, panels_of([jobs], [coflows])))


def completion_of(rows: Sequence[Row]) -> Picture:
    """Distributions of completion times, a curve for each contender."""
    labels = label_rows(rows)
    return Picture(completion(rows, labels, colours_of(rows, labels)))


def bars_of(rows: Sequence[Row], key: str) -> Picture:
    """One metric of each contender as bars; ``UsageError`` for a metric that there is not."""
    metrics = {metric.key: metric for metric in METRICS}
    if key not in metrics:
        raise unknown_name("metric", key, metrics)
    labels = label_rows(rows)
    colours = colours_of(rows, labels)
    draw = partial(draw_bars, rows, metrics[key], labels, colours, statements(rows))
    return Picture(draw)
