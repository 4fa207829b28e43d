"""Tetrium's experiments: Fig. 5, 6 and 8 to 12, and section 6.3.1.

Source: Hung et al., Wide-Area Analytics with Multiple Resources, EuroSys 2018, section 6.
Fig. 7, the time of decisions, is ``scripts/bench placement``.

Two kinds of queries run on 8 and on 30 sites (6.2), and jobs as in a trace on 50 (6.3), under two
loads.  "as read" has what the paper says and what the workloads chose where it says nothing: there
links decide nearly alone, and slots are held by tasks that fetch.  In the paper slots do more than
bandwidth (6.4), so "waves" has slots that work at a twentieth of the rate and jobs that come
further apart: tasks queue for slots, in several waves, and links are free now and then.
In both, jobs of more stages are larger: the paper's order of jobs takes the number of stages left
"as a proxy for" the work that is left (4.1).
Left open there, chosen here: both loads' rates and gaps, for "waves" after three had been tried
on 8 sites, and how sizes follow stages, all with the paper's numbers in view:
docs/reproduce-tetrium.md.  A job's time alone (Fig. 6) is that under In-Place, from a run in which
jobs come far apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from railyard.experiments.figures import (
    BETTER,
    Figure,
    Known,
    Line,
    Paper,
    Setup,
    figure,
    lines,
    topology_named,
)
from railyard.experiments.measures import (
    COMPUTING,
    JCT_MEAN,
    JCT_P90,
    LINKS_USED,
    SLOTS_USED,
    SLOWDOWN,
    SLOWED_DOWN,
    WAN,
    Job,
    Measure,
    job_time_s,
    moved_bytes,
    plain,
    reduction,
)
from railyard.runs.figures import Summary
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs

_OURS, _IN_PLACE, _IRIDIUM = "tetrium", "in-place", "iridium"
_USE = (SLOTS_USED, COMPUTING, LINKS_USED)
#: Of 6.3: "we simulate a 50-site setting"; these many tasks become one, on slots as much faster.
_GRAIN = 10
#: What is known beforehand of the jobs that Fig. 8 runs.
_KNOWN = ("recurring=1", "size_error=0")


@dataclass(frozen=True, kw_only=True)
class _Load:
    """How busy sites are."""

    name: str
    slower: float  #: slots work at the topology's rate by this
    gap_s: dict[int, float]  #: {number of sites: mean time between two jobs}
    slots_by: int = 1  #: of 50 sites, slots by this


_AS_READ = _Load(name="as read", slower=1, gap_s={8: 10, 30: 10, 50: 10})
_WAVES = _Load(name="waves", slower=20, gap_s={8: 40, 30: 10, 50: 5}, slots_by=50)
_LOADS = (_AS_READ, _WAVES)
_LOADS_WORDS = (
    "jobs of more stages are larger, as their number is to stand for the work (4.1)",
    "waves: slots work at a twentieth of the rate; jobs come 40 s apart on 8 sites, 10 s on "
    "30, 5 s on 50, which have a fiftieth of the slots",
)


# Jobs --------------------------------------------------------------------------------------------
def _queries(kind: str, sites: int, load: _Load, quick: bool, gap_s: float = 0) -> Setup:
    """The jobs of the deployment (6.2)."""
    count, gap_s = 12 if quick else 50, gap_s or load.gap_s[sites]
    return Setup(
        workload=f"tetrium-{kind},jobs={count},sites={sites},gap={gap_s:g}s",
        topology=f"tetrium-{sites}",
        scheduler=_OURS,
        network=_rates(load.slower),
        behaviour=Behaviour(progress_s=0),
    )


def _rates(slower: float) -> TextPairs:
    """Of slots; section 2.2 has a map of 100 MB in 2 s, a reduce of as much in 1 s."""
    if slower == 1:
        return ()
    return tuple(
        (f"compute.{key}", f"{rate / slower:g}MB/s")
        for key, rate in (("map_rate", 50), ("reduce_rate", 100))
    )


def _traced(load: _Load, quick: bool, *options: str) -> Setup:
    """The jobs of the simulation (6.3), in coarse tasks."""
    own = (f"jobs={24 if quick else 60}", f"gap={load.gap_s[50]:g}s", f"grain={_GRAIN}")
    return Setup(
        workload=",".join(("tetrium", *own, *options)),
        topology="tetrium-50",
        scheduler=_OURS,
        network=_fifty_sites(load, {}),
        behaviour=Behaviour(progress_s=0),
    )


def _fifty_sites(load: _Load, slots: Mapping[str, float], links: TextPairs = ()) -> TextPairs:
    """The 50 sites: coarse slots, of a load; ``slots`` of each site, if not the topology's."""
    racks = topology_named("tetrium-50").rack_list()
    own = {rack.id: slots.get(rack.id, rack.nodes[0].slots) for rack in racks}
    return (
        *(
            (f"rack.{rack}.slots", str(max(1, round(number / load.slots_by / _GRAIN))))
            for rack, number in own.items()
        ),
        ("storage.block", f"{100 * _GRAIN}MB"),
        *_rates(load.slower / _GRAIN),
        *links,
    )


def _zipf(exponent: float) -> dict[str, float]:
    """Each site's share, in random order."""
    weights = [rank**-exponent for rank in range(1, 51)]
    random.Random("order of sites").shuffle(weights)
    return {f"r{site}": weight / sum(weights) for site, weight in enumerate(weights)}


def _zipf_slots(exponent: float) -> TextPairs:
    slots = topology_named("tetrium-50").slots
    return _fifty_sites(_WAVES, {rack: share * slots for rack, share in _zipf(exponent).items()})


def _zipf_links(exponent: float) -> TextPairs:
    """As much bandwidth in all as the topology has, the same up as down."""
    total = sum(rack.uplink_bytes_per_s for rack in topology_named("tetrium-50").rack_list())
    links = tuple(
        (f"rack.{rack}.{way}", f"{share * total:.0f}B/s")
        for rack, share in _zipf(exponent).items()
        for way in ("uplink", "downlink")
    )
    return _fifty_sites(_WAVES, {}, links)


def _drops(percent: int, at_s: float) -> str:
    """Faults: the same five sites lose slots and bandwidth, once a few jobs have come."""
    sites = random.Random("five sites").sample(range(50), 5)
    left = f"{1 - percent / 100:g}@{at_s:g}s"
    return ",".join(
        f"slots:r{site}n0*{left},link:r{site}.up*{left},link:r{site}.down*{left}" for site in sites
    )


# Measures ----------------------------------------------------------------------------------------
def _sent_by_maps(run: Summary) -> float | None:
    every = moved_bytes("wan")(run)
    shuffled = sum(float(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])
    return 100.0 * (1 - shuffled / every) if every else None


_MAPS_PART = plain("of bytes between sites: maps'", _sent_by_maps)


def _of_ratio(least: float, most: float) -> Measure:
    """Mean time of the jobs that shuffle so much, in all stages, for each byte of input."""

    def which(job: Job) -> bool:
        return least <= float(job["shuffle_bytes"]) / float(job["input_bytes"]) < most

    return reduction("JCT mean, such jobs", job_time_s("mean", which))


# The deployment, 6.2 -----------------------------------------------------------------------------
def _deployments() -> Iterator[tuple[str, int, _Load, str]]:
    for load in _LOADS:
        for kind in ("tpcds", "bigdata"):
            for sites in (8, 30):
                yield kind, sites, load, f"{kind}, {sites} sites, {load.name}"


def _responses(quick: bool) -> Iterator[list[Line]]:
    for kind, sites, load, case in _deployments():
        jobs = _queries(kind, sites, load, quick)
        for base, most in ((_IN_PLACE, 78), (_IRIDIUM, 55)):
            known = {_OURS: {JCT_MEAN: (0, most)}}
            yield lines(f"{case}, against {base}", jobs, known, base=base)
        yield lines(case, jobs, dict.fromkeys((_IN_PLACE, _IRIDIUM, _OURS), _USE))


def _slowdowns(quick: bool) -> Iterator[list[Line]]:
    for kind, sites, load, case in _deployments():
        jobs = _queries(kind, sites, load, quick)
        alone = _queries(kind, sites, load, quick, gap_s=20_000.0).under(_IN_PLACE)
        for base, most in ((_IN_PLACE, 45), (_IRIDIUM, 16)):
            known = {_OURS: {SLOWDOWN: (0, most)}}
            yield lines(f"{case}, against {base}", jobs, known, base=base, alone=alone)


# The simulation, 6.3 and 6.4 ---------------------------------------------------------------------
#: {baseline: {contender: what the paper has of its mean response time}}
_FIG_8: dict[str, dict[str, Known]] = {
    _IN_PLACE: {
        _OURS: 42,
        "tetrium+fair-order": 26,
        "tetrium+iridium-tasks": (0, 42),
        "tetrium+iridium-data": (0, 42),
    },
    "centralized": {_OURS: 50, "tetrium+fair-order": 35},
}
_FIG_9 = {
    _OURS: 42,
    "tetrium:random-reduces": 38,
    "tetrium:local-first": 32,
    "tetrium:local-first-random-reduces": 29,
}
#: {drop in %: {k: gain}}
_FIG_11 = {
    10: {3: 22, 5: 35, 7: 37, 10: 38, 20: 39, 50: 39},
    20: {3: 18, 5: 29, 7: 33, 10: 34, 20: 35, 50: 35},
    30: {3: 16, 5: 25, 7: 26, 10: 26, 20: 32, 50: 34},
    40: {3: 9, 5: 19, 7: 23, 10: 25, 20: 26, 50: 30},
    50: {3: 6, 5: 15, 7: 18, 10: 20, 20: 21, 50: 24},
}


def _gains(
    case: str,
    jobs: Setup,
    known: Mapping[str, Known],
    measure: Measure = JCT_MEAN,
    own: Setup | None = None,
) -> list[Line]:
    """What contenders take less than In-Place."""
    measured = {name: {measure: value} for name, value in known.items()}
    return lines(case, jobs, measured, base=_IN_PLACE, own=own)


def _baselines(quick: bool) -> Iterator[list[Line]]:
    """Against all baselines, and Tetrium without some of its parts."""
    for load in _LOADS:
        jobs = _traced(load, quick, *_KNOWN)
        for base, rivals in _FIG_8.items():
            case = f"{load.name}, against {base}"
            measured = {name: {JCT_MEAN: known} for name, known in rivals.items()}
            yield lines(case, jobs, measured, base=base)
            yield lines(case, jobs, {_OURS: {SLOWED_DOWN: 0}}, base=base)
        case, known = f"{load.name}, against tetris", {JCT_MEAN: 33, JCT_P90: 47}
        yield lines(case, jobs, {_OURS: known}, base="tetris")
        yield lines(load.name, jobs, dict.fromkeys((*_FIG_8, _OURS), _USE))


def _budgets(quick: bool) -> Iterator[list[Line]]:
    """The budget of bytes between sites, and fairness."""
    times: dict[float, Known] = {0.75: 40, 1.0: 42}
    saved: dict[float, Known] = {0.0: 53, 0.75: 25, 1.0: (14, 100)}
    for load in _LOADS:
        jobs = _traced(load, quick)
        for rho in (0.0, 0.25, 0.5, 0.75, 1.0):
            own = jobs.with_settings((("tetrium.rho", f"{rho:g}"),)) if rho < 1 else jobs
            measured = {_OURS: {JCT_MEAN: times.get(rho), WAN: saved.get(rho)}}
            yield lines(f"rho {rho:g}, {load.name}", jobs, measured, base=_IN_PLACE, own=own)
        yield lines(load.name, jobs, {_OURS: {_MAPS_PART: 36}})
        for epsilon, gain in ((0.0, 0), (0.6, 38), (1.0, 42)):
            settings = (("tetrium.epsilon", f"{epsilon:g}"),) if epsilon < 1 else ()
            own = jobs.with_settings(settings)
            yield _gains(f"epsilon {epsilon:g}, {load.name}", jobs, {_OURS: gain}, own=own)


def _lost_capacity(quick: bool) -> Iterator[list[Line]]:
    """Five sites lose slots and bandwidth, for good; at most k sites change for that."""
    for drop in (10, 30, 50) if quick else _FIG_11:
        jobs = replace(_traced(_WAVES, quick), faults=_drops(drop, _WAVES.gap_s[50] * 16))
        for k, gain in _FIG_11[drop].items():
            if not quick or k in (3, 7, 50):
                own = jobs.with_settings((("tetrium.k_sites", str(k)),))
                yield _gains(f"-{drop} %, k = {k}", jobs, {_OURS: gain}, own=own)


def _sensitivity(quick: bool) -> Iterator[list[Line]]:
    """How the gain depends on jobs, data, estimates and sites."""
    jobs, better = _traced(_WAVES, quick), {_OURS: BETTER}
    for words, least, most in (("below .5", 0.0, 0.5), (".5 to 2", 0.5, 2), ("above 2", 2, 1e9)):
        measure = _of_ratio(least, most)
        yield _gains(f"(a) shuffled / input {words}", jobs, {_OURS: (31, 50)}, measure)
    for variation in (0.5, 2.5, 6.0):
        skewed = _traced(_WAVES, quick, f"variation={variation:g}")
        yield _gains(f"(b) inputs vary by up to {variation:g}", skewed, better)
    for error in (0.0, 0.5, 1.0):
        own = jobs.with_settings((("tetrium.estimate_error", f"{error:g}"),)) if error else jobs
        known = better if error else {_OURS: 42}
        yield _gains(f"(d) estimates off by up to {error:.0%}", jobs, known, own=own)
    for exponent in (0.0, 0.8, 1.6):
        for what, network in (("slots", _zipf_slots), ("bandwidth", _zipf_links)):
            unequal = replace(jobs, network=network(exponent))
            yield _gains(f"(e) {what}, Zipf {exponent:g}", unequal, better)


def _by_load(quick: bool, known: Mapping[str, Known], *options: str) -> Sequence[list[Line]]:
    return [_gains(load.name, _traced(load, quick, *options), known) for load in _LOADS]


def _figures(quick: bool) -> dict[str, Figure]:
    fewer = ("12 jobs instead of 50",) if quick else ()
    deployed = (*fewer, *_LOADS_WORDS)
    traced = (
        f"{24 if quick else 60} jobs of our own, as the trace is not public",
        f"every {_GRAIN} tasks are one, that much larger, on slots that much faster",
        *_LOADS_WORDS,
    )
    sweep = partial(figure, scaled=traced, base="In-Place")
    return {
        "fig5": figure("mean response time", "Fig. 5, section 6.2", _responses(quick), deployed),
        "fig6": figure(
            "mean slowdown, in times of a job alone under In-Place",
            "Fig. 6, section 6.2",
            _slowdowns(quick),
            deployed,
        ),
        "fig8": figure(
            "mean response time, and what each part is worth",
            "Fig. 8, section 6.3.1",
            _baselines(quick),
            traced,
        ),
        "fig9": sweep("order of tasks", "Fig. 9, section 6.3.1", _by_load(quick, _FIG_9)),
        "reverse": sweep(
            "forward, and the better of both ways",
            "Section 6.3.1",
            _by_load(quick, {_OURS: 42, "tetrium:reverse": 45}, *_KNOWN),
        ),
        "fig10": sweep("budget and fairness", "Fig. 10, sections 6.3.3 and 6.3.4", _budgets(quick)),
        "fig11": sweep("sites that lose capacity", "Fig. 11, section 6.3.2", _lost_capacity(quick)),
        "fig12": sweep("what the gain depends on", "Fig. 12, section 6.4", _sensitivity(quick)),
    }


PAPER = Paper(title="Tetrium (Hung et al., EuroSys 2018)", figures=_figures)
