"""The results of a simulation on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from railyard.cluster.shown import printable
from railyard.cluster.units import format_count, format_duration, format_number, format_share
from railyard.scripts.results.summary import attempts_of, figure_rows, schedulers_of, usage_rows
from railyard.scripts.simulating.virtual import Simulated
from railyard.simulator.cluster import Simulation


def show(done: Simulated) -> None:
    """Print the table that ends ``railyard simulate``."""
    for label, text in _rows(done.simulation, done.summary, done.cpu_s):
        click.echo(f"{label:<11}{printable(text)}")


def _rows(run: Simulation, summary: dict[str, Any], cpu_s: float) -> list[tuple[str, str]]:
    jobs, topology = summary["jobs"], run.config.topology
    failed = sum(not job["ok"] for job in jobs)
    ratio = summary["makespan_s"] / cpu_s if cpu_s else 0.0
    locality = summary["locality"]
    maps = sum(locality.values()) or 1
    words = {"node": "on the map's node", "rack": "in its rack", "remote": "further away"}
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers_of(summary)}"),
        ("jobs", format_count(len(jobs), "job") + (f", {failed} failed" if failed else "")),
        ("makespan", format_duration(summary["makespan_s"])),
        ("job time", _spread(summary["jct_s"])),
        ("shuffles", _spread(summary["cct_s"])),
        ("tasks", attempts_of(summary["tasks"], "copies")),
        ("map input", ", ".join(f"{format_share(locality[k] / maps)} {words[k]}" for k in words)),
        ("skew", _spread(summary["shuffle_skew"], format_number)),
        *usage_rows(summary),
        *figure_rows(summary),
        (
            "simulated",
            f"in {format_duration(cpu_s)} of CPU time, {format_number(ratio)} times as fast",
        ),
    ]
    broken = [job for job in run.core.records.values() if job.ok is False]
    rows += [("FAILED", f"{job.name}: {job.reason}") for job in broken[:5]]
    return rows


def _spread(values: dict[str, float | None], show: Callable[[float], str] = format_duration) -> str:
    """Mean and percentiles as text, without unknown ones."""
    known = [(name, value) for name, value in values.items() if value is not None]
    return ", ".join(f"{name} {show(value)}" for name, value in known) or "none"
