"""The candidates of associations, by a plain program that shares no code with the job."""

from __future__ import annotations

from itertools import groupby

from railyard.jobs.samples.sample import Files
from railyard.jobs.samples.steps import lines_of


def expected_candidates(files: Files, source: str) -> list[bytes]:
    """All candidates, sorted."""
    rows = sorted({tuple(line.strip().split(b",")) for line in lines_of(files, source)})
    found = []
    for _, group in groupby(rows, key=lambda row: row[:-1]):
        alike = list(group)
        for number, row in enumerate(alike):
            found += [b",".join((*row, other[-1])) for other in alike[number + 1 :]]
    return sorted(found)
