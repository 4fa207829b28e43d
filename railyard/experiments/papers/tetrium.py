"""What Tetrium's experiments run: its two loads, the jobs of both of its clusters, and 50 sites.

"as read" has what the paper says and what the workloads chose where it says nothing: there links
decide nearly alone, and slots are held by tasks that fetch.  In the paper slots do more than
bandwidth (6.4), so "waves" has slots that work at a twentieth of the rate and jobs that come
further apart: tasks queue for slots, in several waves, and links are free now and then.
In both, jobs of more stages are larger: the paper's order of jobs takes the number of stages left
"as a proxy for" the work that is left (4.1).
Left open there, chosen here: both loads' rates and gaps, for "waves" after three had been tried
on 8 sites, and how sizes follow stages, all with the paper's numbers in view:
docs/reproduce-tetrium.md.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from railyard.cluster.topology import load_topology
from railyard.cluster.units import format_duration
from railyard.experiments.figures import (
    BETTER,
    Figure,
    Line,
    Paper,
    Published,
    PublishedBy,
    Setup,
    against,
    reported,
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
    Summary,
    job_time_s,
    moved_bytes,
    plain,
    reduction,
    show_percent,
)
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs

OURS, IN_PLACE, IRIDIUM = "tetrium", "in-place", "iridium"
_USE = (SLOTS_USED, COMPUTING, LINKS_USED)
#: Of 6.3: "we simulate a 50-site setting"; these many tasks become one, on slots as much faster.
_GRAIN = 10
_TRACED_QUICK = 24  #: jobs


@dataclass(frozen=True, kw_only=True)
class Load:
    """How busy sites are."""

    name: str
    slower: float  #: slots work at the topology's rate by this
    gap_s: dict[int, float]  #: {number of sites: mean time between two jobs}
    slots_by: int = 1  #: of 50 sites, slots by this
    words: str = ""


_AS_READ = Load(name="as read", slower=1, gap_s={8: 10, 30: 10, 50: 10})
WAVES = Load(
    name="waves",
    slower=20,
    gap_s={8: 40, 30: 10, 50: 5},
    slots_by=50,
    words="waves: slots work at a twentieth of the rate; jobs come 40 s apart on 8 sites, 10 s on "
    "30, 5 s on 50, which have a fiftieth of the slots",
)
LOADS = (_AS_READ, WAVES)
_SIZES_WORDS = "jobs of more stages are larger, as their number is to stand for the work (4.1)"


# Jobs --------------------------------------------------------------------------------------------
def queries(kind: str, sites: int, load: Load, quick: bool) -> Setup:
    """The jobs of the deployment (6.2)."""
    count = 12 if quick else 50
    return Setup(
        workload=f"tetrium-{kind},jobs={count},sites={sites},gap={load.gap_s[sites]:g}s",
        topology=f"tetrium-{sites}",
        scheduler=OURS,
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


def traced(load: Load, quick: bool, *options: str) -> Setup:
    """The jobs of the simulation (6.3), in coarse tasks."""
    count = _TRACED_QUICK if quick else 60
    own = (f"jobs={count}", f"gap={load.gap_s[50]:g}s", f"grain={_GRAIN}")
    return Setup(
        workload=",".join(("tetrium", *own, *options)),
        topology="tetrium-50",
        scheduler=OURS,
        network=fifty_sites(load, {}),
        behaviour=Behaviour(progress_s=0),
    )


def fifty_sites(load: Load, slots: dict[str, float], links: TextPairs = ()) -> TextPairs:
    """The 50 sites: coarse slots, of a load; ``slots`` of each site, if not the topology's."""
    racks = load_topology("tetrium-50").rack_list()
    own = {rack.id: slots.get(rack.id, rack.nodes[0].slots) for rack in racks}
    return (
        *((f"rack.{rack}.slots", str(_coarse(number, load))) for rack, number in own.items()),
        ("storage.block", f"{100 * _GRAIN}MB"),
        *_rates(load.slower / _GRAIN),
        *links,
    )


def _coarse(slots: float, load: Load) -> int:
    return max(1, round(slots / load.slots_by / _GRAIN))


def queries_words(quick: bool) -> tuple[str, ...]:
    """How the deployment differs from the paper's."""
    fewer = ("12 jobs instead of 50",) if quick else ()
    return (*fewer, _SIZES_WORDS, WAVES.words)


def traced_words(quick: bool) -> tuple[str, ...]:
    """How the simulation differs from the paper's."""
    return (
        f"{_TRACED_QUICK if quick else 60} jobs of our own, as the trace is not public",
        f"every {_GRAIN} tasks are one, that much larger, on slots that much faster",
        _SIZES_WORDS,
        WAVES.words,
    )


# Lines -------------------------------------------------------------------------------------------
def use(jobs: Setup, case: str, rivals: Sequence[str]) -> list[Line]:
    """How busy slots and links are."""
    return [
        Line(case=case, subject=rival, measure=measure, own=jobs.under(rival), base=None)
        for rival in rivals
        for measure in _USE
    ]


# Tetrium's deployment (6.2): two kinds of queries on 8 and on 30 sites.
#
# Left open there, chosen here: a job's time alone (Fig. 6) is that under In-Place, from a run in
# which jobs come far apart.


def figure_5(quick: bool) -> Figure:
    """Response times of both kinds of queries on 8 and 30 sites."""
    lines: list[Line] = []
    for kind, sites, load, jobs in _deployments(quick):
        case = f"{kind}, {sites} sites, {load.name}"
        for base, most in ((IN_PLACE, 78), (IRIDIUM, 55)):
            known = {(OURS, JCT_MEAN.title): Published(least=0, most=most)}
            case_of = f"{case}, against {base}"
            lines += against(base, (OURS,), (JCT_MEAN,), case=case_of, jobs=jobs, published=known)
        lines += use(jobs, case, (IN_PLACE, IRIDIUM, OURS))
    return Figure(
        title="mean response time",
        where="Fig. 5, section 6.2",
        lines=tuple(lines),
        scaled=queries_words(quick),
    )


def figure_6(quick: bool) -> Figure:
    """Slowdowns: how many times as long as alone."""
    lines: list[Line] = []
    for kind, sites, load, jobs in _deployments(quick):
        own = dict(load.gap_s) | {sites: 20_000.0}
        apart = queries(kind, sites, replace(load, gap_s=own), quick).under(IN_PLACE)
        for base, most in ((IN_PLACE, 45), (IRIDIUM, 16)):
            known = {(OURS, SLOWDOWN.title): Published(least=0, most=most)}
            case = f"{kind}, {sites} sites, {load.name}, against {base}"
            found = against(base, (OURS,), (SLOWDOWN,), case=case, jobs=jobs, published=known)
            lines += [replace(line, alone=apart) for line in found]
    return Figure(
        title="mean slowdown, in times of a job alone under In-Place",
        where="Fig. 6, section 6.2",
        lines=tuple(lines),
        scaled=queries_words(quick),
    )


def _deployments(quick: bool) -> list[tuple[str, int, Load, Setup]]:
    return [
        (kind, sites, load, queries(kind, sites, load, quick))
        for load in LOADS
        for kind in ("tpcds", "bigdata")
        for sites in (8, 30)
    ]


# Tetrium's simulation: Fig. 8 to 12, and section 6.3.1.  50 sites, and jobs as in a trace.


_CENTRAL, _TETRIS = "centralized", "tetris"


def _gains(
    jobs: Setup,
    case: str,
    published: PublishedBy | None = None,
    *,
    rivals: Sequence[str] = (OURS,),
    own: Setup | None = None,
    measures: Sequence[Measure] = (JCT_MEAN,),
) -> list[Line]:
    """Against In-Place."""
    return list(
        against(IN_PLACE, rivals, measures, case=case, jobs=jobs, own=own, published=published)
    )


def _mean(percent: float) -> PublishedBy:
    return {(OURS, JCT_MEAN.title): reported(percent)}


#: {baseline: {contender: (what the paper has of the mean response time)}}
_FIG_8: dict[str, dict[str, Published]] = {
    IN_PLACE: {
        OURS: reported(42),
        "tetrium+fair-order": reported(26),
        "tetrium+iridium-tasks": Published(least=0, most=42),
        "tetrium+iridium-data": Published(least=0, most=42),
    },
    _CENTRAL: {OURS: reported(50), "tetrium+fair-order": reported(35)},
}


def figure_8(quick: bool) -> Figure:
    """Against all baselines, and Tetrium without some of its parts."""
    lines: list[Line] = []
    for load in LOADS:
        jobs = traced(load, quick, "recurring=1", "size_error=0")
        for base, rivals in _FIG_8.items():
            known = {(rival, JCT_MEAN.title): value for rival, value in rivals.items()}
            case = f"{load.name}, against {base}"
            lines += against(
                base, tuple(rivals), (JCT_MEAN,), case=case, jobs=jobs, published=known
            )
            nobody = {(OURS, SLOWED_DOWN.title): reported(0)}
            lines += against(base, (OURS,), (SLOWED_DOWN,), case=case, jobs=jobs, published=nobody)
        lines += against(
            _TETRIS,
            (OURS,),
            (JCT_MEAN, JCT_P90),
            case=f"{load.name}, against {_TETRIS}",
            jobs=jobs,
            published={
                (OURS, JCT_MEAN.title): reported(33),
                (OURS, JCT_P90.title): reported(47),
            },
        )
        lines += use(jobs, load.name, (*_FIG_8, OURS))
    return Figure(
        title="mean response time, and what each part is worth",
        where="Fig. 8, section 6.3.1",
        lines=tuple(lines),
        scaled=traced_words(quick),
    )


def figure_9(quick: bool) -> Figure:
    """In which order a stage's tasks start."""
    orders = {
        OURS: 42,
        "tetrium:random-reduces": 38,
        "tetrium:local-first": 32,
        "tetrium:local-first-random-reduces": 29,
    }
    known = {(name, JCT_MEAN.title): reported(percent) for name, percent in orders.items()}
    lines: list[Line] = []
    for load in LOADS:
        jobs = traced(load, quick)
        lines += _gains(jobs, load.name, known, rivals=tuple(orders))
    return _of_sweep("order of tasks", "Fig. 9, section 6.3.1", lines, quick)


def reverse(quick: bool) -> Figure:
    """The better of plans forward and in reverse; jobs are known beforehand."""
    known = {(OURS, JCT_MEAN.title): reported(42), (_BEST, JCT_MEAN.title): reported(45)}
    lines: list[Line] = []
    for load in LOADS:
        jobs = traced(load, quick, "recurring=1", "size_error=0")
        lines += _gains(jobs, load.name, known, rivals=(OURS, _BEST))
    return _of_sweep("forward, and the better of both ways", "Section 6.3.1", lines, quick)


_BEST = "tetrium:reverse"


def figure_10(quick: bool) -> Figure:
    """The budget of bytes between sites, and fairness."""
    time = {0.75: 40, 1.0: 42}
    saved = {0.0: reported(53), 0.75: reported(25), 1.0: Published(least=14, most=100)}
    fair = {0.0: 0, 0.6: 38, 1.0: 42}
    lines: list[Line] = []
    for load in LOADS:
        jobs = traced(load, quick)
        for rho in (0.0, 0.25, 0.5, 0.75, 1.0):
            known = _mean(time[rho]) if rho in time else {}
            known = {**known, **({(OURS, WAN.title): saved[rho]} if rho in saved else {})}
            own = jobs.with_settings((("tetrium.rho", f"{rho:g}"),)) if rho < 1 else jobs
            case = f"rho {rho:g}, {load.name}"
            lines += _gains(jobs, case, known, own=own, measures=(JCT_MEAN, WAN))
        lines.append(_maps_part(jobs, load))
        for epsilon in (0.0, 0.6, 1.0):
            changed = jobs.with_settings((("tetrium.epsilon", f"{epsilon:g}"),))
            own = changed if epsilon < 1 else jobs
            lines += _gains(
                jobs, f"epsilon {epsilon:g}, {load.name}", _mean(fair[epsilon]), own=own
            )
    return _of_sweep("budget and fairness", "Fig. 10, sections 6.3.3 and 6.3.4", lines, quick)


def _maps_part(jobs: Setup, load: Load) -> Line:
    measure = plain("of bytes between sites: maps'", "%", _sent_by_maps, show_percent)
    return Line(
        case=load.name,
        subject=OURS,
        measure=measure,
        own=jobs.under(OURS),
        base=None,
        published=reported(36),
    )


def _sent_by_maps(run: Summary) -> float | None:
    every = moved_bytes("wan")(run)
    shuffled = sum(float(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])
    return 100.0 * (1 - shuffled / every) if every else None


#: {drop in %: gains with k = 3, 5, 7, 10, 20, 50}
_K_SITES = (3, 5, 7, 10, 20, 50)
_FIG_11 = {
    10: (22, 35, 37, 38, 39, 39),
    20: (18, 29, 33, 34, 35, 35),
    30: (16, 25, 26, 26, 32, 34),
    40: (9, 19, 23, 25, 26, 30),
    50: (6, 15, 18, 20, 21, 24),
}
_DEGRADED = 5  #: sites


def figure_11(quick: bool) -> Figure:
    """Five sites lose slots and bandwidth, for good; at most k sites change for that."""
    lines: list[Line] = []
    for drop in (10, 30, 50) if quick else _FIG_11:
        jobs = replace(traced(WAVES, quick), faults=_drops(drop, WAVES.gap_s[50] * 16))
        for k_sites, percent in zip(_K_SITES, _FIG_11[drop], strict=True):
            if not quick or k_sites in (3, 7, 50):
                own = jobs.with_settings((("tetrium.k_sites", str(k_sites)),))
                lines += _gains(jobs, f"-{drop} %, k = {k_sites}", _mean(percent), own=own)
    return _of_sweep("sites that lose capacity", "Fig. 11, section 6.3.2", lines, quick)


def _drops(percent: int, at_s: float) -> str:
    """Faults: the same five sites, once a few jobs have come."""
    sites = random.Random("five sites").sample(range(50), _DEGRADED)
    left = f"{1 - percent / 100:g}@{at_s:g}s"
    return ",".join(
        f"slots:r{site}n0*{left},link:r{site}.up*{left},link:r{site}.down*{left}" for site in sites
    )


def figure_12(quick: bool) -> Figure:
    """How the gain depends on jobs, data, estimates and sites."""
    lines: list[Line] = []
    jobs = traced(WAVES, quick)
    for words, least, most in (("below .5", 0.0, 0.5), (".5 to 2", 0.5, 2), ("above 2", 2, 1e9)):
        measure = _of_ratio(least, most)
        known = {(OURS, measure.title): reported(31, 50)}
        lines += _gains(jobs, f"(a) shuffled / input {words}", known, measures=(measure,))
    for variation in (0.5, 2.5, 6.0):
        skewed = traced(WAVES, quick, f"variation={variation:g}")
        known = {(OURS, JCT_MEAN.title): BETTER}
        lines += _gains(skewed, f"(b) inputs vary by up to {variation:g}", known)
    for error in (0.0, 0.5, 1.0):
        changed = jobs.with_settings((("tetrium.estimate_error", f"{error:g}"),))
        known = {(OURS, JCT_MEAN.title): reported(42) if not error else BETTER}
        own = changed if error else jobs
        lines += _gains(jobs, f"(d) estimates off by up to {error:.0%}", known, own=own)
    for exponent in (0.0, 0.8, 1.6):
        known = {(OURS, JCT_MEAN.title): BETTER}
        for what, network in (("slots", _zipf_slots), ("bandwidth", _zipf_links)):
            unequal = replace(jobs, network=network(exponent))
            lines += _gains(unequal, f"(e) {what}, Zipf {exponent:g}", known)
    return _of_sweep("what the gain depends on", "Fig. 12, section 6.4", lines, quick)


def _of_ratio(least: float, most: float) -> Measure:
    """Mean time of the jobs that shuffle so much, in all stages, for each byte of input."""

    def which(job: Job) -> bool:
        return least <= float(job["shuffle_bytes"]) / float(job["input_bytes"]) < most

    return reduction("JCT mean, such jobs", job_time_s("mean", which), format_duration)


def _zipf(exponent: float) -> dict[str, float]:
    """Each site's share, in random order."""
    weights = [rank**-exponent for rank in range(1, 51)]
    random.Random("order of sites").shuffle(weights)
    return {f"r{site}": weight / sum(weights) for site, weight in enumerate(weights)}


def _zipf_slots(exponent: float) -> TextPairs:
    slots = load_topology("tetrium-50").slots
    return fifty_sites(WAVES, {rack: share * slots for rack, share in _zipf(exponent).items()})


def _zipf_links(exponent: float) -> TextPairs:
    """As much bandwidth in all as the topology has, the same up as down."""
    racks = load_topology("tetrium-50").rack_list()
    total = sum(rack.uplink_bytes_per_s for rack in racks)
    links = tuple(
        (f"rack.{rack}.{way}", f"{share * total:.0f}B/s")
        for rack, share in _zipf(exponent).items()
        for way in ("uplink", "downlink")
    )
    return fifty_sites(WAVES, {}, links)


def _of_sweep(title: str, where: str, lines: Sequence[Line], quick: bool) -> Figure:
    return Figure(
        title=title, where=where, lines=tuple(lines), scaled=traced_words(quick), base="In-Place"
    )


# Tetrium's experiments: Fig. 5, 6 and 8 to 12, and section 6.3.1.
#
# Source: Hung et al., Wide-Area Analytics with Multiple Resources, EuroSys 2018, section 6.
#
# Not here: Fig. 7, the time of decisions, which is ``scripts/bench placement``.
# Open ``setups`` first.


PAPER = Paper(
    title="Tetrium (Hung et al., EuroSys 2018)",
    figures={
        "fig5": figure_5,
        "fig6": figure_6,
        "fig8": figure_8,
        "fig9": figure_9,
        "reverse": reverse,
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
    },
)
