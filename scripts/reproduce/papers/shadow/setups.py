"""What Shadow's experiments have in common: jobs, settings of the four schedulers, measures.

The six applications run on ``shadow-4x13``, far apart.  All schedulers have that topology's
settings: copies of slow tasks as in Hadoop 1 (5.1), reduces after 80 % of the maps, maps that wait
for racks only.  The maps' skew is what heartbeats make of it (``Liveness.assign_multiple``), with
two replicas of each block as HDFS places them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from railyard.cluster.units import format_digits, format_duration
from railyard.scripts.reproduce.figures import (
    Figure,
    Line,
    Published,
    Setup,
    against,
)
from railyard.scripts.reproduce.measures import (
    JCT_MEAN,
    Measure,
    Quantity,
    Summary,
    job_time_s,
    named,
    of_jobs,
    plain,
    reduction,
)
from railyard.scripts.terminal.options import TextPairs
from railyard.simulator.nodes.behaviour import Behaviour

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
