"""Pictures for notebooks and files, drawn as those of a comparison's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from railyard.api import records
from railyard.api.records import (
    RunRecord,
    as_preformatted,
    comparison_as_text,
    jobs_frame,
    run_as_html,
)
from railyard.cluster.errors import UsageError, unknown_name
from railyard.experiments.contenders import CLOCK_WORDS, Row
from railyard.experiments.statements import Statement, statements
from railyard.gateway.page.theme import DARK, LIGHT
from railyard.report.pictures import (
    Curve,
    Draw,
    completion_panels,
    draw_bars,
    draw_cdf,
    panels_of,
    render,
    themed,
)
from railyard.report.recordedrun import Results
from railyard.report.timeline import draw_run
from railyard.runs.figures import METRICS
from railyard.runs.outputfile import naming, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


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
    return Picture(partial(draw_cdf, completion_panels(rows)))


def bars_of(rows: Sequence[Row], key: str) -> Picture:
    """One metric of each contender as bars; ``UsageError`` for a metric that there is not."""
    metrics = {metric.key: metric for metric in METRICS}
    if key not in metrics:
        raise unknown_name("metric", key, metrics)
    return Picture(partial(draw_bars, rows, metrics[key], statements(rows)))


# The results of a run: its figures, as a data frame and as pictures.


class Run(RunRecord, frozen=True, kw_only=True):
    """One run of one or several jobs under a scheduler, on either clock."""

    def to_pandas(self) -> DataFrame:
        """A row for each job: its fields, after ``scheduler``, ``clock`` and ``seed``.

        Raises ``UsageError`` if pandas is not installed.
        """
        return jobs_frame([self])

    def timeline(self) -> Picture:
        """Jobs over time; with ``out=`` also slots, circuits and links."""
        return timeline_of(self)

    def cdf(self) -> Picture:
        """Distributions of job and coflow completion times."""
        return cdf_of(self)

    def _repr_html_(self) -> str:
        return run_as_html(self)


def run_of(summary: dict[str, Any], folder: Path | None = None, output: str | None = None) -> Run:
    """The run that a summary describes; ``folder`` has its files."""
    known = {**summary, "summary": summary, "folder": folder, "output": output}
    return msgspec.convert(known, Run)


# The result of a comparison: its runs, and what is said of them.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """The same jobs under several schedulers.  As text it is what ``railyard compare`` prints."""

    title: str  #: the jobs and the topology
    rows: Sequence[Row]  #: one for each contender: a scheduler with a flow scheduler on a clock
    about: Mapping[str, Any]  #: facts about the runs, for the page
    folder: Path | None  #: with all files of the runs; None: none were asked for

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs: contender by contender, then by seed."""
        folders = self.about["folders"]
        return tuple(
            run_of(summary, folders.get((row.contender, summary["seed"])))
            for row in self.rows
            for summary in row.runs
        )

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """What is said of each scheduler against the first one of its clock.

        Of a statement, ``words`` is the sentence, ``verdict`` whether it is better, worse, or may
        be chance, ``change`` has the ratio and its interval.
        """
        return statements(self.rows).every

    def called(self, plain: Callable[[str], str]) -> Comparison:
        """The same, with its title and its workload's name changed."""
        about = {**self.about, "workload": plain(self.about["workload"])}
        return replace(self, title=plain(self.title), about=about)

    @property
    def ok(self) -> bool:
        """Whether all jobs of all runs succeeded, and no output is wrong."""
        return all(run.ok for run in self.runs)

    def run(self, scheduler: str, *, clock: str | None = None, seed: int | None = None) -> Run:
        """The first run of a scheduler ("delay", or "delay + sjf"), on this clock, with this seed.

        Raises ``UsageError`` if there is none.
        """
        wanted = {
            row.contender for row in self.rows if scheduler in (row.label, row.contender.scheduler)
        }
        for run, contender in zip(self.runs, self._contenders(), strict=True):
            if contender in wanted and clock in (None, run.clock) and seed in (None, run.seed):
                return run
        there = ", ".join(
            dict.fromkeys(f"{r.scheduler} {r.clock} with seed {r.seed}" for r in self.runs)
        )
        raise UsageError(f"run of {scheduler}: there is none such; there are: {there}")

    def to_pandas(self, of: Literal["runs", "jobs", "statements"] = "runs") -> DataFrame:
        """A row for each run, for each job of each run, or for each statement.

        Raises ``UsageError`` if pandas is not installed.
        """
        if of == "jobs":
            return records.jobs_frame(self.runs)
        if of == "statements":
            return records.statements_frame(self.statements)
        if of == "runs":
            return records.runs_frame(self.runs)
        raise UsageError(f"to_pandas of {of}: need runs, jobs or statements")

    def cdf(self) -> Picture:
        """Distributions of job and coflow completion times: a curve for each contender."""
        return completion_of(self.rows)

    def bars(self, metric: str = "jct_s.mean") -> Picture:
        """One metric of each contender, such as "makespan_s", "cct_s.p95", "cross_rack_bytes".

        Raises ``UsageError`` for a metric that there is not.
        """
        return bars_of(self.rows, metric)

    def write_page(self) -> Path:
        """Draw and write the page of ``railyard compare --out``; returns its path.

        Raises ``UsageError`` without ``out=``, since the runs left no files then.
        """
        from railyard.report.comparisonpage import write_page

        if self.folder is None:
            raise UsageError("write_page: the runs left no files: need out=FOLDER")
        write_page(self.folder, self.rows, self.about)
        return self.folder / "index.html"

    def save_json(self, file: str | Path) -> None:
        """Write what ``railyard compare --json`` does; raises ``NotWritten``."""
        from railyard.experiments.statements import as_json

        write_json(as_json(self.rows), Path(file))

    def _contenders(self) -> list[Any]:
        return [row.contender for row in self.rows for _ in row.runs]

    def __str__(self) -> str:
        return comparison_as_text(self.rows, self.title)

    def __repr__(self) -> str:
        return f"<Comparison of {self.title}: {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        return as_preformatted(str(self))
