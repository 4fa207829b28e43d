"""The numbers of a run: a quantity of its summary, alone or compared with a baseline's.

A quantity is None where a run does not have it, such as coflow times of map-only jobs.
``measures_of`` is the list of all measures.  Nothing is read but topologies, by their names.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from railyard.cluster.topology import Topology, load_topology
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


def in_range(by: str, least: float, below: float, grain: int = 1) -> WhichJobs:
    """The jobs whose "tasks", bytes of "shuffle", or "shuffle / input" are in a range.

    Tasks are counted as if none of them were ``grain`` tasks in one.
    """

    def which(job: Job) -> bool:
        tasks, shuffle = (job["maps"] + job["reduces"]) * grain, float(job["shuffle_bytes"])
        amount = tasks if by == "tasks" else shuffle
        if by == "shuffle / input":
            amount = shuffle / float(job["input_bytes"])
        return bool(least <= amount < below)

    return which


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


@cache
def topology_named(name: str) -> Topology:
    """A topology without changes."""
    return load_topology(name)


def share_on_circuits(run: Summary) -> float | None:
    """Of what shuffles send between racks, in %; no other flow is an elephant."""
    return _percent(moved_bytes("ocs")(run), _shuffled_across(run))


def core_used(run: Summary) -> float | None:
    """What racks send by packets, in % of what their links carry until the last job ends."""
    racks = topology_named(run["topology"]).rack_list()
    most = sum(rack.uplink_bytes_per_s for rack in racks) * run["makespan_s"]
    return _percent(moved_bytes("eps")(run), most)


def circuits_used(run: Summary) -> float | None:
    """What circuits carry, in % of what they could until the last job ends."""
    topology = topology_named(run["topology"])
    assert topology.ocs is not None
    most = len(topology.rack_list()) * topology.ocs.port_bytes_per_s * run["makespan_s"]
    return _percent(moved_bytes("ocs")(run), most)


def _sent_by_maps(run: Summary) -> float | None:
    """Of what crosses links between sites, what is no shuffle, in %."""
    every = moved_bytes("wan")(run)
    return 100.0 * (1 - _shuffled_across(run) / every) if every else None


def _shuffled_across(run: Summary) -> float:
    return sum(float(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])


# Duplicates --------------------------------------------------------------------------------------
def _own(run: Summary, name: str) -> float | None:
    """A figure of the scheduler's own."""
    found = run["figures"].get(run["scheduler"], {}).get(name)
    return None if found is None else float(found)


def _launched(run: Summary) -> float | None:
    return _percent(_own(run, "duplicates"), sum(job["maps"] for job in run["jobs"]))


def _chosen(run: Summary) -> float | None:
    return _percent(_own(run, "duplicates_chosen"), _own(run, "duplicates"))


def _before_t(run: Summary) -> float | None:
    """Of the chosen duplicates, those that needed no estimate, in %."""
    early = [_own(run, name) or 0.0 for name in ("replaced", "taken_early")]
    found = _percent(sum(early), _own(run, "duplicates_chosen"))
    return None if found is None else min(100.0, found)


#: Below this share of ended jobs the ratio of two numbers of jobs says little.
_FEW = 0.2


def _more_jobs(own: Summary, base: Summary | None) -> float | None:
    """By how much more jobs are done at some time than under the baseline, at best, in %."""
    if base is None:
        return None
    mine, other = (sorted(float(job["finished_s"]) for job in run["jobs"]) for run in (own, base))
    begin_s = other[int(_FEW * len(other))]
    times_s = [at_s for at_s in (*mine, *other) if at_s >= begin_s]
    return 100.0 * max(
        bisect_right(mine, at_s) / bisect_right(other, at_s) - 1.0 for at_s in times_s
    )


def _percent(part: float | None, of: float | None) -> float | None:
    return None if part is None or not of else 100.0 * part / of


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


# The measures ------------------------------------------------------------------------------------
def measures_of(which: WhichJobs = lambda _: True) -> dict[str, Measure]:
    """All measures by their words, such as "less makespan"; those of jobs are over these jobs."""
    mean_s, median_s = job_time_s("mean", which), job_time_s("p50", which)
    p90_s, skew = job_time_s("p90", which), of_jobs("shuffle_skew", "mean", which)
    every = (
        # of a run as a whole
        reduction("makespan", lambda run: float(run["makespan_s"])),
        reduction("compute time", slot_s),
        reduction("cross-rack bytes", moved_bytes("cross_rack"), SIZE),
        reduction("bytes between sites", moved_bytes("wan"), SIZE),
        plain("of bytes between sites: maps'", _sent_by_maps),
        share("slots used", "slot_utilization"),
        share("slots computing", "compute_utilization"),
        share("links used", "network_utilization"),
        layer_share("root"),
        layer_share("aggregation"),
        plain("core used", core_used),
        plain("circuits used", circuits_used),
        plain("on circuits", share_on_circuits),
        # of each job beside itself in another run: always over all jobs
        mean_reduction("job time, mean of each", "jct_s", mean_s),
        reduction("slowdown", slowdown, RATIO),
        Measure("jobs slowed down", "%", slowed_down, mean_s, TIME),
        Measure("more jobs done, at best", "%", _more_jobs, mean_s, TIME),
        mean_reduction("skew, mean of each", "shuffle_skew", skew, NUMBER),
        # of jobs
        reduction("JCT mean", mean_s),
        reduction("JCT median", median_s),
        reduction("JCT p90", p90_s),
        plain("JCT mean", mean_s, TIME),
        *(plain(f"JCT {part}", job_time_s(part, which), TIME) for part in _PARTS),
        reduction("JCT mean, such jobs", mean_s),
        reduction("job time", mean_s),
        *(reduction(f"job time {part}", job_time_s(part, which)) for part in _PARTS),
        reduction("query time mean", mean_s),
        reduction("query time median", median_s),
        reduction("recurring, JCT mean", mean_s),
        reduction("recurring, JCT median", median_s),
        reduction("ad hoc, JCT mean", mean_s),
        reduction("ad hoc, JCT p90", p90_s),
        reduction("ad hoc, makespan", span_s(which)),
        reduction("CCT mean", of_jobs("cct_s", "mean", which)),
        reduction("shuffle time", of_jobs("cct_s", "mean", which)),
        reduction("reduce time, median job", of_jobs("reduce_s", "p50", which)),
        plain("shuffle skew", skew, NUMBER),
        reduction("skew", skew, NUMBER),
        # of duplicates
        plain("duplicates, of the maps", _launched),
        plain("chosen, of the duplicates", _chosen),
        plain("chosen before T, of the chosen", _before_t),
        plain("error of predicted times", lambda run: _percent(_own(run, "prediction_error"), 1.0)),
        plain("replaced", lambda run: _own(run, "replaced"), NUMBER),
    )
    return {measure.words: measure for measure in every}


_PARTS = ("p25", "p50", "p75", "p90", "p99")
#: Of all jobs.
MEASURES = measures_of()
