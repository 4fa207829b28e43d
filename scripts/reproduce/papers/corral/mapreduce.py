"""W1, W2 and W3, in batches and online: Fig. 6 to 9, section 6.2."""

from __future__ import annotations

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import BETTER, WORSE, Figure, Line, against, reported
from railyard.scripts.reproduce.measures import (
    COMPUTE_TIME,
    CROSS_RACK,
    JCT_MEAN,
    JCT_MEDIAN,
    MAKESPAN,
    Job,
    WhichJobs,
    job_time_s,
    of_jobs,
    reduction,
)
from railyard.scripts.reproduce.papers.corral.setups import (
    AGAINST,
    BASE,
    MAPREDUCE,
    RIVALS,
    W1,
    by_workload,
    smaller,
)

_REDUCE_TIME = reduction("reduce time, median job", of_jobs("reduce_s", "p50"), format_duration)


# Batch -------------------------------------------------------------------------------------------
def figure_6(quick: bool) -> Figure:
    """Makespans of batches."""
    makespan = MAKESPAN.title
    usual = {("corral", makespan): reported(10, 33), ("shufflewatcher", makespan): WORSE}
    published = {
        each.name: usual | {("local-shuffle", makespan): BETTER if each is W1 else WORSE}
        for each in MAPREDUCE
    }
    return Figure(
        title="makespan of a batch",
        where="Fig. 6, section 6.2.1",
        lines=by_workload(quick, (MAKESPAN,), False, published),
        scaled=smaller(quick, *MAPREDUCE, online=False),
        base=AGAINST,
    )


def figure_7(quick: bool) -> Figure:
    """What else is different in batches."""
    usual = {
        ("corral", CROSS_RACK.title): reported(20, 90),
        ("corral", COMPUTE_TIME.title): reported(0, 20),
    }
    published = {each.name: dict(usual) for each in MAPREDUCE}
    published["w1"]["corral", _REDUCE_TIME.title] = reported(40)
    return Figure(
        title="bytes across racks, compute hours and reduce time of a batch",
        where="Fig. 7, section 6.2.1",
        lines=by_workload(quick, (CROSS_RACK, COMPUTE_TIME, _REDUCE_TIME), False, published),
        scaled=smaller(quick, *MAPREDUCE, online=False),
        base=AGAINST,
    )


# Online ------------------------------------------------------------------------------------------
def figure_8(quick: bool) -> Figure:
    """Job times online."""
    usual = {
        ("corral", JCT_MEDIAN.title): reported(30, 56),
        ("corral", JCT_MEAN.title): reported(26, 36),
    }
    return Figure(
        title="job completion times online",
        where="Fig. 8, section 6.2.2",
        lines=by_workload(
            quick, (JCT_MEDIAN, JCT_MEAN), True, {each.name: usual for each in MAPREDUCE}
        ),
        scaled=smaller(quick, *MAPREDUCE, online=True),
        base=AGAINST,
    )


def _of_size(least: int, most: float, merged: int) -> WhichJobs:
    """Jobs of so many tasks, as there were before ``merged`` became one."""

    def which(job: Job) -> bool:
        tasks = (job["maps"] + job["reduces"]) * merged
        return bool(least <= tasks < most)

    return which


def figure_9(quick: bool) -> Figure:
    """Job times online, by size."""
    # Between the classes, since a job's last tasks of each stage may be less than a whole one.
    sizes = {"small": (0, 150), "medium": (150, 750), "large": (750, float("inf"))}
    lines: list[Line] = []
    for name, (least, most) in sizes.items():
        time = job_time_s("mean", _of_size(least, most, W1.testbed(quick).tasks))
        measure = reduction("JCT mean", time, format_duration)
        published = {("corral", "JCT mean"): reported(30, 36)}
        published["shufflewatcher", "JCT mean"] = WORSE if name == "large" else BETTER
        jobs = W1.setup(quick, W1.online)
        lines += against(BASE, RIVALS, (measure,), case=name, jobs=jobs, published=published)
    return Figure(
        title="job completion times online by size, W1",
        where="Fig. 9, section 6.2.2",
        lines=tuple(lines),
        scaled=smaller(quick, W1, online=True),
        base=AGAINST,
    )
