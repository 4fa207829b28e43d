"""The numbers of a run: a quantity of its summary, alone or compared with a baseline's.

Pure.  A quantity is None where a run does not have it, such as coflow times of map-only jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railyard.cluster.units import NO_UNIT, Unit, format_ratio
from railyard.jobs.workloads.statistics import percentile
from railyard.runs.figures import NUMBER, SIZE, TIME, Kind, Summary

Job = dict[str, Any]
Quantity = Callable[[Summary], float | None]
WhichJobs = Callable[[Job], bool]

_PERCENT = Unit("%", 1.0)
#: Quantities that are in % already.
POINTS = Kind(_PERCENT.show, lambda _: _PERCENT)
RATIO = Kind(format_ratio, lambda _: NO_UNIT)
#: The key of the times of jobs alone, in the summaries of lines with ``alone``.
ALONE_S = "alone_s"


@dataclass(frozen=True)
class Measure:
    """A number of a run, or of a run and the baseline's run with the same seed."""

    title: str
    unit: str  #: "%", "s", or "" for a share
    of: Callable[[Summary, Summary | None], float | None]
    quantity: Quantity  #: from which it is computed
    kind: Kind  #: of the quantity
    lessens: bool = False  #: whether it is by how much less the quantity is

    @property
    def words(self) -> str:
        """As tables call it."""
        return f"less {self.title}" if self.lessens else self.title


def reduction(title: str, quantity: Quantity, kind: Kind = TIME) -> Measure:
    """Reduction against the baseline, in % of the baseline; below 0: an increase."""

    def of(own: Summary, base: Summary | None) -> float | None:
        mine, other = quantity(own), None if base is None else quantity(base)
        return None if mine is None or not other else 100.0 * (1.0 - mine / other)

    return Measure(title, "%", of, quantity, kind, lessens=True)


def mean_reduction(title: str, key: str, quantity: Quantity, kind: Kind = TIME) -> Measure:
    """The mean over jobs of by how much less each one's ``key`` is than the baseline's, in %."""

    def of(own: Summary, base: Summary | None) -> float | None:
        if base is None:
            return None
        before = {job["name"]: job[key] for job in base["jobs"]}
        return _mean([100.0 * (1.0 - job[key] / before[job["name"]]) for job in own["jobs"]])

    return Measure(title, "%", of, quantity, kind, lessens=True)


def plain(title: str, quantity: Quantity, kind: Kind = POINTS) -> Measure:
    """The quantity itself, without a baseline."""
    return Measure(title, kind.unit(1.0).name, lambda own, _: quantity(own), quantity, kind)


# Quantities --------------------------------------------------------------------------------------
def named(prefix: str) -> WhichJobs:
    """The jobs whose names begin with the prefix."""
    return lambda job: str(job["name"]).startswith(prefix)


def but(which: WhichJobs) -> WhichJobs:
    """All others."""
    return lambda job: not which(job)


def of_jobs(key: str, part: str, which: WhichJobs = lambda _: True) -> Quantity:
    """A figure of each job, such as "reduce_s", over jobs: "mean", "max", or "p90" and the like."""

    def of(run: Summary) -> float | None:
        values = [job[key] for job in run["jobs"] if which(job) and job[key] is not None]
        if not values:
            return None
        if part == "mean":
            return _mean(values)
        return float(max(values)) if part == "max" else percentile(values, float(part[1:]))

    return of


def job_time_s(part: str, which: WhichJobs = lambda _: True) -> Quantity:
    """Completion times of jobs: their "mean", "max" or a percentile such as "p50"."""
    return of_jobs("jct_s", part, which)


def span_s(which: WhichJobs) -> Quantity:
    """From when the first of these jobs comes until the last one is done."""

    def of(run: Summary) -> float | None:
        jobs = [job for job in run["jobs"] if which(job)]
        if not jobs:
            return None
        begin_s = min(float(job["submitted_s"]) for job in jobs)
        return max(float(job["finished_s"]) for job in jobs) - begin_s

    return of


def times_alone(run: Summary) -> dict[str, float]:
    """{job: its time} of a run in which jobs come far apart."""
    return {job["name"]: job["jct_s"] for job in run["jobs"]}


def slowdown(run: Summary) -> float:
    """How many times as long jobs take as alone, on average; of lines with ``alone``."""
    return _mean([float(job["jct_s"]) / run[ALONE_S][job["name"]] for job in run["jobs"]])


def slowed_down(own: Summary, base: Summary | None) -> float | None:
    """Which share of the jobs takes longer than under the baseline, in %."""
    if base is None:
        return None
    before = times_alone(base)
    slower = [bool(job["jct_s"] > before[job["name"]]) for job in own["jobs"]]
    return 100.0 * sum(slower) / len(slower)


def share(title: str, key: str) -> Measure:
    """A share that the summary has by itself, in %, such as "slot_utilization"."""
    return plain(title, lambda run: 100.0 * run[key])


def layer_share(layer: str) -> Measure:
    """How much a layer of a tree's switches carries of what it can, in %."""
    return plain(f"{layer} used", lambda run: 100.0 * float(run["layer_utilization"][layer]))


def moved_bytes(way: str) -> Quantity:
    """Bytes carried in a category: "cross_rack", "ocs"."""
    return lambda run: float(run["bytes"][way])


def slot_s(run: Summary) -> float:
    """The time for which attempts held slots, summed up."""
    return sum(float(job["slot_s"]) for job in run["jobs"])


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


MAKESPAN = reduction("makespan", lambda run: float(run["makespan_s"]))
JCT_MEAN = reduction("JCT mean", job_time_s("mean"))
JCT_MEDIAN = reduction("JCT median", job_time_s("p50"))
JCT_P90 = reduction("JCT p90", job_time_s("p90"))
CCT_MEAN = reduction("CCT mean", lambda run: run["cct_s"]["mean"])
CROSS_RACK = reduction("cross-rack bytes", moved_bytes("cross_rack"), SIZE)
WAN = reduction("bytes between sites", moved_bytes("wan"), SIZE)
SLOWDOWN = reduction("slowdown", slowdown, RATIO)
SLOWED_DOWN = Measure("jobs slowed down", "%", slowed_down, job_time_s("mean"), TIME)
COMPUTE_TIME = reduction("compute time", slot_s)
SHUFFLE_SKEW = plain("shuffle skew", of_jobs("shuffle_skew", "mean"), NUMBER)
SLOTS_USED = share("slots used", "slot_utilization")
COMPUTING = share("slots computing", "compute_utilization")
LINKS_USED = share("links used", "network_utilization")
ROOT_USED = layer_share("root")
AGGREGATION_USED = layer_share("aggregation")
