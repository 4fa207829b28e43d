"""Shadow's experiments: Fig. 10, 12, 13, 15 to 17 and 19 to 23.

Source: Wu et al., "Shadow: Exploiting the Power of Choice for Efficient Shuffling in MapReduce",
IEEE Transactions on Big Data 2019, section 6.  The six applications one after the other on
``shadow-4x13``; copies of slow tasks are on for all, as there (5.1), or off for all.

Two inputs, as the paper does not say why its maps were skewed.  "two replicas" has two of each
block, as the paper, and eight times as many first ones in one rack as in another: a map then has a
choice of racks, and under ``delay`` the skew is about 1.4.  "one replica" has one of each block,
and twice as many in one rack as in another: skew is 2, as in Fig. 23, but each duplicate reads from
another rack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railyard.scripts.reproduce.figures import (
    BETTER,
    Figure,
    Line,
    Paper,
    Published,
    Setup,
    against,
    reported,
)
from railyard.scripts.reproduce.measures import (
    JCT_MEAN,
    Measure,
    Summary,
    coflow_time_s,
    of_jobs,
    plain,
    reduction,
)
from railyard.scripts.terminal.options import TextPairs

_OURS, _DELAY, _KMN, _EVEN = "shadow", "delay", "kmn", "even"
#: Table 2
_APPLICATIONS = (
    *("sequence-count", "wordcount", "rank-inv-idx"),
    *("kmeans", "self-join", "terasort"),
)
_QUICK_INPUT = "30GB"


@dataclass(frozen=True, kw_only=True)
class _Input:
    """How blocks lie."""

    name: str
    options: str
    replicas: int


_TWO = _Input(name="two replicas", options="skew_ratio=8", replicas=2)
_ONE = _Input(name="one replica", options="skew_ratio=2", replicas=1)
_INPUTS = (_TWO, _ONE)


def _job(
    data: _Input,
    quick: bool,
    *,
    app: str = "terasort",
    size: str = "",
    copies: bool = True,
    network: TextPairs = (),
) -> Setup:
    """One application."""
    wanted = size or (_QUICK_INPUT if quick else "120GB")
    settings = (
        ("delay.node_wait_s", "0"),
        ("shuffle.slowstart", "0.8"),
        ("speculation.on", "true" if copies else "false"),
    )
    return Setup(
        workload=f"shadow,app={app},input={wanted},{data.options}",
        topology="shadow-4x13",
        scheduler=_OURS,
        network=(("storage.replication", str(data.replicas)), *network),
        scheduler_options=settings,
    )


def _words(quick: bool) -> tuple[str, ...]:
    return (f"{_QUICK_INPUT} of input instead of 120 GB",) if quick else ()


# Measures ----------------------------------------------------------------------------------------
def _own(name: str, whose: str = _OURS) -> Measure:
    """A figure of the scheduler's own."""
    return plain(name, "", lambda run: _figure(run, whose, name), "{:.0f}".format)


def _figure(run: Summary, whose: str, name: str) -> float | None:
    found = run["figures"].get(whose, {}).get(name)
    return None if found is None else float(found)


def _share(run: Summary, whose: str, part: str, of: float | None) -> float | None:
    found = _figure(run, whose, part)
    return None if found is None or not of else 100.0 * found / of


def _maps(run: Summary) -> float:
    return float(sum(job["maps"] for job in run["jobs"]))


def _percent(value: float) -> str:
    return f"{value:.1f} %"


def _times(value: float) -> str:
    return f"{value:.2f}"


_SKEW_ITSELF = plain("skew", "", of_jobs("shuffle_skew", "mean"), _times)
_SKEW = reduction("skew", of_jobs("shuffle_skew", "mean"), _times)
_SHUFFLE = reduction("shuffle time", coflow_time_s("mean"), "{:.0f} s".format)
_LAUNCHED = plain(
    "duplicates, of the maps",
    "%",
    lambda run: _share(run, _OURS, "duplicates", _maps(run)),
    _percent,
)
_CHOSEN = plain(
    "chosen, of the duplicates",
    "%",
    lambda run: _share(run, _OURS, "duplicates_chosen", _figure(run, _OURS, "duplicates")),
    _percent,
)
_ERROR = plain(
    "error of predicted times",
    "%",
    lambda run: _share(run, _OURS, "prediction_error", 1.0),
    _percent,
)


def _alone(jobs: Setup, case: str, subject: str, measure: Measure, known: Published | None) -> Line:
    return Line(
        case=case,
        subject=subject,
        measure=measure,
        own=jobs.under(subject),
        base=None,
        published=known,
    )


def _gains(
    jobs: Setup,
    case: str,
    base: str = _DELAY,
    *,
    rivals: Sequence[str] = (_OURS,),
    measure: Measure = JCT_MEAN,
    published: Published | None = None,
) -> list[Line]:
    known = {(_OURS, measure.title): published} if published else {}
    return list(against(base, rivals, (measure,), case=case, jobs=jobs, published=known))


# Time (6.1) --------------------------------------------------------------------------------------
def figure_10(quick: bool) -> Figure:
    """Time of each application against delay."""
    known = dict.fromkeys(_APPLICATIONS, Published(least=0, most=26)) | {
        "sequence-count": reported(26)
    }
    lines = [
        line
        for data in _INPUTS
        for copies in (True, False)
        for app in _APPLICATIONS
        for line in _gains(
            _job(data, quick, app=app, copies=copies),
            f"{app}, {data.name}, {'with' if copies else 'without'} copies of slow tasks",
            published=known[app],
        )
    ]
    return _figure_of("job time against delay, mean 16.8 %", "Fig. 10, section 6.1", lines, quick)


def figure_12(quick: bool) -> Figure:
    """Time of each application against even."""
    lines = [
        line
        for data in _INPUTS
        for app in _APPLICATIONS
        for line in _gains(
            _job(data, quick, app=app),
            f"{app}, {data.name}",
            _EVEN,
            published=Published(least=0, most=16.4),
        )
    ]
    return _figure_of("job time against even", "Fig. 12, section 6.1", lines, quick)


def figure_13(quick: bool) -> Figure:
    """TeraSort on 3 to 9 racks; 52 nodes, as far as racks are equal."""
    lines: list[Line] = []
    for racks, nodes in ((3, 17), (4, 13), (5, 10), (7, 7), (9, 6)):
        network = (("racks.count", str(racks)), ("racks.nodes", str(nodes)))
        for data in _INPUTS:
            jobs = _job(data, quick, network=network)
            lines += _gains(
                jobs, f"{racks} racks, {data.name}", rivals=(_OURS, _EVEN), published=BETTER
            )
    return _figure_of("racks", "Fig. 13, section 6.1", lines, quick)


def figure_15(quick: bool) -> Figure:
    """TeraSort with 1 to 4 Gbps across racks."""
    lines: list[Line] = []
    for gbps, known in ((1, Published(least=20, most=30)), (2, BETTER), (4, reported(7))):
        network = (("links.uplink", f"{gbps}Gbps"),)
        for data in _INPUTS:
            jobs = _job(data, quick, network=network)
            lines += _gains(jobs, f"{gbps} Gbps, {data.name}", published=known)
    return _figure_of("bandwidth across racks", "Fig. 15, section 6.1", lines, quick)


# Duplicates (6.2) --------------------------------------------------------------------------------
def figure_16(quick: bool) -> Figure:
    """Duplicates launched and chosen, and how well their times were predicted."""
    lines = [
        _alone(_job(data, quick, app=app), f"{app}, {data.name}", _OURS, measure, known)
        for data in _INPUTS
        for app in _APPLICATIONS
        for measure, known in (
            (_LAUNCHED, Published(least=0, most=15)),
            (_CHOSEN, Published(least=85, most=100)),
            (_own("taken_early"), None),
            (_ERROR, reported(18.9)),
        )
    ]
    return _figure_of(
        "duplicates launched and chosen", "Fig. 16, 18 and 19, section 6.2", lines, quick
    )


def figure_17(quick: bool) -> Figure:
    """Duplicates by the size of the input."""
    lines = [
        _alone(_job(data, quick, size=f"{size}GB"), f"{size} GB, {data.name}", _OURS, *measured)
        for data in _INPUTS
        for size in ((30, 60) if quick else (30, 60, 90, 120, 160))
        for measured in (
            (_LAUNCHED, reported(4.4, 13)),
            (_CHOSEN, reported(75, 100)),
        )
    ]
    return _figure_of("duplicates by input size", "Fig. 17, section 6.2", lines, False)


# Skew (6.3) --------------------------------------------------------------------------------------
def figure_20(quick: bool) -> Figure:
    """Skew of the shuffle against delay's and KMN's."""
    lines: list[Line] = []
    for data in _INPUTS:
        for app in _APPLICATIONS:
            jobs = _job(data, quick, app=app)
            case = f"{app}, {data.name}"
            for base, percent in ((_DELAY, 49.8), (_KMN, 36.6)):
                lines += _gains(
                    jobs,
                    f"{case}, against {base}",
                    base,
                    measure=_SKEW,
                    published=reported(percent),
                )
    return _figure_of("skew", "Fig. 20, section 6.3", lines, quick)


def figure_22(quick: bool) -> Figure:
    """Extra tasks, and what each gains."""
    lines: list[Line] = []
    for data in _INPUTS:
        jobs = _job(data, quick)
        for rival in (_OURS, _KMN):
            lines += _gains(jobs, data.name, rivals=(rival,))
            lines.append(_alone(jobs, data.name, rival, _own("duplicates", rival), None))
    return _figure_of(
        "extra tasks and what they gain; published: up to 5.6 times KMN's gain for each",
        "Fig. 21 and 22, section 6.3",
        lines,
        quick,
    )


def figure_23(quick: bool) -> Figure:
    """Skew and time of TeraSort."""
    lines: list[Line] = []
    for data in _INPUTS:
        jobs = _job(data, quick)
        lines.append(_alone(jobs, data.name, _DELAY, _SKEW_ITSELF, reported(2.01)))
        lines.append(_alone(jobs, data.name, _OURS, _SKEW_ITSELF, reported(1.01)))
        lines += _gains(jobs, data.name, measure=_SHUFFLE, published=reported(45))
        lines += _gains(jobs, data.name, published=reported(18))
    return _figure_of("skew and time", "Fig. 23, section 6.3", lines, quick)


def _figure_of(title: str, where: str, lines: Sequence[Line], quick: bool) -> Figure:
    return Figure(title=title, where=where, lines=tuple(lines), scaled=_words(quick))


PAPER = Paper(
    title="Wu et al., IEEE Transactions on Big Data 2019",
    figures={
        "fig10": figure_10,
        "fig12": figure_12,
        "fig13": figure_13,
        "fig15": figure_15,
        "fig16": figure_16,
        "fig17": figure_17,
        "fig20": figure_20,
        "fig22": figure_22,
        "fig23": figure_23,
    },
    seeds=3,
    quick_seeds=2,
)
