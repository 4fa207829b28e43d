"""The results of a run: its figures, as a data frame and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from railyard.scripts.api.records import RunRecord
from railyard.scripts.api.shown.frames import jobs_frame
from railyard.scripts.api.shown.pictures import Picture, cdf_of, timeline_of
from railyard.scripts.api.shown.words import run_as_html

if TYPE_CHECKING:
    from pandas import DataFrame


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
