"""Tetrium's simulation: Fig. 8 to 12, and section 6.3.1.  50 sites, and jobs as in a trace."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from railyard.cluster.topology import load_topology
from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import (
    BETTER,
    Figure,
    Line,
    Published,
    PublishedBy,
    Setup,
    against,
    reported,
)
from railyard.scripts.reproduce.measures import (
    JCT_MEAN,
    JCT_P90,
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
from railyard.scripts.reproduce.papers.tetrium.setups import (
    IN_PLACE,
    LOADS,
    OURS,
    WAVES,
    Load,
    fifty_sites,
    traced,
    traced_words,
    use,
)
from railyard.scripts.terminal.options import TextPairs

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
