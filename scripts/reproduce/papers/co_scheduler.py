"""Co-scheduler's experiments: Fig. 5 to 10, and the delta and W of its sections II and VI.

Source: Li and Shen, Co-Scheduler: A Coflow-Aware Data-Parallel Job Scheduler in Hybrid
Electrical/Optical Datacenter Networks, IEEE/ACM Transactions on Networking, 2022, section V.
All systems go with Sunflow, as there.
Left open there, chosen here: the trace (FB-2009, of as many machines as the paper has; FB-2010 is
of 3,000) and which of its jobs (each as likely).  ``assumptions`` has other choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railyard.cluster.units import format_duration
from railyard.jobs.workloads.traces.swim import HEAVY_BYTES
from railyard.scripts.reproduce.figures import (
    BETTER,
    WORSE,
    Figure,
    Line,
    Paper,
    Published,
    Setup,
    against,
    reported,
)
from railyard.scripts.reproduce.measures import (
    CCT_MEAN,
    JCT_MEAN,
    MAKESPAN,
    Job,
    Summary,
    but,
    job_time_s,
    moved_bytes,
    of_jobs,
    plain,
    reduction,
)
from railyard.scripts.reproduce.smaller import Coarser, fewer_jobs
from railyard.scripts.simulating.fetch import traces_folder

_TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
_OURS, _FAIR, _CORRAL = "co-scheduler", "fair", "corral"
_TIMES = (MAKESPAN, JCT_MEAN, CCT_MEAN)
_PAPERS_JOBS, _PAPERS_WINDOW_S = 1000, 5400
_SAME = reported(0)
_COARSER = Coarser(topology="co-scheduler-60x10", tasks=4)
#: Section V-B: what Co-scheduler takes off the baselines' makespan, mean JCT and mean CCT.
_REDUCTIONS = {_FAIR: (56.0, 61.0, 79.0), _CORRAL: (44.0, 43.0, 63.0)}
_ON_CIRCUITS = {_FAIR: 2.2, _CORRAL: 33.0, _OURS: 95.2}


def _is_heavy(job: Job) -> bool:
    """Shuffle-heavy: section II-B."""
    return int(job["shuffle_bytes"]) >= HEAVY_BYTES


def _share_on_circuits(run: Summary) -> float | None:
    """Of what shuffles send between racks; no other flow is an elephant."""
    crossing = sum(int(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])
    carried = moved_bytes("ocs")(run)
    return None if carried is None or not crossing else 100.0 * carried / crossing


SHARE_ON_CIRCUITS = plain("on circuits", "%", _share_on_circuits, lambda share: f"{share:.1f} %")


# Jobs --------------------------------------------------------------------------------------------
def _jobs(count: int, *options: str) -> Setup:
    """Jobs that come as densely as the paper's."""
    window_s = _PAPERS_WINDOW_S * count / _PAPERS_JOBS
    words = (f"jobs={count}", f"window={window_s:g}s", *options)
    return Setup(
        workload=f"co-scheduler:{traces_folder() / _TRACE},{','.join(words)}",
        topology="co-scheduler-60x10",
        scheduler=_OURS,
        flow_scheduler="sunflow",
    )


def _many(quick: bool) -> int:
    return 100 if quick else _PAPERS_JOBS


#: Jobs other than the paper's: see ``assumptions``.
_SHUFFLING = "shuffle_min=1B"
_FAST = "map_rate=500MB/s,reduce_rate=500MB/s"
_AT_ONCE = "arrivals=batch"
_BUSY = (_FAST, _SHUFFLING, _AT_ONCE)  #: they keep the network busy
_BUSY_WORDS = "jobs that all shuffle, come at once and compute 500 MB/s a slot: see assumptions"


def _few(quick: bool) -> int:
    """The number of jobs where there are many variants."""
    return 40 if quick else 120


def _coarse(quick: bool, *options: str) -> Setup:
    jobs = _jobs(_few(quick), f"grain={_COARSER.tasks}", *options)
    return replace(jobs, network=_COARSER.network())


def _busy(quick: bool, *options: str) -> Setup:
    return _coarse(quick, *_BUSY, *options)


def _busy_words(quick: bool) -> tuple[str, ...]:
    return (*fewer_jobs(_few(quick), _PAPERS_JOBS), _BUSY_WORDS, *_COARSER.words())


def _fewer_words(count: int) -> tuple[str, ...]:
    fewer = fewer_jobs(count, _PAPERS_JOBS)
    return (f"{fewer[0]}, as many a minute",) if fewer else ()


def _with_network(jobs: Setup, key: str, value: str) -> Setup:
    return replace(jobs, network=tuple({**dict(jobs.network), key: value}.items()))


# Figures -----------------------------------------------------------------------------------------
def figure_5a(quick: bool) -> Figure:
    """Makespan, mean JCT and mean CCT against both baselines."""
    jobs = _jobs(_many(quick))
    lines = [line for base in _REDUCTIONS for line in _reductions(base, jobs, f"against {base}")]
    return Figure(
        title="makespan, job and coflow completion times",
        where="Fig. 5(a), section V-B",
        lines=tuple(lines),
        scaled=_fewer_words(_many(quick)),
    )


def figure_5b(quick: bool) -> Figure:
    """The share of shuffled bytes that circuits carry."""
    jobs = _jobs(_many(quick))
    return Figure(
        title="share of shuffles on circuits",
        where="Fig. 5(b), section V-B",
        lines=tuple(
            _plain(each, jobs, "", reported(share)) for each, share in _ON_CIRCUITS.items()
        ),
        scaled=_fewer_words(_many(quick)),
    )


def figure_6(quick: bool) -> Figure:
    """Shuffle-heavy jobs and all others; the paper has no numbers, but all are improvements."""
    jobs = _jobs(_many(quick))
    lines: list[Line] = []
    for name, which in (("shuffle-heavy", _is_heavy), ("others", but(_is_heavy))):
        job_time = reduction("JCT mean", job_time_s("mean", which), format_duration)
        coflow_time = reduction("CCT mean", of_jobs("cct_s", "mean", which), format_duration)
        measures = (job_time, coflow_time)
        for base in _REDUCTIONS:
            better = {(_OURS, measure.title): BETTER for measure in measures}
            case = f"{name}, against {base}"
            lines += against(base, (_OURS,), measures, case=case, jobs=jobs, published=better)
    return Figure(
        title="shuffle-heavy jobs and others",
        where="Fig. 6, section V-B",
        lines=tuple(lines),
        scaled=_fewer_words(_many(quick)),
    )


def figure_7(quick: bool) -> Figure:
    """Co-scheduler without some of its parts."""
    part = "co-scheduler:dp+ocas"
    published = {
        (part, measure.title): reported(percent)
        for measure, percent in zip(_TIMES, (16, 21, 25), strict=True)
    } | {(_OURS, measure.title): BETTER for measure in _TIMES}
    ocas, rivals = "co-scheduler:ocas", (part, _OURS)
    lines: list[Line] = []
    cases = {
        "as published": _jobs(_many(quick)),
        "busy": _busy(quick),
        "busy, NICs of 40 Gbps": _with_network(_busy(quick), "links.nic", "40Gbps"),
    }
    for case, jobs in cases.items():
        lines += against(ocas, rivals, _TIMES, case=case, jobs=jobs, published=published)
    return Figure(
        title="Co-scheduler's parts",
        where="Fig. 7, section V-C",
        lines=tuple(lines),
        scaled=(*_fewer_words(_many(quick)), *(f"busy: {text}" for text in _busy_words(quick))),
        base="OCAS alone",
    )


def figure_8(quick: bool) -> Figure:
    """Oversubscription: each system against itself at 10:1, for which the paper has words only."""
    jobs = _busy(quick)
    lines: list[Line] = []
    for ratio, change in ((3, BETTER), (5, BETTER), (20, WORSE)):
        other = _with_network(jobs, "oversubscription", str(ratio))
        lines += _against_itself(
            other, jobs, f"{ratio}:1", {_FAIR: change, _CORRAL: change, _OURS: _SAME}
        )
    return Figure(
        title="oversubscription",
        where="Fig. 8, section V-D",
        lines=tuple(lines),
        scaled=_busy_words(quick),
        base="the same scheduler at 10:1",
    )


def figure_9(quick: bool) -> Figure:
    """The share of jobs that recur, against Fair, to which it does not matter."""
    lines: list[Line] = []
    for share in (0.0, 0.5, 1.0):
        jobs = _busy(quick, *(() if share == 0.5 else (f"recurring={share:g}",)))
        published = {(_OURS, measure.title): BETTER for measure in _TIMES}
        corrals = BETTER if share else _SAME
        published |= {(_CORRAL, measure.title): corrals for measure in _TIMES}
        lines += against(
            _FAIR,
            (_CORRAL, _OURS),
            _TIMES,
            case=f"{share:.0%} recurring",
            jobs=jobs,
            published=published,
        )
    return Figure(
        title="recurring jobs",
        where="Fig. 9, section V-D",
        lines=tuple(lines),
        scaled=_busy_words(quick),
        base="Fair",
    )


def figure_10(quick: bool) -> Figure:
    """Errors in the time that tasks are estimated to need still."""
    jobs = _busy(quick)
    lines: list[Line] = []
    titles = (MAKESPAN.title, JCT_MEAN.title)
    at_half = {_FAIR: (43.0, 51.0), _CORRAL: (18.0, 21.0)}
    for error in (0.0, 0.25, 0.5):
        options = (("co-scheduler.remaining_error", f"{error:g}"),) if error else ()
        for base, percents in at_half.items():
            numbers = zip(titles, percents, strict=True) if error == 0.5 else ()
            lines += against(
                base,
                (_OURS,),
                (MAKESPAN, JCT_MEAN),
                case=f"{error:.0%} wrong, against {base}",
                jobs=jobs,
                own=replace(jobs, scheduler_options=options),
                published={(_OURS, title): reported(percent) for title, percent in numbers},
            )
    return Figure(
        title="errors of T_rem",
        where="Fig. 10, section V-D",
        lines=tuple(lines),
        scaled=_busy_words(quick),
    )


def delta(quick: bool) -> Figure:
    """The reconfiguration delay; the paper has 10 ms only."""
    delays = ("10us", "1ms", "100ms")
    return _of_switch("delta", delays, "section II-B", "Co-scheduler at 10 ms", quick)


def wavelengths(quick: bool) -> Figure:
    """How many circuits a rack has at a time; the paper leaves it as future work."""
    return _of_switch("wavelengths", ("2", "4"), "section VI", "Co-scheduler with one", quick)


def assumptions(quick: bool) -> Figure:
    """What the paper leaves open, other than in the rest: one thing at a time, then together."""
    cases = {
        "as published": (),
        "at once": (_AT_ONCE,),
        "all shuffle": (_SHUFFLING,),
        "fast": (_FAST,),
        "fast, all shuffle": (_FAST, _SHUFFLING),
        "busy": _BUSY,
    }
    setups = {case: _coarse(quick, *options) for case, options in cases.items()}
    setups["busy, NICs of 40 Gbps"] = _with_network(_busy(quick), "links.nic", "40Gbps")
    lines: list[Line] = []
    for case, jobs in setups.items():
        for base in _REDUCTIONS:
            lines += _reductions(base, jobs, f"{case}, against {base}")
        lines += [_plain(name, jobs, case, reported(share)) for name, share in _ON_CIRCUITS.items()]
    busy = _busy(quick)
    bounded = replace(busy, scheduler_options=(("co-scheduler.shuffle_bound", "true"),))
    for base in _REDUCTIONS:
        lines += _reductions(base, busy, f"busy, eq. 2 for 10, against {base}", own=bounded)
    return Figure(
        title="other jobs than in the rest",
        where="section V-A",
        lines=tuple(lines),
        scaled=(
            *_fewer_words(_few(quick)),
            *_COARSER.words(),
            "at once: all jobs come at the beginning",
            "all shuffle: without the three of four jobs of the trace that shuffle nothing",
            "fast: a slot computes 500 MB/s instead of 50 MB/s",
            "busy: fast, all shuffle and at once",
            f"NICs of 40 Gbps: as {_COARSER.tasks} nodes have, one for each task that is one here",
            "eq. 2 for 10: recurring jobs' shuffles predicted by what the largest rack carries",
        ),
    )


def _reductions(base: str, jobs: Setup, case: str, own: Setup | None = None) -> tuple[Line, ...]:
    published = {
        (_OURS, measure.title): reported(percent)
        for measure, percent in zip(_TIMES, _REDUCTIONS[base], strict=True)
    }
    return against(base, (_OURS,), _TIMES, case=case, jobs=jobs, own=own, published=published)


def _of_switch(key: str, values: Sequence[str], where: str, base: str, quick: bool) -> Figure:
    jobs = _busy(quick)
    lines: list[Line] = []
    for value in values:
        other = _with_network(jobs, key, value)
        lines += _against_itself(other, jobs, f"{key} {value}", {_OURS: None})
        lines.append(_plain(_OURS, other, f"{key} {value}", None))
    return Figure(title=key, where=where, lines=tuple(lines), scaled=_busy_words(quick), base=base)


def _against_itself(
    own: Setup, base: Setup, case: str, published: dict[str, Published | None]
) -> list[Line]:
    lines: list[Line] = []
    for name, change in published.items():
        measures = (JCT_MEAN, CCT_MEAN)
        known = {(name, measure.title): change for measure in measures if change is not None}
        lines += against(name, (name,), measures, case=case, jobs=base, own=own, published=known)
    return lines


def _plain(scheduler: str, jobs: Setup, case: str, published: Published | None) -> Line:
    return Line(
        case=case,
        subject=scheduler,
        measure=SHARE_ON_CIRCUITS,
        own=jobs.under(scheduler),
        base=None,
        published=published,
    )


PAPER = Paper(
    title="Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022)",
    figures={
        "fig5a": figure_5a,
        "fig5b": figure_5b,
        "fig6": figure_6,
        "fig7": figure_7,
        "fig8": figure_8,
        "fig9": figure_9,
        "fig10": figure_10,
        "delta": delta,
        "wavelengths": wavelengths,
        "assumptions": assumptions,
    },
    seeds=2,
    quick_seeds=1,
)
