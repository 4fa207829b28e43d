"""The numbers of a run: a quantity of its summary, alone or compared with a baseline's.

Pure.  A quantity is None where a run does not have it, such as coflow times of map-only jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railyard.cluster.units import Unit, format_duration, format_ratio, format_size
from railyard.jobs.workloads.statistics import percentile

Summary = dict[str, Any]
Job = dict[str, Any]
Quantity = Callable[[Summary], float | None]
WhichJobs = Callable[[Job], bool]


@dataclass(frozen=True)
class Measure:
    """A number of a run, or of a run and the baseline's run with the same seed."""

    title: str
    unit: str  #: "%", "s", "share"
    of: Callable[[Summary, Summary | None], float | None]
    quantity: Quantity  #: from which it is computed
    show: Callable[[float], str]  #: the quantity, for people
    lessens: bool = False  #: whether it is by how much less the quantity is


def reduction(title: str, quantity: Quantity, show: Callable[[float], str]) -> Measure:
    """Reduction against the baseline, in % of the baseline; below 0: an increase."""

    def of(own: Summary, base: Summary | None) -> float | None:
        mine, other = quantity(own), None if base is None else quantity(base)
        return None if mine is None or not other else 100.0 * (1.0 - mine / other)

    return Measure(title, "%", of, quantity, show, lessens=True)


def plain(title: str, unit: str, quantity: Quantity, show: Callable[[float], str]) -> Measure:
    """The quantity itself, without a baseline."""
    return Measure(title, unit, lambda own, _: quantity(own), quantity, show)


#: Of quantities that are in % already.
POINTS = Unit("%", 1.0)
#: The key of the times of jobs alone, in the summaries of lines with ``alone``.
ALONE_S = "alone_s"


# Quantities --------------------------------------------------------------------------------------
def every_job(_: Job) -> bool:
    """All jobs."""
    return True


def named(prefix: str) -> WhichJobs:
    """The jobs whose names begin with the prefix."""
    return lambda job: str(job["name"]).startswith(prefix)


def but(which: WhichJobs) -> WhichJobs:
    """All others."""
    return lambda job: not which(job)


def job_time_s(part: str, which: WhichJobs = every_job) -> Quantity:
    """Completion times of jobs: their "mean", "max" or a percentile such as "p50"."""
    return of_jobs("jct_s", part, which)


def coflow_time_s(part: str) -> Quantity:
    """Completion times of coflows."""
    return lambda run: run["cct_s"][part]


def span_s(which: WhichJobs) -> Quantity:
    """From when the first of these jobs comes until the last one is done."""

    def of(run: Summary) -> float | None:
        jobs = [job for job in run["jobs"] if which(job)]
        if not jobs:
            return None
        begin_s = min(float(job["submitted_s"]) for job in jobs)
        return max(float(job["finished_s"]) for job in jobs) - begin_s

    return of


def of_jobs(key: str, part: str, which: WhichJobs = every_job) -> Quantity:
    """A figure of each job, such as "reduce_s", over jobs: "mean", "max", or "p90" and the like."""

    def of(run: Summary) -> float | None:
        values = [job[key] for job in run["jobs"] if which(job) and job[key] is not None]
        if not values:
            return None
        if part in ("mean", "max"):
            return math.fsum(values) / len(values) if part == "mean" else float(max(values))
        return percentile(values, float(part.removeprefix("p")))

    return of


def times_alone(run: Summary) -> dict[str, float]:
    """{job: its time} of a run in which jobs come far apart."""
    return {job["name"]: job["jct_s"] for job in run["jobs"]}


def slowdown(run: Summary) -> float:
    """How many times as long jobs take as alone, on average; of lines with ``alone``."""
    slower = [float(job["jct_s"]) / run[ALONE_S][job["name"]] for job in run["jobs"]]
    return math.fsum(slower) / len(slower)


def slowed_down(own: Summary, base: Summary | None) -> float | None:
    """Which share of the jobs takes longer than under the baseline, in %."""
    if base is None:
        return None
    before = times_alone(base)
    slower = [bool(job["jct_s"] > before[job["name"]]) for job in own["jobs"]]
    return 100.0 * sum(slower) / len(slower)


def show_percent(value: float) -> str:
    """A number that is in % already."""
    return POINTS.show(value)


def share(title: str, part: str) -> Measure:
    """A share that the summary has by itself, in %, such as "slot_utilization"."""
    return plain(title, "%", lambda run: 100.0 * run[part], show_percent)


def layer_share(layer: str) -> Measure:
    """How much a layer of a tree's switches carries of what it can, in %."""

    def of(run: Summary) -> float:
        return 100.0 * float(run["layer_utilization"][layer])

    return plain(f"{layer} used", "%", of, show_percent)


def moved_bytes(way: str) -> Quantity:
    """Bytes carried in a category: "cross_rack", "ocs"."""
    return lambda run: float(run["bytes"][way])


def slot_s(run: Summary) -> float:
    """The time for which attempts held slots, summed up."""
    return sum(float(job["slot_s"]) for job in run["jobs"])


MAKESPAN = reduction("makespan", lambda run: float(run["makespan_s"]), format_duration)
JCT_MEAN = reduction("JCT mean", job_time_s("mean"), format_duration)
JCT_MEDIAN = reduction("JCT median", job_time_s("p50"), format_duration)
CCT_MEAN = reduction("CCT mean", coflow_time_s("mean"), format_duration)
CROSS_RACK = reduction("cross-rack bytes", moved_bytes("cross_rack"), format_size)
WAN = reduction("bytes between sites", moved_bytes("wan"), format_size)
JCT_P90 = reduction("JCT p90", job_time_s("p90"), format_duration)
SLOWDOWN = reduction("slowdown", slowdown, format_ratio)
SLOWED_DOWN = Measure("jobs slowed down", "%", slowed_down, job_time_s("mean"), format_duration)
SLOTS_USED = share("slots used", "slot_utilization")
COMPUTING = share("slots computing", "compute_utilization")
ROOT_USED = layer_share("root")
AGGREGATION_USED = layer_share("aggregation")
LINKS_USED = share("links used", "network_utilization")
COMPUTE_TIME = reduction("compute time", slot_s, format_duration)
