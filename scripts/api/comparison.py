"""The result of a comparison: its runs, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from railyard.cluster.errors import UsageError
from railyard.scripts.api.results import Run, run_of
from railyard.scripts.api.shown import frames
from railyard.scripts.api.shown.pictures import Picture, bars_of, completion_of
from railyard.scripts.api.shown.words import as_preformatted, comparison_as_text
from railyard.scripts.comparing.rows import Row, label_rows
from railyard.scripts.comparing.statements import Statement, statements
from railyard.scripts.results.outputfile import write_json

if TYPE_CHECKING:
    from pandas import DataFrame


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
        labels = label_rows(self.rows)
        wanted = {
            row.contender
            for row in self.rows
            if scheduler in (labels[row.contender], row.contender.scheduler)
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
            return frames.jobs_frame(self.runs)
        if of == "statements":
            return frames.statements_frame(self.statements)
        if of == "runs":
            return frames.runs_frame(self.runs)
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
        from railyard.scripts.report.page import write_page

        if self.folder is None:
            raise UsageError("write_page: the runs left no files: need out=FOLDER")
        write_page(self.folder, self.rows, self.about)
        return self.folder / "index.html"

    def save_json(self, file: str | Path) -> None:
        """Write what ``railyard compare --json`` does; raises ``NotWritten``."""
        from railyard.scripts.comparing.asjson import as_json

        write_json(as_json(self.rows), Path(file))

    def _contenders(self) -> list[Any]:
        return [row.contender for row in self.rows for _ in row.runs]

    def __str__(self) -> str:
        return comparison_as_text(self.rows, self.title)

    def __repr__(self) -> str:
        return f"<Comparison of {self.title}: {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        return as_preformatted(str(self))
