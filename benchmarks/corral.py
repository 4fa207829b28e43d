"""Corral against its baselines with real bytes, and the same in virtual time.

A batch of 12 TeraSorts and WordCounts on ``hybrid-8x4`` without its optical switch, with blocks of
1 GB; computing is paced; Corral's plan is made of the jobs' own sizes.  Rows are makespan, mean job
completion time and bytes across racks, each beside what simulations of the same run have; all
outputs are checked.  The bound is on the difference between the two clocks.  Which scheduler is
best is not bounded: the notes have the ratios.

Left open by the paper: how long jobs hold out for their data.  Here maps take 5 s, and all jobs
wait 2 s for a node and as long for a rack.
"""

from __future__ import annotations

from railyard.benchmarks._common.bothclocks import LARGE_BLOCKS, Quantity, compare
from railyard.benchmarks._common.rows import Row
from railyard.runs.requests import RunRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
JOBS = ("mix,jobs=12,inputs=own,sizes=2GB+4GB+8GB",)
SCHEDULERS = ("capacity", "corral", "local-shuffle", "shufflewatcher")
WAITS = tuple(
    (f"{section}.{level}_wait_s", 2)
    for section in ("delay", "corral", "shufflewatcher")
    for level in ("node", "rack")
)
QUANTITIES = (
    Quantity("makespan", "s", lambda run: run["makespan_s"]),
    Quantity("mean JCT", "s", lambda run: run["jct_s"]["mean"]),
    Quantity("across racks", "GB", lambda run: run["bytes"]["cross_rack"] / 1e9),
)


def run(quick: bool = False) -> list[Row]:
    """Measure with three seeds each; ``quick`` takes one."""
    request = RunRequest(
        words=JOBS,
        schedulers=SCHEDULERS,
        flow_schedulers=("maxmin",),
        clocks=("wall",),
        seeds=1 if quick else 3,
        topology=str(LARGE_BLOCKS),
        network=(("ocs", "off"),),
        scheduler_options=WAITS,
    )
    return compare(request, QUANTITIES, BOUND)
