"""Placing a stage's tasks over sites: the exact solver against the linear programs, and how fast.

The paper (Tetrium, section 6.2) needs about 100 ms for one such program, with Gurobi.  HiGHS solves
three here: the least bytes between sites, the least time, and the least bytes in that time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._common.yardstick import by_yardstick, cpu_row
from railyard.benchmarks.placement._problems import (
    TOLERANCE,
    Problem,
    placed_differently,
    random_problem,
)
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium.placement import Stage

CASES, CASES_QUICK = 10_000, 300
SIZES = (8, 30, 50, 200)
#: {sites: most CPU s of an exact solution: see ``_common.yardstick``}
BOUNDS_S = {50: 1e-4}
_CHUNK = 50
_TIMED = 50
_TIMED_GENERAL = 3
_PAPER_MS = 100.0
_COLD = """
import time
begun = time.process_time()
from railyard.benchmarks.placement._problems import random_problem
from railyard.resourcemanager.schedulers.tetrium import exact
loaded = time.process_time()
random_problem(1).exact()
print(time.process_time() - loaded)
"""


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` compares fewer cases."""
    agreement = _agreement(CASES_QUICK if quick else CASES)
    speeds = by_yardstick(
        lambda: [_speed(kind, size) for kind in ("maps", "reduces") for size in SIZES]
    )
    return [agreement, *speeds, _cold()]


def _agreement(cases: int) -> Row:
    print(f"  {cases} cases, exact against linear programs ...", file=sys.stderr)
    chunks = (range(begin, min(cases, begin + _CHUNK)) for begin in range(0, cases, _CHUNK))
    found = joblib.Parallel(n_jobs=-1)(joblib.delayed(_compared)(chunk) for chunk in chunks)
    largest = max(differs for differs, _ in found)
    wrong = [each for _, broken in found for each in broken]
    return bench_row(
        f"cases of {cases} in which the exact plan is not the linear program's optimum",
        len(wrong),
        reference=0,
        bound=0,
        note=wrong[0] if wrong else f"largest difference {largest:.1e}, allowed {TOLERANCE:g}",
    )


def _compared(seeds: range) -> tuple[float, list[str]]:
    """The largest difference of some cases, and what is wrong with any."""
    found = [(seed, *placed_differently(random_problem(seed))) for seed in seeds]
    wrong = [f"case {seed}: {broken}" for seed, _, broken in found if broken]
    return max(differs for _, differs, _ in found), wrong


def _speed(kind: str, size: int) -> Row:
    problems = [_large(kind, size, seed) for seed in range(_TIMED)]
    problems[0].exact()
    exact_s = _median_s([problem.exact for problem in problems])
    general_s = _median_s([problem.general for problem in problems[:_TIMED_GENERAL]])
    return cpu_row(
        f"{kind}, {size} sites: CPU of a plan",
        exact_s,
        BOUNDS_S.get(size),
        unit="ms",
        note=f"HiGHS: {1e3 * general_s:.3g} ms, {general_s / exact_s:.0f} times as much;"
        f" the paper: {_PAPER_MS:g} ms",
    )


def _large(kind: str, size: int, seed: int) -> Problem:
    """Sites as in the paper's simulation (6.1): 25 to 5000 slots, 100 Mbps to 2 Gbps."""
    dice = np.random.default_rng(seed)
    slots = dice.integers(25, 5001, size).astype(float)
    up, down = (dice.uniform(1.25e7, 2.5e8, size) for _ in range(2))
    held = dice.exponential(1e10, size)
    work_s, budget_bytes = 10.0 ** dice.uniform(3, 6), float(dice.uniform(0.5, 1)) * held.sum()
    return Problem(kind, Sites(slots, up, down), Stage(held, work_s, budget_bytes))


def _median_s(solve: list[Callable[[], Any]]) -> float:
    taken = []
    for one in solve:
        begun_s = time.process_time()
        one()
        taken.append(time.process_time() - begun_s)
    return float(np.median(taken))


def _cold() -> Row:
    """What the first plan of a process costs: numba is loaded, and loops compiled before."""
    command = [sys.executable, "-c", _COLD]
    cold_s = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return bench_row(
        "the first plan of a process, once its loops were compiled: CPU",
        cold_s,
        "s",
        note="without the 0.5 s of loading numba",
    )
