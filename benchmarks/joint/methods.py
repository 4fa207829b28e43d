"""Joint against {Delay, HEFT} x {fair sharing, SJF} with real bytes, and the same in virtual time.

TeraSorts, the query and TopWords come 15 s apart and more, as the paper's jobs on average, on a
smaller ``joint-16x6`` (``_place``) with its own rate of slots.  Rows are makespan, mean job
completion time, and the use of the switches and of the root, each beside what simulations of the
same run have; all outputs are checked.  Bounded is how far the two clocks are from one another.

Chance is to decide little, on either clock: simulations with task times a hundredth shorter or
longer have makespans and mean job times within 4 %, with all jobs at once they had 25 %.  So

* a map takes 6.7 s, and tasks are no longer than that: jobs have as many reduces as maps, and
  ``correlation`` with its long single tasks is left out;
* Delay waits for longer than a map takes, so that hardly any is read from elsewhere;
* reduces start after all maps, as under all of the paper's baselines;
* TopWords comes once the TeraSort before it has ended: under HEFT a map of it that reads from
  another rack ended with its stage or 7 s later, as it came before or after a shuffle's flows;
* all racks have equal shares of each input.  Otherwise tasks that generate it leave it where they
  ran, which under Joint is one rack.
"""

from __future__ import annotations

from railyard.benchmarks._common.bothclocks import Quantity, compare
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.joint._place import SMALLER
from railyard.runs.requests import RunRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
TOPOLOGY = f"{SMALLER},storage.block=100MB"
#: When jobs come, in seconds.
_COME_S = {0: "query", 15: "terasort", 37: "topwords", 52: "query", 67: "terasort"}
JOBS = tuple(
    f"{job},size=1GB,reduces=10,skew=0,submit={come_s}s" for come_s, job in _COME_S.items()
)
JOINT = "joint + afap"
METHODS = (JOINT, "delay + maxmin", "delay + sjf", "heft + maxmin", "heft + sjf")
SETTINGS = (
    ("delay.node_wait_s", 8),
    ("delay.rack_wait_s", 8),
    ("shuffle.slowstart", 1),
)
MEAN = Quantity("mean JCT", "s", lambda run: run["jct_s"]["mean"])
QUANTITIES = (
    Quantity("makespan", "s", lambda run: run["makespan_s"]),
    MEAN,
    Quantity("switches used", "", lambda run: run["network_utilization"]),
    Quantity("root used", "", lambda run: run["layer_utilization"]["root"]),
)


def run(quick: bool = False) -> list[Row]:
    """Measure with one seed; ``quick`` takes two methods."""
    request = RunRequest(
        words=JOBS,
        schedulers=METHODS[:3:2] if quick else METHODS,
        topology=TOPOLOGY,
        clocks=("wall",),
        seeds=1,
        scheduler_options=SETTINGS,
    )
    rows = compare(request, QUANTITIES, BOUND)
    return [*rows, _joint_of_best(rows)]


def _joint_of_best(rows: list[Row]) -> Row:
    """Joint's mean completion time, of that of the best baseline."""
    means = [row for row in rows if row["name"].endswith(f": {MEAN.name}")]
    joint, *others = means
    value, reference = (joint[of] / min(row[of] for row in others) for of in ("value", "reference"))
    name = f"{joint['name']}, of the best of the others"
    return bench_row(name, value, reference=reference, note="below 1: Joint's jobs end sooner")
