"""How far off coarse simulations are, and how much quicker: parts of workloads, also run exactly.

What ``railyard simulate`` says of a run that it makes coarser (``simulator.coarsening``) is the
bound here: mean times of jobs and of shuffles are off by no more.  A part is small enough to be
simulated exactly, and its shuffles are large enough to be merged.
"""

from __future__ import annotations

from pathlib import PurePath

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._common.traces import trace_file
from railyard.benchmarks.simulator._onerun import measure
from railyard.benchmarks.simulator.speed import TRACE
from railyard.simulator.coarsening import LEVELS, Coarseness

#: (workload, topology, scheduler, flow scheduler)
Part = tuple[str, str, str, str]
_FEW: tuple[Part, ...] = (("corral-w1,jobs=8", "corral-50x40", "capacity", "maxmin"),)


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes one part only."""
    facebook = f"swim:{trace_file(TRACE)},jobs=300,window=600"
    parts = (
        _FEW
        if quick
        else (
            *_FEW,
            ("corral-w1,jobs=10,window=90", "corral-7x30", "corral", "maxmin"),
            ("corral-w1,jobs=10,window=90", "corral-7x30", "capacity", "varys"),
            (facebook, "co-scheduler-60x10", "fair", "sunflow"),
        )
    )
    return [row for part in parts for row in _rows(part)]


def _rows(part: Part) -> list[Row]:
    """A part's mean times at each level beside the exact ones, and how much quicker that was."""
    exact = measure(*part)
    rows: list[Row] = []
    for number, level in enumerate(LEVELS, start=1):
        coarse = measure(*part, *_settings(level))
        title = f"{_name(part)}, level {number}"
        for key, off in (("jct_s", level.jct_off), ("cct_s", level.cct_off)):
            rows.append(_time(f"{title}: mean {key[:3].upper()}", coarse[key], exact[key], off))
        rows.append(
            bench_row(
                f"{title}: CPU",
                coarse["run_s"],
                "s",
                reference=exact["run_s"],
                ratio=coarse["run_s"] / exact["run_s"],
                note=f"{coarse['flows']} flows, {exact['flows']} in the exact run",
            )
        )
    return rows


def _time(title: str, coarse_s: float, exact_s: float, off: float) -> Row:
    ratio = coarse_s / exact_s
    row = bench_row(title, coarse_s, "s", reference=exact_s, ratio=ratio)
    return row | {"bound": off, "ok": abs(ratio - 1) <= off}


def _settings(level: Coarseness) -> list[str]:
    return [f"{name}={value}" for name, value in level.settings.items()]


def _name(part: Part) -> str:
    workload, *others = part
    return ", ".join([PurePath(workload).name, *others])
