"""Joint's workload: MapReduce jobs as graphs of tasks with times and edges.

Source: "Joint scheduling of tasks and network flows", section V and Table 2: 200 jobs of the
Facebook traces of 2009; topology ``joint-16x6``.

Left open there, chosen here.  "Job size 1210" is read as seconds of all tasks: 93 tasks of 13 s;
their number is lognormal with a median of 20.  60 to 90 % of them are maps.  All maps of a job take
the same 1 to 25 s, and so do its reduces.  The gap is normal with a standard deviation of 5 s, cut
at 0.  The 196 MB are the mean over jobs of the bytes from a map to a reduce; as a mean over all
edges, they would exceed the 2 Gbps of the root by far.  A job's shuffle does not grow with its
tasks, so small jobs have the large edges.  A map reads as much as it outputs, up to 256 MB, and the
job's output is half of its shuffle.  All jobs are predicted, exactly.
"""

from __future__ import annotations

import math

import numpy as np

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Duration, Size
from railyard.jobs.workloads.model import Statistic, Workload, WorkloadJob
from railyard.jobs.workloads.population import Arrivals, Population, dice, populate
from railyard.jobs.workloads.shapes import by_percentiles, map_reduce, strata
from railyard.jobs.workloads.statistics import mean, statistic

_JOB_TASK_S = 1210.0
_TASK_S = 13.0
_MEDIAN_TASKS = 20.0


class JointOptions(Population, frozen=True, kw_only=True):
    """The settings of Table 2."""

    jobs: int = 200
    gap: Duration = 15.0
    gap_deviation: Duration = 5.0
    edge: Size = 196_000_000
    block: Size = 256_000_000
    arrivals: Arrivals = "trace"
    window: Duration = 0.0
    recurring: float = 1.0
    size_error: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("jobs", self.jobs)
        require(self.block >= 1, "block", self.block, "a size above 0")


def joint(options: JointOptions, seed: int) -> Workload:
    """Jobs with the means of Table 2."""
    count, rng = options.jobs, dice(seed, "joint")
    tasks = _task_counts(rng, count)
    maps = np.clip(np.rint(tasks * rng.uniform(0.6, 0.9, count)), 1, tasks - 1).astype(int)
    reduces = tasks - maps
    times_s = rng.uniform(1.0, 25.0, (2, count))
    worked_s = float(maps @ times_s[0] + reduces @ times_s[1])
    times_s *= _TASK_S * float(tasks.sum()) / worked_s
    sizes = by_percentiles(strata(rng, count), 1.0, 10.0)
    sizes *= options.edge / float((sizes / (maps * reduces)).mean())
    gaps_s = np.maximum(0.0, rng.normal(options.gap, options.gap_deviation, count))
    arrive_s = np.cumsum(gaps_s)
    shapes = []
    for at in range(count):
        shuffle_bytes, n_maps = round(sizes[at]), int(maps[at])
        input_bytes = max(n_maps, min(shuffle_bytes, n_maps * options.block))
        shapes.append(
            map_reduce(
                f"joint-{at}",
                input_bytes=input_bytes,
                block_bytes=-(-input_bytes // n_maps),
                shuffle_bytes=shuffle_bytes,
                output_bytes=shuffle_bytes // 2,
                reduces=int(reduces[at]),
                task_s=float(times_s[0][at]),
                reduce_s=float(times_s[1][at]),
                rates=(math.inf, math.inf),
                arrive_s=float(arrive_s[at]),
            )
        )
    jobs = populate(shapes, options, seed)
    return Workload(
        name="joint", source="Joint, section V and Table 2", jobs=jobs, statistics=_statistics(jobs)
    )


def _task_counts(rng: np.random.Generator, count: int) -> np.ndarray:
    """Tasks per job: lognormal, with the mean job size / mean task time; at least 2."""
    wanted = _JOB_TASK_S / _TASK_S
    sigma = math.sqrt(2 * math.log(wanted / _MEDIAN_TASKS))
    p95 = _MEDIAN_TASKS * math.exp(1.645 * sigma)
    drawn = by_percentiles(strata(rng, count), _MEDIAN_TASKS, p95)
    counts: np.ndarray = np.maximum(2, np.rint(drawn * (wanted / float(drawn.mean())))).astype(int)
    return counts


def _statistics(jobs: tuple[WorkloadJob, ...]) -> tuple[Statistic, ...]:
    tasks = sum(job.tasks for job in jobs)
    worked_s = sum(stage.tasks * stage.task_s for job in jobs for stage in job.stages)
    edges = [job.shuffle_bytes / (job.stages[0].tasks * job.stages[1].tasks) for job in jobs]
    first_s, last_s = jobs[0].submit_s, jobs[-1].submit_s
    gap_s = (last_s - first_s) / max(1, len(jobs) - 1)
    return (
        statistic("jobs", "", len(jobs), 200, note="Table 2"),
        statistic("job size, mean", "s", worked_s / len(jobs), _JOB_TASK_S, 0.03, "Table 2"),
        statistic("gap, mean", "s", gap_s, 15.0, 0.1, "Table 2"),
        statistic("task, mean", "s", worked_s / tasks, 13.0, 0.001, "Table 2"),
        statistic("edge, mean over jobs", "bytes", mean(edges), 196e6, 0.001, "Table 2"),
        statistic("shuffle of a job, mean", "bytes", mean([job.shuffle_bytes for job in jobs])),
    )
