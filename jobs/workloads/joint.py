"""Joint's workload: MapReduce jobs as graphs of tasks with times and edges.

Source: "Joint scheduling of tasks and network flows", section V and Table 2: 200 jobs of the
Facebook traces of 2009; topology ``joint-16x6``.

Left open there, chosen here.  How many tasks a job has is lognormal.  60 to 90 % of them are maps.
All maps of a job take the same 1 to 25 s, and so do its reduces.  The gap is normal with a standard
deviation of 5 s, cut at 0.  The job's output is half of its shuffle.  All jobs are predicted,
exactly.

``reads``: in the paper's model data is on edges between tasks only (III), so a map reads nothing,
but for a byte that is on some nodes; else so much for each byte of its output, up to 256 MB.

By default all of Table 2 holds: tasks of 13 s, edges of 196 MB, and "average job size 1210", which
has no unit, in tenths of a second.  1210 s would be 1.4 times what the servers have in Table 3, and
more tasks would have edges for which the root is too slow by far (docs/reproduce-joint.md).
``work``: the seconds of a job's tasks; ``median``: the tasks of the median job, as makes edges 196
MB long; and ``edges``: how much jobs shuffle.

"trace": as in the public FB-2009 trace on average, each in proportion to its maps.
"jobs": 196 MB are the mean over jobs, of the bytes from a map to a reduce.  A job's shuffle is
    lognormal (95 % are up to 10 times the median) and does not grow with its tasks, so small jobs
    have the large edges.
"all": 196 MB are the mean over all edges, but jobs shuffle on average no more than the root carries
    from one to the next.  Else like "jobs".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.inputfile import Duration, Size
from railyard.jobs.workloads.model import Statistic, Workload, WorkloadJob
from railyard.jobs.workloads.population import Arrivals, Population, dice, populate
from railyard.jobs.workloads.shapes import by_percentiles, map_reduce, strata
from railyard.jobs.workloads.statistics import mean, statistic

#: Table 2's, in seconds or in tenths of them.
_JOB_SIZE = 1210.0
_TASK_S = 13.0
#: What the root of ``joint-16x6`` can carry in the paper's 15 s from one job to the next: 2 Gbps.
_ROOT_BYTES = 15.0 * 250e6
#: The mean shuffle of the 5,894 jobs of FB-2009 (22.2 TB; see ``traces/swim.py``).
_TRACE_BYTES = 22.2e12 / 5894

Edges = Literal["jobs", "all", "trace"]


class JointOptions(Population, frozen=True, kw_only=True):
    """The settings of Table 2."""

    COUNTS: ClassVar = {"jobs": 1}
    SIZES: ClassVar = ("block",)

    jobs: int = 200  #: how many
    gap: Duration = 15.0  #: mean time between two jobs, as traced or poisson
    gap_deviation: Duration = 5.0  #: standard deviation of that time, as traced
    work: Duration = 121.0  #: seconds of all tasks of a job, on average
    median: float = 8.3  #: tasks of a job; the nearer to their mean, the more alike jobs are
    edge: Size = 196_000_000  #: mean bytes from a map to a reduce
    edges: Edges = "trace"  #: of what that is the mean, see above
    reads: float = 0.0  #: bytes that a map reads for each that it outputs
    block: Size = 256_000_000  #: but no more than this
    arrivals: Arrivals = "trace"
    window: Duration = 0.0
    recurring: float = 1.0
    size_error: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.reads <= 100, "reads", self.reads, "0 to 100")
        most = self.work / _TASK_S
        require(most >= 3, "work", self.work, "at least 3 tasks of 13 s, 39 s")
        right = f"2 to {most:.3g}, the mean at {_TASK_S:g} s a task"
        require(2 <= self.median < most, "median", self.median, right)

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; these have gaps of their own, and edges only if asked for."""
        off = super().without_effect()
        if self.arrivals == "trace":
            del off["gap"]
        else:
            off["gap_deviation"] = "arrivals=trace"
        if self.edges == "trace":
            off["edge"] = "edges=jobs or edges=all: jobs shuffle as in the trace"
        if not self.reads:
            off["block"] = "reads above 0: no map reads more than a byte"
        return off


def joint(options: JointOptions, seed: int) -> Workload:
    """200 jobs of 9 tasks of 13 s on average, 15 s apart."""
    count, rng = options.jobs, dice(seed, "joint")
    tasks = _task_counts(rng, options)
    maps = np.clip(np.rint(tasks * rng.uniform(0.6, 0.9, count)), 1, tasks - 1).astype(int)
    reduces = tasks - maps
    times_s = rng.uniform(1.0, 25.0, (2, count))
    worked_s = float(maps @ times_s[0] + reduces @ times_s[1])
    times_s *= _TASK_S * float(tasks.sum()) / worked_s
    sizes = _shuffle_bytes(by_percentiles(strata(rng, count), 1.0, 10.0), maps, reduces, options)
    arrive_s = np.cumsum(np.maximum(0.0, rng.normal(options.gap, options.gap_deviation, count)))
    shapes = []
    for at in range(count):
        shuffle_bytes, n_maps = round(sizes[at]), int(maps[at])
        read_bytes = round(shuffle_bytes * options.reads)
        input_bytes = max(n_maps, min(read_bytes, n_maps * options.block))
        shapes.append(
            map_reduce(
                f"joint-{at}",
                input_bytes=input_bytes,
                block_bytes=-(-input_bytes // n_maps),
                shuffle_bytes=shuffle_bytes,
                output_bytes=shuffle_bytes // 2,
                reduces=int(reduces[at]),
                times_s=(float(times_s[0][at]), float(times_s[1][at])),
                rates=(math.inf, math.inf),
            )._replace(arrive_s=float(arrive_s[at]))
        )
    jobs = populate(shapes, options, seed)
    return Workload(name="joint", jobs=jobs, statistics=_statistics(jobs, options))


def _task_counts(rng: np.random.Generator, options: JointOptions) -> np.ndarray:
    """Tasks per job: lognormal, with the mean job size / mean task time; at least 2."""
    wanted = options.work / _TASK_S
    sigma = math.sqrt(2 * math.log(wanted / options.median))
    p95 = options.median * math.exp(1.645 * sigma)
    drawn = by_percentiles(strata(rng, options.jobs), options.median, p95)
    counts: np.ndarray = np.maximum(2, np.rint(drawn * (wanted / float(drawn.mean())))).astype(int)
    return counts


def _shuffle_bytes(
    drawn: np.ndarray, maps: np.ndarray, reduces: np.ndarray, options: JointOptions
) -> np.ndarray:
    """What jobs shuffle, by one of the readings of the top; ``drawn``: sizes of any unit."""
    if options.edges == "jobs":
        return drawn * (options.edge / float((drawn / (maps * reduces)).mean()))
    if options.edges == "all":
        mean_bytes = min(options.edge * float((maps * reduces).mean()), _ROOT_BYTES)
        return drawn * mean_bytes / float(drawn.mean())
    shuffles: np.ndarray = maps * _TRACE_BYTES / float(maps.mean())
    return shuffles


def _statistics(jobs: tuple[WorkloadJob, ...], options: JointOptions) -> tuple[Statistic, ...]:
    tasks = sum(job.tasks for job in jobs)
    worked_s = sum(stage.tasks * stage.task_s for job in jobs for stage in job.stages)
    shuffles = [job.shuffle_bytes for job in jobs]
    edges = [job.stages[0].tasks * job.stages[1].tasks for job in jobs]
    edge_bytes = [shuffled / count for shuffled, count in zip(shuffles, edges, strict=True)]
    over_jobs, over_all = (196e6, None) if options.edges == "jobs" else (None, 196e6)
    size_s = next((s for s in (_JOB_SIZE / 10, _JOB_SIZE) if s == options.work), None)
    size_note = f"Table 2 has {_JOB_SIZE:g}; work={options.work:g}s"
    over_all_bytes = sum(shuffles) / sum(edges)
    first_s, last_s = jobs[0].submit_s, jobs[-1].submit_s
    gap_s = (last_s - first_s) / max(1, len(jobs) - 1)
    return (
        statistic("jobs", "", len(jobs), 200, note="Table 2"),
        statistic("job size, mean", "s", worked_s / len(jobs), size_s, 0.03, size_note),
        statistic("gap, mean", "s", gap_s, 15.0, 0.1, "Table 2"),
        statistic("task, mean", "s", worked_s / tasks, 13.0, 0.001, "Table 2"),
        statistic("edge, mean over jobs", "bytes", mean(edge_bytes), over_jobs, 0.001, "Table 2"),
        statistic("edge, mean over all", "bytes", over_all_bytes, over_all, 0.1, "Table 2"),
        statistic("shuffle of a job, mean", "bytes", mean(shuffles)),
    )
