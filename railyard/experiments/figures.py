"""An experiment of a paper as data: its runs, the numbers of each, and the published ones.

A figure has lines; each is a number of one ``Setup``, or of its comparison with another one.
``Coarser`` makes its topology smaller.  Nothing is run here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean
from typing import Any

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.units import NO_UNIT, Unit, format_ratio
from railyard.jobs.workloads.statistics import percentile
from railyard.runs.config import Pair, coarse_network, grain_of, pairs_of, typed_pair
from railyard.runs.figures import NUMBER, SIZE, TIME, Kind, Summary
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs

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
        return f"less {self.title}" if self.lessens else self.title


def reduction(title: str, quantity: Quantity, kind: Kind = TIME) -> Measure:
    """Reduction against the baseline, in % of the baseline; below 0: an increase."""

    def of(own: Summary, base: Summary | None) -> float | None:
        mine, other = quantity(own), None if base is None else quantity(base)
        return None if mine is None or not other else 100.0 * (1.0 - mine / other)

    return Measure(title, "%", of, quantity, kind, lessens=True)


def reduction_of_each(
    title: str,
    key: str,
    quantity: Quantity,
    kind: Kind = TIME,
    over: Callable[[Iterable[float]], float] = fmean,
) -> Measure:
    """The mean, or so, over jobs of by how much less ``key`` is than the baseline's, in %."""

    def of(own: Summary, base: Summary | None) -> float | None:
        if base is None:
            return None
        before = {job["name"]: job[key] for job in base["jobs"]}
        return over(100.0 * (1.0 - job[key] / before[job["name"]]) for job in own["jobs"])

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
            return fmean(values)
        return float(max(values)) if part == "max" else percentile(values, float(part[1:]))

    return of


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
    return fmean(float(job["jct_s"]) / run[ALONE_S][job["name"]] for job in run["jobs"])


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


def _by_circuit(run: Summary) -> float | None:
    """Of all that is sent between racks, in %."""
    return _percent(moved_bytes("ocs")(run), moved_bytes("cross_rack")(run))


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
    ratios = (bisect_right(mine, at_s) / bisect_right(other, at_s) for at_s in times_s)
    return 100.0 * (max(ratios) - 1.0)


def _percent(part: float | None, of: float | None) -> float | None:
    return None if part is None or not of else 100.0 * part / of


# The measures ------------------------------------------------------------------------------------
def measures_of(which: WhichJobs = lambda _: True) -> dict[str, Measure]:
    """All measures by their words, such as "less makespan"; those of jobs are over these jobs."""
    mean_s, median_s, p90_s = (of_jobs("jct_s", part, which) for part in ("mean", "p50", "p90"))
    skew, cct_s = (of_jobs(key, "mean", which) for key in ("shuffle_skew", "cct_s"))
    every = (
        # of a run as a whole
        reduction("makespan", lambda run: float(run["makespan_s"])),
        reduction("compute time", slot_s),
        reduction("cross-rack bytes", moved_bytes("cross_rack"), SIZE),
        reduction("slots used", lambda run: 100.0 * run["slot_utilization"], POINTS),
        reduction("links used", lambda run: 100.0 * run["network_utilization"], POINTS),
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
        plain("by circuit", _by_circuit),
        # of each job beside itself in another run: always over all jobs
        reduction_of_each("job time, mean of each", "jct_s", mean_s),
        reduction_of_each("job time, at best", "jct_s", mean_s, over=max),
        reduction("slowdown", slowdown, RATIO),
        Measure("jobs slowed down", "%", slowed_down, mean_s, TIME),
        Measure("more jobs done, at best", "%", _more_jobs, mean_s, TIME),
        reduction_of_each("skew, mean of each", "shuffle_skew", skew, NUMBER),
        # of jobs
        reduction("JCT mean", mean_s),
        reduction("JCT median", median_s),
        reduction("JCT p90", p90_s),
        plain("JCT mean", mean_s, TIME),
        *(plain(f"JCT {part}", of_jobs("jct_s", part, which), TIME) for part in _PARTS),
        reduction("JCT mean, such jobs", mean_s),
        reduction("job time", mean_s),
        *(reduction(f"job time {part}", of_jobs("jct_s", part, which)) for part in _PARTS),
        reduction("query time mean", mean_s),
        reduction("query time median", median_s),
        reduction("recurring, JCT mean", mean_s),
        reduction("recurring, JCT median", median_s),
        reduction("ad hoc, JCT mean", mean_s),
        reduction("ad hoc, JCT p90", p90_s),
        reduction("ad hoc, makespan", span_s(which)),
        reduction("CCT mean", cct_s),
        reduction("shuffle time", cct_s),
        reduction("reduce time, median job", of_jobs("reduce_s", "p50", which)),
        plain("shuffle, of the job time", lambda run: _percent(cct_s(run), mean_s(run))),
        plain("shuffle skew", skew, NUMBER),
        reduction("skew", skew, NUMBER),
        # of duplicates
        plain("duplicates, of the maps", _launched),
        reduction("duplicates", _launched, POINTS),
        plain("chosen, of the duplicates", _chosen),
        plain("chosen before T, of the chosen", _before_t),
        plain("error of predicted times", lambda run: _percent(_own(run, "prediction_error"), 1.0)),
        plain("replaced", lambda run: _own(run, "replaced"), NUMBER),
    )
    return {measure.words: measure for measure in every}


_PARTS = ("p25", "p50", "p75", "p90", "p99")


# Experiments --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Setup:
    """A run without its seed.  Equal setups run once, however many figures need them."""

    workload: str  #: as ``railyard simulate --workload`` takes it
    topology: str
    scheduler: str
    flow_scheduler: str | None = None  #: None: the one that its scheduler goes with
    network: TextPairs = ()  #: changed settings of the topology
    #: settings of this scheduler, or of those that it is compared with
    scheduler_options: TextPairs = ()
    behaviour: Behaviour = field(default_factory=Behaviour)
    faults: str | None = None  #: as ``railyard simulate --faults`` takes them

    @property
    def coarse(self) -> str:
        """How its runs are coarser than one with every task and flow; "" = they are exact."""
        merged = grain_of(self.workload)
        words = [f"{merged} tasks in 1"] if merged > 1 else []
        words += ["blocks or ends merged"] if self.behaviour.is_coarse else []
        return " and ".join(words)

    @property
    def pair(self) -> Pair:
        """Its scheduler and flow scheduler; raises ``UsageError`` for what does not exist."""
        return _pair(self.scheduler, self.flow_scheduler)

    def under(self, contender: str) -> Setup:
        """The same jobs under "SCHEDULER" or "SCHEDULER + FLOWSCHEDULER"."""
        pair = _pair(contender, self.flow_scheduler)
        return replace(self, scheduler=pair.scheduler, flow_scheduler=pair.flow_scheduler)

    def with_settings(self, settings: TextPairs) -> Setup:
        together = dict(self.scheduler_options) | dict(settings)
        return replace(self, scheduler_options=tuple(together.items()))


@cache
def _pair(contender: str, flow_scheduler: str | None) -> Pair:
    """A contender's pair; cached, as whoever looks names up looks for plugins."""
    scheduler, own = typed_pair(contender)
    return pairs_of([scheduler], [name for name in (own or flow_scheduler,) if name])[0]


@dataclass(frozen=True)
class Published:
    """A number of the paper, or a range; an infinite end is open."""

    least: float
    most: float

    @property
    def is_number(self) -> bool:
        """Whether it says how much, and not only which way."""
        return math.isfinite(self.least + self.most)

    def off_by(self, value: float) -> float:
        """How far a value lies outside the range; 0 within it."""
        return max(0.0, value - self.most) - max(0.0, self.least - value)


#: Without a number in the paper: a reduction, or none.
BETTER = Published(0.0, math.inf)
WORSE = Published(-math.inf, 0.0)
#: As figures are written: a number, the ends of a range, or None where the paper has nothing.
Known = Published | float | tuple[float, float] | None


def published(known: Known) -> Published | None:
    """The paper's number as a range."""
    if known is None or isinstance(known, Published):
        return known
    return Published(*known) if isinstance(known, tuple) else Published(known, known)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One number of a figure."""

    case: str  #: "W1", or a value on the x-axis as in "background 67 %"
    subject: str  #: the schedulers with this number: "corral", "corral + varys"
    measure: Measure
    own: Setup
    base: Setup | None  #: the baseline, seed by seed; None = none
    published: Published | None = None  #: None: the paper has no such number
    #: the same jobs far apart, for measures of how much longer they take than alone
    alone: Setup | None = None
    among: object = None  #: what says which jobs are measured; None = all


#: {contender: its measures, with the published numbers if the paper has some}
Measured = Mapping[str, Mapping[Measure, Known] | Sequence[Measure]]


def lines(
    case: str,
    jobs: Setup,
    measured: Measured,
    *,
    base: str | None = None,
    own: Setup | None = None,
    alone: Setup | None = None,
) -> list[Line]:
    """One case of a figure: each contender's measures, against the baseline's if there is one.

    All run ``jobs``, but the contenders ``own`` if that is given.  They are named "SCHEDULER" or
    "SCHEDULER + FLOWSCHEDULER"; words after a comma say how their ``own`` differs.
    """
    return [
        Line(
            case=case,
            subject=contender,
            measure=measure,
            own=(own or jobs).under(contender.partition(",")[0]),
            base=None if base is None else jobs.under(base),
            published=published(known),
            alone=alone,
        )
        for contender, measures in measured.items()
        for measure, known in (
            measures if isinstance(measures, Mapping) else dict.fromkeys(measures)
        ).items()
    ]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An experiment: lines under one title."""

    title: str
    where: str  #: "Fig. 6, section 6.2.1"
    lines: tuple[Line, ...]
    scaled: tuple[str, ...] = ()  #: how it differs from the paper's, such as by fewer jobs
    base: str = ""  #: what reductions are against, for the reader
    size: str = ""  #: how much smaller than the paper's; "" = as large

    def setups(self) -> list[Setup]:
        """The setups of all lines, each once."""
        every = (setup for line in self.lines for setup in (line.own, line.base, line.alone))
        return list(dict.fromkeys(setup for setup in every if setup is not None))

    def only(self, cases: Sequence[str]) -> Figure:
        """The lines of these cases, or all if there are none."""
        chosen = tuple(line for line in self.lines if not cases or line.case in cases)
        return replace(self, lines=chosen)

    def with_settings(self, settings: TextPairs) -> Figure:
        """The same with other settings of schedulers, which its differences mention."""
        if not settings:
            return self
        changed = tuple(
            replace(
                line,
                own=line.own.with_settings(settings),
                base=line.base and line.base.with_settings(settings),
                alone=line.alone and line.alone.with_settings(settings),
            )
            for line in self.lines
        )
        words = f"settings: {', '.join(f'{key}={value}' for key, value in settings)}"
        return replace(self, lines=changed, scaled=(*self.scaled, words))


# Smaller -----------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Coarser:
    """A topology with fewer and larger machines and slots.

    Times stay the same, and so does what limits them: a rack's slots x rate, its link to the core
    and the bytes of jobs.  ``tasks`` tasks become one, that many times larger, on a slot that much
    faster; ``machines`` machines become one with their slots and NICs.  Raises ``UsageError`` if
    that leaves parts of machines or slots.
    """

    topology: str
    tasks: int = 1  #: how many become one; of the workload: its option "grain"
    machines: int = 1  #: how many become one, in each rack
    rate: float | None = None  #: of a slot before that, bytes/s; None = the topology's

    def __post_init__(self) -> None:
        racks = topology_named(self.topology).racks
        kinds, right = racks.reduce_slots, "0 where tasks are merged"
        require(not kinds, f"{self.topology}: racks.reduce_slots", kinds, right)
        wanted, what = racks.nodes / self.machines, f"{self.topology}: machines"
        require(wanted.is_integer(), what, self.machines, f"what divides {racks.nodes}")
        slots = racks.slots * self.machines / self.tasks
        what = f"{self.topology}: tasks"
        require(slots.is_integer(), what, self.tasks, f"what divides {racks.slots * self.machines}")

    def network(self) -> TextPairs:
        return coarse_network(topology_named(self.topology), self.tasks, self.machines, self.rate)
