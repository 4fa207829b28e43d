"""The completion times of a comparison: a curve for each contender, of jobs and of coflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from railyard.scripts.comparing.rows import CLOCK_WORDS, Contender, Row
from railyard.scripts.comparing.statements import flaw
from railyard.scripts.report.cdf import Curve, draw_cdf
from railyard.scripts.report.style import Draw


def colours_of(rows: Sequence[Row], labels: Mapping[Contender, str]) -> dict[str, int]:
    """The index in the themes' colours of each label; both clocks share it."""
    return {label: n for n, label in enumerate(dict.fromkeys(labels[r.contender] for r in rows))}


def completion(
    rows: Sequence[Row], labels: Mapping[Contender, str], colours: Mapping[str, int]
) -> Draw:
    """A picture of the completion times."""
    return partial(draw_cdf, completion_panels(rows, labels, colours))


def completion_panels(
    rows: Sequence[Row], labels: Mapping[Contender, str], colours: Mapping[str, int]
) -> list[tuple[str, Sequence[Curve]]]:
    """Distributions over all jobs of all seeds; simulated ones are dashed beside emulated ones."""
    both = len({row.contender.clock for row in rows}) > 1

    def curves(key: str) -> list[Curve]:
        return [
            Curve(
                label=labels[row.contender]
                + (f", {CLOCK_WORDS[row.contender.clock]}" if both else "")
                + (" !" if flaw(row) else ""),
                colour=colours[labels[row.contender]],
                dashed=both and row.contender.clock == "virtual",
                times_s=sorted(
                    job[key]
                    for run in row.runs
                    for job in run["jobs"]
                    if job["ok"] and job[key] is not None
                ),
            )
            for row in rows
        ]

    return panels_of(curves("jct_s"), curves("cct_s"))


def panels_of(jobs: Sequence[Curve], coflows: Sequence[Curve]) -> list[tuple[str, Sequence[Curve]]]:
    """The panels of a picture of completion times."""
    return [("Job completion time", jobs), ("Coflow completion time", coflows)]
