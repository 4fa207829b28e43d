"""Joint against {Delay, HEFT} x {fair sharing, SJF} with real bytes, and the same in virtual time.

TeraSorts, the query, TopWords and correlations, whose graph has a diamond of single tasks, all at
once on a smaller ``joint-16x6`` (``_place``).  Rows are makespan, mean job completion time, and the
use of the switches and of the root, each beside what simulations of the same run have; all outputs
are checked.  Bounded is how far the two clocks are from one another.  Schedulers have their
defaults, except that Delay's waits are in proportion to tasks of 5 s.

All racks have equal shares of each input.  Otherwise tasks that generate it leave it where they
ran, which under Joint is one rack, and methods cannot be compared.

Blocks are half as large as in the topology, and computed at 20 MB/s: a map takes 5 s, which is long
beside what a process needs to start.  What all slots compute in a second is then 8 times what the
root carries in it (in the paper 6 times).  Simulated attempts start as long after their orders as
the emulated ones did in the mean.
"""

from __future__ import annotations

from railyard.benchmarks._common.bothclocks import Quantity, compare
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.joint._place import SMALLER
from railyard.scripts.simulating.request import RunsRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
TOPOLOGY = f"{SMALLER},storage.block=100MB,compute.map_rate=20MB/s,compute.reduce_rate=20MB/s"
JOBS = tuple(
    f"{job},skew=0"
    for job in (
        "terasort,size=1GB,times=3",
        "query,size=1GB,times=2",
        "topwords,size=1GB",
        "correlation,size=200MB,times=2",
    )
)
JOINT = "joint + afap"
METHODS = (JOINT, "delay + maxmin", "delay + sjf", "heft + maxmin", "heft + sjf")
WAITS = (("delay.node_wait_s", 2), ("delay.rack_wait_s", 2))
MEAN = Quantity("mean JCT", "s", lambda run: run["jct_s"]["mean"])
QUANTITIES = (
    Quantity("makespan", "s", lambda run: run["makespan_s"]),
    MEAN,
    Quantity("switches used", "", lambda run: run["network_utilization"]),
    Quantity("root used", "", lambda run: run["layer_utilization"]["root"]),
)


def run(quick: bool = False) -> list[Row]:
    """Measure with one seed; ``quick`` takes two methods."""
    request = RunsRequest(
        words=JOBS,
        schedulers=METHODS[:3:2] if quick else METHODS,
        topology=TOPOLOGY,
        clocks=("wall",),
        seeds=1,
        scheduler_options=WAITS,
    )
    rows = compare(request, QUANTITIES, BOUND, launches=True)
    return [*rows, _joint_of_best(rows)]


def _joint_of_best(rows: list[Row]) -> Row:
    """Joint's mean completion time, of that of the best baseline."""
    means = [row for row in rows if row["name"].endswith(f": {MEAN.name}")]
    joint, *others = means
    value, reference = (joint[of] / min(row[of] for row in others) for of in ("value", "reference"))
    name = f"{joint['name']}, of the best of the others"
    return bench_row(name, value, reference=reference, note="below 1: Joint's jobs end sooner")
