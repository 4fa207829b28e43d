"""What virtual time costs: CPU and memory of whole simulations, and how they grow.

Each runs in a process of its own, one after the other, so that its memory can be measured.  CPU
time is that of the whole process, workload and set-up included.

Every flow of a shuffle is simulated.  Corral's reduces write one block each instead of up to four,
and flows that end at nearly the same time end together; how far that is off is measured on a few of
its jobs.
"""

from __future__ import annotations

import math
from typing import Any

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._common.traces import trace_file
from railyard.benchmarks._common.yardstick import by_yardstick, cpu_row
from railyard.benchmarks.simulator._onerun import measure
from railyard.netemu.schedulers import FLOW_SCHEDULERS

TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
#: Virtual seconds for a CPU second (see ``_common.yardstick``).
FACEBOOK_SPEED = 500.0  # aim: 2,000
CORRAL_SPEED = 50.0
MEMORY_MB_BOUND = 500.0
#: n log n, and what is left to chance and to caches that fill up.
GROWTH_BOUND = 1.3
_FACEBOOK = "co-scheduler-60x10"
_CORRAL = "corral-50x40"
_W1 = (_CORRAL, "capacity", "maxmin")
_JOINT = ("joint-16x6", "fair", "maxmin")
#: Jobs that leave the network idle, so that no more of them wait as there are more.
_JOINT_JOBS = "joint,edges=jobs,work=1210s,median=20,reads=1"
#: How Corral's jobs are simulated, and what mean JCTs may differ by from the exact ones.
ROUGHLY = ("output_block=2000000000", "together_s=.5", "progress_s=0")
ROUGHNESS_BOUND = 0.05
_FEW_JOBS = 8


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes fewer jobs and leaves out the tables."""
    trace = f"swim:{trace_file(TRACE)}"
    return by_yardstick(lambda: _rows(quick, trace))


def _rows(quick: bool, trace: str) -> list[Row]:
    flows = "sunflow" if "sunflow" in FLOW_SCHEDULERS else "maxmin"
    _have_loops_compiled(f"{trace},jobs=100", flows)
    rows = _facebook(f"{trace},jobs={100 if quick else 1000}", flows)
    rows.append(_growth(50, 200 if quick else 800))
    if quick:
        return rows + _corral(_FEW_JOBS)
    for jobs in (100, 300, 3000):
        rows += _table(f"{jobs} jobs", f"{trace},jobs={jobs}", _FACEBOOK, flows)
    for racks in (10, 200):
        place = f"{_FACEBOOK},racks.count={racks}"
        rows += _table(f"1000 jobs on {racks} racks", f"{trace},jobs=1000", place, flows)
    return rows + _roughness() + _corral(20)


def _have_loops_compiled(facebook: str, flows: str) -> None:
    """Run a few jobs of each kind, unmeasured.

    On a machine that has never run so many flows, the first measured run would take 20 s and 250
    MB more (docs/decisions/network-model.md).
    """
    measure(facebook, _FACEBOOK, "fair", flows)
    measure(f"{_JOINT_JOBS},jobs=50", *_JOINT)
    measure(f"corral-w1,jobs={_FEW_JOBS}", *_W1, *ROUGHLY)


def _facebook(jobs: str, flows: str) -> list[Row]:
    done = measure(jobs, _FACEBOOK, "fair", flows)
    title = f"{done['jobs']} jobs of FB-2009 on {_FACEBOOK}, fair, {flows}"
    return [_cpu(title, done, FACEBOOK_SPEED), _memory(title, done)]


def _corral(jobs: int) -> list[Row]:
    done = measure(f"corral-w1,jobs={jobs}", *_W1, *ROUGHLY)
    title = f"{jobs} jobs of W1 on {_CORRAL}, capacity, maxmin"
    return [_cpu(title, done, CORRAL_SPEED), _memory(title, done)]


def _roughness() -> list[Row]:
    """How far such runs are off, on a few jobs; and what the exact ones take."""
    jobs = (f"corral-w1,jobs={_FEW_JOBS}", *_W1)
    rough, exact = measure(*jobs, *ROUGHLY), measure(*jobs)
    rows = []
    for what in ("jct_s", "cct_s"):
        title = f"{_FEW_JOBS} jobs of W1: mean {what[:3].upper()} with larger blocks and ends"
        off = abs(rough[what] / exact[what] - 1)
        row = _row(title, rough[what], "s", ROUGHNESS_BOUND, off <= ROUGHNESS_BOUND, exact)
        rows.append(row | {"reference": exact[what], "ratio": rough[what] / exact[what]})
    return rows


def _growth(few: int, many: int) -> Row:
    """How the time of equal jobs grows with their number, over n log n."""
    runs = [measure(f"{_JOINT_JOBS},jobs={n}", *_JOINT) for n in (few, many)]
    each = [done["run_s"] / (done["tasks"] * math.log(done["tasks"])) for done in runs]
    ratio = each[1] / each[0]
    return bench_row(
        f"growth from {few} to {many} jobs of Joint, over n log n in tasks",
        runs[1]["run_s"],
        "s",
        reference=runs[0]["run_s"],
        ratio=ratio,
        ratio_bound=GROWTH_BOUND,
        note=f"{runs[0]['tasks']} and {runs[1]['tasks']} tasks",
    )


def _table(title: str, jobs: str, topology: str, flows: str, *settings: str) -> list[Row]:
    done = measure(jobs, topology, "fair", flows, *settings)
    return [
        _cpu(title, done),
        _row(f"{title}: memory", done["memory_mb"], "MB", None, None, done),
    ]


def _cpu(title: str, done: dict[str, Any], speed: float | None = None) -> Row:
    bound_s = None if speed is None else done["makespan_s"] / speed
    times = done["makespan_s"] / done["cpu_s"]
    return cpu_row(
        f"{title}: CPU",
        done["cpu_s"],
        bound_s,
        note=f"{times:.0f} times real time; {_counts(done)}",
    )


def _memory(title: str, done: dict[str, Any]) -> Row:
    memory_mb = done["memory_mb"]
    ok = memory_mb < MEMORY_MB_BOUND
    return _row(f"{title}: memory", memory_mb, "MB", MEMORY_MB_BOUND, ok, done)


def _row(
    name: str, value: float, unit: str, bound: float | None, ok: bool | None, done: dict[str, Any]
) -> Row:
    return bench_row(name, value, unit, bound=bound, ok=ok, note=_counts(done))


def _counts(done: dict[str, Any]) -> str:
    sizes = f"{done['tasks']} tasks, {done['flows']} flows, {done['makespan_s']:.0f} s"
    return f"{sizes} in {done['cpu_s']:.1f} s of CPU time, load {done['load']:.1f}"
