"""Shadow's experiments: Fig. 10 to 23, and what the paper leaves open.

Source: Wu et al., "Shadow: Exploiting the Power of Choice for Efficient Shuffling in MapReduce",
IEEE Transactions on Big Data 2019, section 6.

The six applications run on ``shadow-4x13``, far apart.  All schedulers have that topology's
settings: copies of slow tasks as in Hadoop 1 (5.1), reduces after 80 % of the maps, maps that wait
for racks only.  The maps' skew is what heartbeats make of it (``Liveness.assign_multiple``), with
two replicas of each block as HDFS places them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from railyard.experiments.figures import (
    BETTER,
    Figure,
    Known,
    Line,
    Paper,
    Published,
    Setup,
    figure,
    lines,
)
from railyard.experiments.measures import (
    JCT_MEAN,
    MAKESPAN,
    SHUFFLE_SKEW,
    SLOTS_USED,
    Measure,
    job_time_s,
    mean_reduction,
    named,
    of_jobs,
    plain,
    reduction,
)
from railyard.runs.figures import NUMBER, TIME, Summary
from railyard.runs.traces import traces_folder
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs

_OURS, _DELAY, _KMN, _EVEN = "shadow", "delay", "kmn", "even"
#: Table 2
_APPLICATIONS = (
    *("sequence-count", "wordcount", "rank-inv-idx"),
    *("kmeans", "self-join", "terasort"),
)
#: Of 600 machines, as the paper's.
_TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
#: Shuffles take 40 % of its jobs' time (Fig. 1): of the trace, three of four jobs shuffle nothing.
_SHUFFLE_MIN = "1MB"
_SLOTS, _BLOCK_MB = 780, 256
#: Below this share of ended jobs the ratio of two numbers of jobs says little.
_FEW = 0.2


def _setup(workload: str, *, network: TextPairs = ()) -> Setup:
    return Setup(workload=workload, topology="shadow-4x13", scheduler=_OURS, network=network)


def _terasort(size: str, *options: str, network: TextPairs = ()) -> Setup:
    """TeraSort alone."""
    return _setup(",".join(["shadow,app=terasort", f"input={size}", *options]), network=network)


def _racks(count: int, nodes: int) -> TextPairs:
    return (("racks.count", str(count)), ("racks.nodes", str(nodes)))


# Measures ----------------------------------------------------------------------------------------
def _own(run: Summary, whose: str, name: str) -> float | None:
    """A figure of a scheduler's own."""
    found = run["figures"].get(whose, {}).get(name)
    return None if found is None else float(found)


def _percent(part: float | None, of: float | None) -> float | None:
    return None if part is None or not of else 100.0 * part / of


def _launched(whose: str) -> Measure:
    def quantity(run: Summary) -> float | None:
        maps = float(sum(job["maps"] for job in run["jobs"]))
        return _percent(_own(run, whose, "duplicates"), maps)

    return plain("duplicates, of the maps", quantity)


def _chosen(whose: str) -> Measure:
    def quantity(run: Summary) -> float | None:
        return _percent(_own(run, whose, "duplicates_chosen"), _own(run, whose, "duplicates"))

    return plain("chosen, of the duplicates", quantity)


def _before_t(run: Summary) -> float | None:
    """Of the chosen duplicates, those that needed no estimate, in %."""
    chosen = _own(run, _OURS, "duplicates_chosen")
    early = [_own(run, _OURS, name) or 0.0 for name in ("replaced", "taken_early")]
    return min(100.0, 100.0 * sum(early) / chosen) if chosen else None


def _more_jobs(own: Summary, base: Summary | None) -> float | None:
    """By how much more jobs are done at some time than under the baseline, at best, in %."""
    if base is None:
        return None
    mine, other = _ends_s(own), _ends_s(base)
    begin_s = other[int(_FEW * len(other))]
    times_s = [at_s for at_s in (*mine, *other) if at_s >= begin_s]
    return 100.0 * max(
        bisect_right(mine, at_s) / bisect_right(other, at_s) - 1.0 for at_s in times_s
    )


def _ends_s(run: Summary) -> list[float]:
    return sorted(float(job["finished_s"]) for job in run["jobs"])


_LAUNCHED, _CHOSEN = _launched(_OURS), _chosen(_OURS)
_EARLY = plain("chosen before T, of the chosen", _before_t)
_ERROR = plain(
    "error of predicted times", lambda run: _percent(_own(run, _OURS, "prediction_error"), 1.0)
)
_REPLACED = plain("replaced", lambda run: _own(run, _OURS, "replaced"), NUMBER)
_THROUGHPUT = Measure("more jobs done, at best", "%", _more_jobs, job_time_s("mean"), TIME)
_EACH_JOB = mean_reduction("job time, mean of each", "jct_s", job_time_s("mean"))
_SHUFFLE = reduction("shuffle time", of_jobs("cct_s", "mean"))
_SKEW = reduction("skew", of_jobs("shuffle_skew", "mean"), NUMBER)
_EACH_SKEW = mean_reduction(
    "skew, mean of each", "shuffle_skew", of_jobs("shuffle_skew", "mean"), NUMBER
)


def _job_time(app: str) -> Measure:
    return reduction("job time", job_time_s("mean", named(app)))


def _skew_of(app: str) -> Measure:
    return reduction("skew", of_jobs("shuffle_skew", "mean", named(app)), NUMBER)


# Figures -----------------------------------------------------------------------------------------
def _gain(
    case: str, jobs: Setup, measure: Measure, known: Known = None, base: str = _DELAY
) -> list[Line]:
    """What Shadow takes less than ``base``."""
    return lines(case, jobs, {_OURS: {measure: known}}, base=base)


def _sizes(quick: bool) -> Iterator[list[Line]]:
    """Duplicates by the size of the input."""
    for size in (30, 60, 120) if quick else (30, 60, 90, 120, 160):
        jobs, case = _terasort(f"{size}GB"), f"{size} GB"
        yield lines(case, jobs, {_DELAY: (SHUFFLE_SKEW,)})
        yield lines(case, jobs, {_OURS: {_LAUNCHED: (4.4, 13), _CHOSEN: (75, 100)}})
        yield _gain(case, jobs, JCT_MEAN)


def _varied(size: str) -> Iterator[tuple[str, Setup]]:
    """What the paper leaves open, one at a time."""
    jobs, one_replica = _terasort(size), (("storage.replication", "1"),)
    yield "as in Fig. 23", jobs
    for ratio in ("1.5", "2", "3"):
        yield f"input {ratio} times as much in a rack", _terasort(size, f"skew_ratio={ratio}")
    for ratio in ("1", "2"):
        case = f"one replica, input {ratio} times as much"
        yield case, _terasort(size, f"skew_ratio={ratio}", network=one_replica)
    for ratio in ("0.5", "2", "3"):
        yield f"shuffles {ratio} of its input", _terasort(size, f"shuffle={ratio}")
    for share in ("0.05", "0.3"):
        own = jobs.with_settings((("shadow.duplicates_max", share),))
        yield f"duplicates of at most {share} of the maps", own
    slow = Behaviour(variance=0.3, stragglers=0.05)
    yield "stragglers, 5 % of the tasks", replace(jobs, behaviour=slow)
    yield "copies by LATE alone", jobs.with_settings((("speculation.gap", "0"),))
    yield "output with two replicas", _terasort(size, "output_replication=2")


def _figures(quick: bool) -> dict[str, Figure]:
    size = "60GB" if quick else "120GB"
    scaled = ("60GB of input instead of 120GB",) if quick else ()
    six, alone = _setup(f"shadow,input={size}"), _terasort(size)
    facebook = _setup(f"shadow-facebook:{traces_folder() / _TRACE},shuffle_min={_SHUFFLE_MIN}")
    # Nothing is predicted while duplicates find their input in the light rack.
    remote = _terasort(size, network=(*_racks(9, 6), ("storage.replication", "1")))
    smaller = partial(figure, scaled=scaled)
    return {
        "fig10": smaller(
            "job time against delay",
            "Fig. 10, section 6.1",
            [
                *(
                    _gain(app, six, _job_time(app), 26 if app == "sequence-count" else (0, 26))
                    for app in _APPLICATIONS
                ),
                _gain("mean of the six", six, _EACH_JOB, 16.8),
            ],
        ),
        "fig11": figure(
            "jobs of Facebook's trace",
            "Fig. 11, section 6.1",
            [
                _gain("50 jobs", facebook, MAKESPAN, 24),
                _gain("50 jobs", facebook, JCT_MEAN, BETTER),
                *(
                    _gain("50 jobs", facebook, reduction(f"job time {part}", job_time_s(part)))
                    for part in ("p50", "p75", "p90")
                ),
                _gain("50 jobs", facebook, _THROUGHPUT, 36),
                lines("50 jobs", facebook, {_DELAY: (SLOTS_USED,)}),
            ],
            (f"the sample of the trace is ours, of jobs that shuffle {_SHUFFLE_MIN} or more",),
        ),
        "fig12": smaller(
            "job time against even",
            "Fig. 12, section 6.1",
            [_gain(app, six, _job_time(app), (0, 16.4), _EVEN) for app in _APPLICATIONS],
        ),
        "fig13": smaller(  # 52 nodes, as far as racks are equal
            "racks",
            "Fig. 13, section 6.1",
            [
                lines(
                    f"{racks} racks",
                    _terasort(size, network=_racks(racks, nodes)),
                    {_OURS: {JCT_MEAN: BETTER}, _EVEN: (JCT_MEAN,)},
                    base=_DELAY,
                )
                for racks, nodes in ((3, 17), (5, 10), (7, 7), (9, 6))
            ],
        ),
        "fig14": figure(  # 100 % are all 780 slots; there, maps have 624 slots of their own
            "share of the slots that maps take",
            "Fig. 14, section 6.1",
            [
                _gain(case, _terasort(f"{round(_SLOTS * waves) * _BLOCK_MB}MB"), JCT_MEAN, known)
                for case, waves, known in (
                    ("25 %", 0.25, (15, 25)),
                    ("50 %", 0.5, (15, 25)),
                    ("75 %", 0.75, (15, 25)),
                    ("two waves", 1.5, (0, 10)),
                    *(() if quick else (("three waves", 2.5, (0, 10)),)),
                )
            ],
            ("slots are of one kind: 100 % are maps on all 780 of them",),
        ),
        "fig15": smaller(
            "bandwidth across racks",
            "Fig. 15, section 6.1",
            [
                group
                for gbps, known in ((1, Published(20, 30)), (2, BETTER), (4, Published(7, 7)))
                for jobs in [
                    alone.with_network(() if gbps == 2 else (("links.uplink", f"{gbps}Gbps"),))
                ]
                for group in (
                    _gain(f"{gbps} Gbps", jobs, JCT_MEAN, known),
                    lines(f"{gbps} Gbps", jobs, {_DELAY: (SHUFFLE_SKEW,)}),
                )
            ],
        ),
        "fig16": smaller(
            "duplicates launched and chosen",
            "Fig. 16, 18 and 19, section 6.2",
            [
                lines(
                    "all six",
                    six,
                    {
                        _OURS: {
                            _LAUNCHED: (0, 15),
                            _CHOSEN: (85, 100),
                            _EARLY: None,
                            _REPLACED: None,
                        }
                    },
                ),
                lines(
                    "9 racks, one replica",
                    remote,
                    {_OURS: {_CHOSEN: (75, 100), _EARLY: None, _ERROR: 18.9}},
                ),
            ],
        ),
        "fig17": figure("duplicates by input size", "Fig. 17, section 6.2", _sizes(quick)),
        "fig20": smaller(
            "skew",
            "Fig. 20, section 6.3",
            [
                group
                for base, known in ((_DELAY, 49.8), (_KMN, 36.6))
                for group in (
                    *(
                        _gain(f"{app}, against {base}", six, _skew_of(app), BETTER, base)
                        for app in _APPLICATIONS
                    ),
                    _gain(f"mean, against {base}", six, _EACH_SKEW, known, base),
                )
            ],
        ),
        "fig22": smaller(
            "extra tasks and what they gain; published: up to 5.6 times KMN's gain for each",
            "Fig. 21 and 22, section 6.3",
            [
                group
                for rival in (_OURS, _KMN)
                for group in (
                    lines("all six", six, {rival: (_EACH_JOB,)}, base=_DELAY),
                    lines("all six", six, {rival: (_launched(rival), _chosen(rival))}),
                )
            ],
        ),
        "fig23": figure(
            "skew and time",
            "Fig. 23, section 6.3",
            [
                group
                for input_size in (("60GB",) if quick else ("60GB", "120GB"))
                for jobs in [_terasort(input_size)]
                for group in (
                    lines(
                        input_size,
                        jobs,
                        {_DELAY: {SHUFFLE_SKEW: 2.01}, _OURS: {SHUFFLE_SKEW: 1.01}},
                    ),
                    lines(
                        input_size,
                        jobs,
                        {_OURS: {_SHUFFLE: 45, JCT_MEAN: 18, _SKEW: None}},
                        base=_DELAY,
                    ),
                )
            ],
        ),
        "varied": smaller(
            "what the paper leaves open, varied",
            "beside the paper",
            [
                group
                for case, jobs in _varied(size)
                for group in (
                    lines(case, jobs, {_DELAY: (SHUFFLE_SKEW,)}),
                    lines(case, jobs, {_OURS: (SHUFFLE_SKEW, _LAUNCHED)}),
                    lines(case, jobs, {_OURS: (_SHUFFLE, JCT_MEAN)}, base=_DELAY),
                )
            ],
        ),
    }


PAPER = Paper(
    title="Wu et al., IEEE Transactions on Big Data 2019", figures=_figures, seeds=5, quick_seeds=3
)
