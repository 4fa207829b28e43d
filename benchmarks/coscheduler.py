"""Co-scheduler against Fair and Corral with real bytes, and the same in virtual time.

Heavy TeraSorts, whose shuffles are fit for circuits, and light WordCounts on ``hybrid-8x4`` with
blocks of 1 GB and with Sunflow; computing is paced; all jobs are recurring, and predicted by their
own sizes.  Rows are makespan, mean job and coflow completion times, and the share of the shuffles'
bytes that circuits carried, each beside what simulations of the same run have; all outputs are
checked.  Bounded is how far the two clocks are from one another (of the share: in points).

Waits are in proportion to maps of 5 s: under Corral a job holds out 2 s for its data, under
Co-scheduler 10 s for the racks of its guideline.
"""

from __future__ import annotations

from railyard.benchmarks._common.bothclocks import LARGE_BLOCKS, Quantity, compare
from railyard.benchmarks._common.rows import Row
from railyard.runs.figures import Summary
from railyard.runs.requests import RunRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
JOBS = ("terasort,size=16GB,times=3,inputs=own", "wordcount,size=2GB,times=9,inputs=own")
SCHEDULERS = ("fair", "corral", "co-scheduler")
WAITS = (
    ("corral.node_wait_s", 2),
    ("corral.rack_wait_s", 2),
    ("co-scheduler.hold_out_s", 10),
)


def on_circuits(run: Summary) -> float:
    """The share of the shuffles' bytes that circuits carried, in %."""
    shuffled: int = sum(job["shuffle_bytes"] for job in run["jobs"])
    return 100 * float(run["bytes"]["ocs"]) / shuffled


QUANTITIES = (
    Quantity("makespan", "s", lambda run: run["makespan_s"]),
    Quantity("mean JCT", "s", lambda run: run["jct_s"]["mean"]),
    Quantity("mean CCT", "s", lambda run: run["cct_s"]["mean"]),
    Quantity("shuffle on circuits", "%", on_circuits),
)


def run(quick: bool = False) -> list[Row]:
    """Measure with three seeds each; ``quick`` takes one."""
    request = RunRequest(
        words=JOBS,
        schedulers=SCHEDULERS,
        topology=str(LARGE_BLOCKS),
        flow_schedulers=("sunflow",),
        clocks=("wall",),
        seeds=1 if quick else 3,
        scheduler_options=WAITS,
    )
    return compare(request, QUANTITIES, BOUND)
