"""How much longer jobs take under faults: by the recoveries, and the work that was lost."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.scripts.chaos.underfaults import Report


def growth_rows(what: str, report: Report) -> list[Row]:
    """How much longer a run of ``what`` took than without faults, beside what explains it.

    Means of all runs: what one run waits for another gains.
    """
    runs = [(kind, run) for kind, run in report.runs if not run.failure]
    if not runs:
        return []
    grown_s = statistics.fmean(run.took_s - kind.without.took_s for kind, run in runs)
    begun_s = report.begun_s
    away = [
        (begun_s + one.at_s, begun_s + one.at_s + one.took_s)
        for one in report.faults
        if one.took_s is not None
    ]
    away_s = statistics.fmean(
        covered_s(away, run.begun_s, run.begun_s + run.took_s) for _, run in runs
    )
    lost_s = statistics.fmean(run.lost_s for _, run in runs)
    without_s = statistics.fmean(kind.without.took_s for kind, _ in runs)
    return [
        bench_row(
            f"{what}: a run's time beyond {without_s:.1f} s, recoveries and lost work",
            grown_s,
            "s",
            reference=away_s + lost_s,
            ratio_bound=1.0,
            note=f"recoveries {away_s:.2f} s, attempts that did not count {lost_s:.2f} s",
        )
    ]


def covered_s(spans: Iterable[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """How much of the time from ``begin_s`` to ``end_s`` is in at least one of the spans."""
    covered, reached_s = 0.0, begin_s
    for from_s, to_s in sorted(spans):
        from_s, to_s = max(from_s, reached_s), min(to_s, end_s)
        if to_s > from_s:
            covered += to_s - from_s
            reached_s = to_s
    return covered
