"""What faults did, for people and for programs: a line for each fault, tables, a dictionary.

Lines have at most 80 letters.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from railyard.chaos.injector import RECOVERY_TIMEOUT_S, Recovered
from railyard.chaos.runs import Report
from railyard.cluster.units import format_count, format_duration, time_unit
from railyard.terminal.tables import Column, plain_console, plain_numbers, show_table

_WHAT_LETTERS = 48


def line_of(one: Recovered) -> str:
    """A fault that is over, in one line."""
    at = f"{one.at_s:7.1f} s"
    if not one.what:
        return f"{at}  {one.fault.kind:<{_WHAT_LETTERS}} nothing to do it to"
    if one.took_s is None:
        return f"{at}  {one.what:<{_WHAT_LETTERS}} not in {RECOVERY_TIMEOUT_S:.0f} s"
    return f"{at}  {one.what:<{_WHAT_LETTERS}} {one.took_s:7.2f} s"


def heading() -> str:
    """What stands above these lines."""
    return f"{'at':>9}  {'fault':<{_WHAT_LETTERS}} recovered after"


def show_report(report: Report) -> None:
    """Print the recoveries by kind, and what became of jobs and files."""
    columns = [
        Column("fault"),
        Column("times", plain_numbers),
        Column("median", time_unit),
        Column("worst", time_unit),
    ]
    rows = [
        [kind, times["times"], times["median_s"], times["worst_s"]]
        for kind, times in recoveries(report.faults).items()
    ]
    console = plain_console(highlight=False)
    console.print()
    show_table(console, columns, rows)
    for line in summary_lines(report):
        console.print(line, markup=False)


def recoveries(faults: Iterable[Recovered]) -> dict[str, dict[str, Any]]:
    """{kind: how often it was done, median and worst time of recovery in seconds}"""
    times: dict[str, list[float | None]] = {}
    for one in faults:
        if one.what:
            times.setdefault(one.fault.kind, []).append(one.took_s)
    return {kind: _figures(found) for kind, found in sorted(times.items())}


def _figures(times_s: list[float | None]) -> dict[str, Any]:
    known = [time_s for time_s in times_s if time_s is not None]
    return {
        "times": len(times_s),
        "recovered": len(known),
        "median_s": statistics.median(known) if known else None,
        "worst_s": max(known, default=None),
    }


def summary_lines(report: Report) -> list[str]:
    """Whether jobs and files are as they are without faults."""
    lines = []
    for kind in dict.fromkeys(kind.name for kind, _ in report.runs):
        runs = [(each, run) for each, run in report.runs if each.name == kind]
        took_s = statistics.median(run.took_s for _, run in runs)
        without_s = runs[0][0].without.took_s
        beside = f"{format_duration(took_s)} beside {format_duration(without_s)} without faults"
        lines.append(f"{kind}: {format_count(len(runs), 'run')}, {beside} (median)")
    count = format_count(report.acknowledged, "file")
    lines.append(f"{count} stored meanwhile, {len(report.lost)} lost")
    lines += [f"failed: {failure}" for failure in report.failures]
    lines += [f"not recovered: {line_of(one).strip()}" for one in report.unrecovered]
    lines += [f"differs: {name}" for name in report.differing]
    if not report.differing and not report.failures:
        lines.append("outputs: byte for byte those of the run without faults, on the same cluster")
    return lines


def as_json(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "faults": [
            {
                "at_s": one.at_s,
                "kind": one.fault.kind,
                "what": one.what,
                "lasts_s": one.fault.lasts_s,
                "recovered_after_s": one.took_s,
            }
            for one in report.faults
        ],
        "recoveries": recoveries(report.faults),
        "runs": [
            {
                "job": kind.name,
                "took_s": run.took_s,
                "without_faults_s": kind.without.took_s,
                "failure": run.failure,
                "same_output": kind.is_like(run),
            }
            for kind, run in report.runs
        ],
        "files": {"acknowledged": report.acknowledged, "lost": report.lost},
        "differing": report.differing,
    }
