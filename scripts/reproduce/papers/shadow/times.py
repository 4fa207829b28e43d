"""Job times: Fig. 10 to 15, section 6.1."""

from __future__ import annotations

from bisect import bisect_right

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import BETTER, Figure, Line, Published, Setup, reported
from railyard.scripts.reproduce.measures import (
    JCT_MEAN,
    MAKESPAN,
    SLOTS_USED,
    Measure,
    Summary,
    job_time_s,
    reduction,
)
from railyard.scripts.reproduce.papers.shadow.setups import (
    APPLICATIONS,
    DELAY,
    EACH_JOB,
    EVEN,
    OURS,
    SKEW_ITSELF,
    alone,
    applications,
    figure,
    gains,
    job_time,
    setup,
    terasort,
    words,
)
from railyard.scripts.simulating.fetch import traces_folder

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
