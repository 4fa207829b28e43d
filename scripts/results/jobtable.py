"""The table of a run's jobs on its page, each column in one unit, and what the jobs counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from railyard.cluster.units import (
    NO_UNIT,
    Unit,
    format_count,
    format_number,
    size_unit,
    time_unit,
)
from railyard.scripts.results.words import own_counters

Job = dict[str, Any]
#: Rows of counters of a page; ``summary.json`` has all.
_COUNTERS_MAX = 200


@dataclass(frozen=True)
class _Column:
    title: str
    key: str
    unit: Callable[[float], Unit]  #: by its largest value


#: What is known before the jobs have run, and afterwards.
_TIMES = (_Column("job time", "jct_s", time_unit), _Column("shuffle time", "cct_s", time_unit))
_SIZES = (
    _Column("input", "input_bytes", size_unit),
    _Column("shuffle", "shuffle_bytes", size_unit),
    _Column("its skew", "shuffle_skew", lambda _: NO_UNIT),
    _Column("output", "output_bytes", size_unit),
)


def job_table(jobs: Sequence[Job], *, times: bool = True) -> dict[str, Any]:
    """Headings with their units, and a row for each job; ``times``: with those that they took."""
    begin_s = min((job["submitted_s"] for job in jobs), default=0.0)
    after = [{"after": job["submitted_s"] - begin_s} for job in jobs]
    columns = (_Column("submitted after", "after", time_unit), *(_TIMES if times else ()), *_SIZES)
    shown = [
        _shown(column, [job | at for job, at in zip(jobs, after, strict=True)])
        for column in columns
    ]
    return {
        "headings": [
            (column.title, unit) for column, (unit, _) in zip(columns, shown, strict=True)
        ],
        "rows": [
            {
                "name": job["name"],
                "id": job["id"],
                "ok": job["ok"],
                "cells": [cells[number] for _, cells in shown],
                "tasks": ", ".join(
                    format_count(job[f"{kind}s"], kind) for kind in ("map", "reduce")
                ),
            }
            for number, job in enumerate(jobs)
        ],
    }


def counter_rows(jobs: Sequence[Job]) -> list[tuple[str, str, str]]:
    """What the jobs' own code counted: job, counter, count."""
    found = [
        (job["name"], name, format_number(count))
        for job in jobs
        for name, count in own_counters(job).items()
    ]
    return found[:_COUNTERS_MAX]


def _shown(column: _Column, jobs: Sequence[Job]) -> tuple[str, list[str]]:
    """The name of the column's unit, and its cells."""
    values = [job[column.key] for job in jobs]
    known = [value for value in values if value is not None]
    unit = column.unit(max(known)) if known else NO_UNIT
    return unit.name, ["-" if value is None else unit.digits(value) for value in values]
