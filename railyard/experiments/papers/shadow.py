"""What Shadow's experiments have in common: jobs, settings of the four schedulers, measures.

The six applications run on ``shadow-4x13``, far apart.  All schedulers have that topology's
settings: copies of slow tasks as in Hadoop 1 (5.1), reduces after 80 % of the maps, maps that wait
for racks only.  The maps' skew is what heartbeats make of it (``Liveness.assign_multiple``), with
two replicas of each block as HDFS places them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from railyard.cluster.units import format_digits, format_duration
from railyard.experiments.figures import (
    BETTER,
    Figure,
    Line,
    Paper,
    Published,
    Setup,
    against,
    reported,
)
from railyard.experiments.measures import (
    JCT_MEAN,
    MAKESPAN,
    SLOTS_USED,
    Measure,
    Quantity,
    Summary,
    job_time_s,
    named,
    of_jobs,
    plain,
    reduction,
    show_percent,
)
from railyard.runs.traces import traces_folder
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs

OURS, DELAY, KMN, EVEN = "shadow", "delay", "kmn", "even"
#: Table 2
APPLICATIONS = (
    *("sequence-count", "wordcount", "rank-inv-idx"),
    *("kmeans", "self-join", "terasort"),
)
TERASORT = "terasort"


def setup(
    workload: str,
    *,
    network: TextPairs = (),
    settings: TextPairs = (),
    behaviour: Behaviour | None = None,
) -> Setup:
    """A run of Shadow's on its cluster, with changed settings of this and of the schedulers."""
    return Setup(
        workload=workload,
        topology="shadow-4x13",
        scheduler=OURS,
        network=network,
        scheduler_options=settings,
        behaviour=behaviour or Behaviour(),
    )


def input_of(quick: bool) -> str:
    """The input of an application."""
    return "60GB" if quick else "120GB"


def applications(quick: bool) -> Setup:
    """All six, one after the other."""
    return setup(f"shadow,input={input_of(quick)}")


def terasort(
    quick: bool,
    *options: str,
    size: str = "",
    network: TextPairs = (),
    settings: TextPairs = (),
    behaviour: Behaviour | None = None,
) -> Setup:
    """TeraSort alone."""
    words = ["shadow", f"app={TERASORT}", f"input={size or input_of(quick)}", *options]
    return setup(",".join(words), network=network, settings=settings, behaviour=behaviour)


def figure(title: str, where: str, lines: Sequence[Line], scaled: tuple[str, ...] = ()) -> Figure:
    """A figure; ``scaled``: how it differs from the paper's."""
    return Figure(title=title, where=where, lines=tuple(lines), scaled=scaled)


def words(quick: bool) -> tuple[str, ...]:
    """How quick versions differ from the paper's."""
    return (f"{input_of(True)} of input instead of {input_of(False)}",) if quick else ()


# Measures ----------------------------------------------------------------------------------------
def of_scheduler(run: Summary, whose: str, name: str) -> float | None:
    """A figure of a scheduler's own."""
    found = run["figures"].get(whose, {}).get(name)
    return None if found is None else float(found)


def share(run: Summary, whose: str, part: str, of: float | None) -> float | None:
    """Such a figure in % of something."""
    found = of_scheduler(run, whose, part)
    return None if found is None or not of else 100.0 * found / of


def maps(run: Summary) -> float:
    """The maps of all jobs."""
    return float(sum(job["maps"] for job in run["jobs"]))


def mean_over_jobs(
    title: str, quantity: Quantity, key: str, show: Callable[[float], str]
) -> Measure:
    """The mean over jobs of by how much less each one's ``key`` is than the baseline's, in %."""

    def of(own: Summary, base: Summary | None) -> float | None:
        if base is None:
            return None
        before = {job["name"]: job[key] for job in base["jobs"]}
        less = [100.0 * (1.0 - job[key] / before[job["name"]]) for job in own["jobs"]]
        return math.fsum(less) / len(less)

    return Measure(title, "%", of, quantity, show, lessens=True)


EACH_JOB = mean_over_jobs("job time, mean of each", job_time_s("mean"), "jct_s", format_duration)
SHUFFLE = reduction("shuffle time", of_jobs("cct_s", "mean"), format_duration)
SKEW = reduction("skew", of_jobs("shuffle_skew", "mean"), format_digits)
SKEW_ITSELF = plain("shuffle skew", "", of_jobs("shuffle_skew", "mean"), format_digits)


def job_time(app: str) -> Measure:
    """Less job time of one application."""
    return reduction("job time", job_time_s("mean", named(app)), format_duration)


def skew_of(app: str) -> Measure:
    """Less skew of one application's shuffle."""
    return reduction("skew", of_jobs("shuffle_skew", "mean", named(app)), format_digits)


# Lines -------------------------------------------------------------------------------------------
def alone(
    jobs: Setup, case: str, subject: str, measure: Measure, known: Published | None = None
) -> Line:
    """A number of one scheduler's run."""
    return Line(
        case=case,
        subject=subject,
        measure=measure,
        own=jobs.under(subject),
        base=None,
        published=known,
    )


def gains(
    jobs: Setup,
    case: str,
    base: str = DELAY,
    *,
    rivals: Sequence[str] = (OURS,),
    measure: Measure = JCT_MEAN,
    published: Published | None = None,
) -> list[Line]:
    """What schedulers take less than ``base``; the published number is Shadow's."""
    known = {(OURS, measure.title): published} if published else {}
    return list(against(base, rivals, (measure,), case=case, jobs=jobs, published=known))


# Job times: Fig. 10 to 15, section 6.1.


#: Of 600 machines, as the paper's.
_TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
#: Shuffles take 40 % of its jobs' time (Fig. 1): of the trace, three of four jobs shuffle nothing.
_SHUFFLE_MIN = "1MB"
_SLOTS, _BLOCK_MB = 780, 256
#: Below this share of ended jobs the ratio of two numbers of jobs says little.
_FEW = 0.2


def figure_10(quick: bool) -> Figure:
    """Time of each application against delay."""
    known = dict.fromkeys(APPLICATIONS, Published(least=0, most=26)) | {
        "sequence-count": reported(26)
    }
    jobs = applications(quick)
    lines = [
        line
        for app in APPLICATIONS
        for line in gains(jobs, app, measure=job_time(app), published=known[app])
    ]
    lines += gains(jobs, "mean of the six", measure=EACH_JOB, published=reported(16.8))
    return figure("job time against delay", "Fig. 10, section 6.1", lines, words(quick))


def figure_11(_: bool) -> Figure:
    """Jobs of Facebook's trace: makespan, when jobs are done, and throughput."""
    jobs = _facebook()
    lines = gains(jobs, "50 jobs", measure=MAKESPAN, published=reported(24))
    lines += gains(jobs, "50 jobs", measure=JCT_MEAN, published=BETTER)
    for part in ("p50", "p75", "p90"):
        measure = reduction(f"job time {part}", job_time_s(part), format_duration)
        lines += gains(jobs, "50 jobs", measure=measure)
    lines += gains(jobs, "50 jobs", measure=_THROUGHPUT, published=reported(36))
    lines.append(alone(jobs, "50 jobs", DELAY, SLOTS_USED))
    scaled = (f"the sample of the trace is ours, of jobs that shuffle {_SHUFFLE_MIN} or more",)
    return figure("jobs of Facebook's trace", "Fig. 11, section 6.1", lines, scaled)


def figure_12(quick: bool) -> Figure:
    """Time of each application against even."""
    jobs, known = applications(quick), Published(least=0, most=16.4)
    lines = [
        line
        for app in APPLICATIONS
        for line in gains(jobs, app, EVEN, measure=job_time(app), published=known)
    ]
    return figure("job time against even", "Fig. 12, section 6.1", lines, words(quick))


def figure_13(quick: bool) -> Figure:
    """TeraSort on 3 to 9 racks; 52 nodes, as far as racks are equal."""
    lines: list[Line] = []
    for racks, nodes in ((3, 17), (5, 10), (7, 7), (9, 6)):
        network = (("racks.count", str(racks)), ("racks.nodes", str(nodes)))
        jobs = terasort(quick, network=network)
        lines += gains(jobs, f"{racks} racks", rivals=(OURS, EVEN), published=BETTER)
    return figure("racks", "Fig. 13, section 6.1", lines, words(quick))


def figure_14(quick: bool) -> Figure:
    """TeraSort with maps for a quarter of the slots up to three waves of maps.

    100 % are all 780 slots; there, maps have 624 slots of their own.
    """
    lines: list[Line] = []
    one = Published(least=15, most=25)
    cases = [("25 %", 0.25, one), ("50 %", 0.5, one), ("75 %", 0.75, one)]
    cases.append(("two waves", 1.5, Published(least=0, most=10)))
    if not quick:
        cases.append(("three waves", 2.5, Published(least=0, most=10)))
    for case, share_of_slots, known in cases:
        size = f"{round(_SLOTS * share_of_slots) * _BLOCK_MB}MB"
        lines += gains(terasort(quick, size=size), case, published=known)
    scaled = ("slots are of one kind: 100 % are maps on all 780 of them",)
    return figure("share of the slots that maps take", "Fig. 14, section 6.1", lines, scaled)


def figure_15(quick: bool) -> Figure:
    """TeraSort with 1 to 4 Gbps across racks."""
    lines: list[Line] = []
    for gbps, known in ((1, Published(least=20, most=30)), (2, BETTER), (4, reported(7))):
        jobs = terasort(quick, network=(("links.uplink", f"{gbps}Gbps"),) if gbps != 2 else ())
        lines += gains(jobs, f"{gbps} Gbps", published=known)
        lines.append(alone(jobs, f"{gbps} Gbps", DELAY, SKEW_ITSELF))
    return figure("bandwidth across racks", "Fig. 15, section 6.1", lines, words(quick))


# -------------------------------------------------------------------------------------------------
def _facebook() -> Setup:
    return setup(f"shadow-facebook:{traces_folder() / _TRACE},shuffle_min={_SHUFFLE_MIN}")


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


_THROUGHPUT = Measure(
    "more jobs done, at best", "%", _more_jobs, job_time_s("mean"), format_duration
)


# Duplicates and skew: Fig. 16 to 23, sections 6.2 and 6.3.


def own(name: str, whose: str = OURS) -> Measure:
    """A figure of the scheduler's own."""
    return plain(name, "", lambda run: of_scheduler(run, whose, name), format_digits)


def _launched(whose: str) -> Measure:
    return plain(
        "duplicates, of the maps",
        "%",
        lambda run: share(run, whose, "duplicates", maps(run)),
        show_percent,
    )


def _chosen(whose: str) -> Measure:
    return plain(
        "chosen, of the duplicates",
        "%",
        lambda run: share(run, whose, "duplicates_chosen", of_scheduler(run, whose, "duplicates")),
        show_percent,
    )


def _before_t(run: Summary) -> float | None:
    """Of the chosen duplicates, those that needed no estimate, in %."""
    chosen = of_scheduler(run, OURS, "duplicates_chosen")
    early = [of_scheduler(run, OURS, name) or 0.0 for name in ("replaced", "taken_early")]
    return min(100.0, 100.0 * sum(early) / chosen) if chosen else None


LAUNCHED, CHOSEN = _launched(OURS), _chosen(OURS)
EARLY = plain("chosen before T, of the chosen", "%", _before_t, show_percent)
ERROR = plain(
    "error of predicted times",
    "%",
    lambda run: share(run, OURS, "prediction_error", 1.0),
    show_percent,
)


def figure_16(quick: bool) -> Figure:
    """Duplicates launched and chosen: those of all six applications."""
    jobs, case = applications(quick), "all six"
    lines = [
        alone(jobs, case, OURS, LAUNCHED, Published(least=0, most=15)),
        alone(jobs, case, OURS, CHOSEN, Published(least=85, most=100)),
        alone(jobs, case, OURS, EARLY),
        alone(jobs, case, OURS, own("replaced")),
    ]
    # Nothing is predicted while duplicates find their input in the light rack.
    racks = (("racks.count", "9"), ("racks.nodes", "6"), ("storage.replication", "1"))
    remote, case = terasort(quick, network=racks), "9 racks, one replica"
    lines.append(alone(remote, case, OURS, CHOSEN, Published(least=75, most=100)))
    lines.append(alone(remote, case, OURS, EARLY))
    lines.append(alone(remote, case, OURS, ERROR, reported(18.9)))
    title = "duplicates launched and chosen"
    return figure(title, "Fig. 16, 18 and 19, section 6.2", lines, words(quick))


def figure_17(quick: bool) -> Figure:
    """Duplicates by the size of the input."""
    sizes = (30, 60, 120) if quick else (30, 60, 90, 120, 160)
    lines: list[Line] = []
    for size in sizes:
        jobs, case = terasort(quick, size=f"{size}GB"), f"{size} GB"
        lines.append(alone(jobs, case, DELAY, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, LAUNCHED, Published(least=4.4, most=13)))
        lines.append(alone(jobs, case, OURS, CHOSEN, Published(least=75, most=100)))
        lines += gains(jobs, case)
    return figure("duplicates by input size", "Fig. 17, section 6.2", lines)


def figure_20(quick: bool) -> Figure:
    """Skew of the shuffle against delay's and KMN's."""
    jobs, lines = applications(quick), list[Line]()
    for base, known in ((DELAY, reported(49.8)), (KMN, reported(36.6))):
        for app in APPLICATIONS:
            case = f"{app}, against {base}"
            lines += gains(jobs, case, base, measure=skew_of(app), published=BETTER)
        lines += gains(jobs, f"mean, against {base}", base, measure=_EACH_SKEW, published=known)
    return figure("skew", "Fig. 20, section 6.3", lines, words(quick))


def figure_22(quick: bool) -> Figure:
    """Extra tasks, and what each gains."""
    jobs, lines = applications(quick), list[Line]()
    for rival in (OURS, KMN):
        lines += gains(jobs, "all six", rivals=(rival,), measure=EACH_JOB)
        lines.append(alone(jobs, "all six", rival, _launched(rival)))
        lines.append(alone(jobs, "all six", rival, _chosen(rival)))
    title = "extra tasks and what they gain; published: up to 5.6 times KMN's gain for each"
    return figure(title, "Fig. 21 and 22, section 6.3", lines, words(quick))


def figure_23(quick: bool) -> Figure:
    """Skew and time of TeraSort."""
    lines: list[Line] = []
    for size in ("60GB",) if quick else ("60GB", "120GB"):
        jobs = terasort(quick, size=size)
        lines.append(alone(jobs, size, DELAY, SKEW_ITSELF, reported(2.01)))
        lines.append(alone(jobs, size, OURS, SKEW_ITSELF, reported(1.01)))
        lines += gains(jobs, size, measure=SHUFFLE, published=reported(45))
        lines += gains(jobs, size, published=reported(18))
        lines += gains(jobs, size, measure=SKEW)
    return figure("skew and time", "Fig. 23, section 6.3", lines)


_EACH_SKEW = mean_over_jobs(
    "skew, mean of each", of_jobs("shuffle_skew", "mean"), "shuffle_skew", format_digits
)


# What the paper leaves open, varied one at a time: TeraSort against delay.


_ONE_REPLICA = (("storage.replication", "1"),)


def varied(quick: bool) -> Figure:
    """The input's skew, what is shuffled, Algorithm 1's threshold, stragglers, copies, output."""
    lines: list[Line] = []
    for case, jobs in _cases(quick):
        lines.append(alone(jobs, case, DELAY, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, LAUNCHED))
        lines += gains(jobs, case, measure=SHUFFLE)
        lines += gains(jobs, case)
    return figure("what the paper leaves open, varied", "beside the paper", lines, words(quick))


def _cases(quick: bool) -> list[tuple[str, Setup]]:
    found = [("as in Fig. 23", terasort(quick))]
    for ratio in ("1.5", "2", "3"):
        option = f"skew_ratio={ratio}"
        found.append((f"input {ratio} times as much in a rack", terasort(quick, option)))
    for ratio in ("1", "2"):
        jobs = terasort(quick, f"skew_ratio={ratio}", network=_ONE_REPLICA)
        found.append((f"one replica, input {ratio} times as much", jobs))
    found += [
        (f"shuffles {ratio} of its input", terasort(quick, f"shuffle={ratio}"))
        for ratio in ("0.5", "2", "3")
    ]
    for share in ("0.05", "0.3"):
        jobs = terasort(quick, settings=(("shadow.duplicates_max", share),))
        found.append((f"duplicates of at most {share} of the maps", jobs))
    slow = Behaviour(variance=0.3, stragglers=0.05)
    late = (("speculation.gap", "0"),)
    found += [
        ("stragglers, 5 % of the tasks", terasort(quick, behaviour=slow)),
        ("copies by LATE alone", terasort(quick, settings=late)),
        ("output with two replicas", terasort(quick, "output_replication=2")),
    ]
    return found


# Shadow's experiments: Fig. 10 to 23, and what the paper leaves open.
#
# Source: Wu et al., "Shadow: Exploiting the Power of Choice for Efficient Shuffling in MapReduce",
# IEEE Transactions on Big Data 2019, section 6.
#
# Not here: how Shadow works (``resourcemanager.schedulers.shadow``).  Open ``setups`` first.


PAPER = Paper(
    title="Wu et al., IEEE Transactions on Big Data 2019",
    figures={
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
        "fig13": figure_13,
        "fig14": figure_14,
        "fig15": figure_15,
        "fig16": figure_16,
        "fig17": figure_17,
        "fig20": figure_20,
        "fig22": figure_22,
        "fig23": figure_23,
        "varied": varied,
    },
    seeds=5,
    quick_seeds=3,
)
