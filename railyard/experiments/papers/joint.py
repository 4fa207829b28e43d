"""Joint's experiments: Fig. 9 and 10, Tables 3, 4 and 5, and what its parts are worth.

Source: Yang et al., Joint Scheduling of Tasks and Network Flows in Big Data Clusters, IEEE Access
2018, section V.  Fair sharing of flows is ``maxmin`` here, SJF is ``sjf``.  The text repeats a
column of Table 4 in Table 5, at 336 servers, and contradicts it there: that one is left out.

Under the baselines a task is scheduled after all of its predecessors (section IV-C.2), so reduces
start after all maps (``shuffle.slowstart=1``); ``parts`` has Hadoop's way, too.  Left open there,
chosen here: whether HEFT's tasks hold their servers while they fetch (they do, and both ways in
``parts``); and the sizes of jobs, which are the workload's defaults
(``jobs/workloads/joint.py``, chosen with the paper's numbers in view).  Table 4 is there by
the other readings of the edges, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from railyard.cluster.units import format_duration
from railyard.experiments.figures import Figure, Line, Paper, Published, Setup, reported
from railyard.experiments.measures import (
    AGGREGATION_USED,
    COMPUTING,
    LINKS_USED,
    ROOT_USED,
    SLOTS_USED,
    Measure,
    job_time_s,
    plain,
)
from railyard.jobs.workloads.joint import Edges
from railyard.terminal.options import TextPairs

_JOINT = "joint + afap"
_METHODS = (_JOINT, "delay + maxmin", "heft + maxmin", "delay + sjf", "heft + sjf")
_MEAN = plain("JCT mean", "s", job_time_s("mean"), format_duration)
#: How near their limits servers and switches are, beside each figure.
_USED = (SLOTS_USED, ROOT_USED, AGGREGATION_USED)
_PARTS = ("p25", "p50", "p75", "p90", "p99")
#: Gbps of the switches, section V-A.
_SWITCHES = {"tor": 3.0, "aggregation": 2.0, "root": 2.0}

#: {value on the axis: mean times in seconds, in the order of ``_METHODS``}
_Table = Mapping[float, Sequence[float]]
_TABLE_3: _Table = {
    9: (92, 210, 191, 185, 171),
    12: (66, 190, 167, 163, 137),
    15: (48, 172, 152, 145, 106),
    18: (44.3, 154, 132, 125, 94),
    21: (40.5, 137, 114, 108, 81),
    24: (36, 120, 99, 92, 69),
    27: (32, 104, 85, 78, 58),
    30: (30, 91, 72, 66, 48),
}
_TABLE_4: _Table = {
    0.5: (74, 261, 239, 227, 163),
    1: (48, 172, 152, 145, 106),
    1.5: (40, 115, 103, 92, 79),
    2: (34, 71, 64, 63, 59),
    2.5: (29, 43, 41, 39, 37),
    3: (25, 32, 31, 29, 28),
    3.5: (20, 28, 26, 25, 23),
}
_TABLE_5: _Table = {
    48: (81, 265, 238, 226, 173),
    96: (48, 172, 152, 145, 106),
    144: (40, 141, 120, 115, 93),
    192: (34, 113, 100, 96, 85),
    240: (29, 90, 84, 80, 76),
    288: (25, 85, 79, 76, 73),
}


def _jobs(quick: bool, gap_s: float = 15, network: TextPairs = (), edges: Edges = "trace") -> Setup:
    count = 30 if quick else 200
    return Setup(
        workload=f"joint,jobs={count},gap={gap_s:g}s,edges={edges}",
        topology="joint-16x6",
        scheduler="joint",
        network=network,
        scheduler_options=(("shuffle.slowstart", "1"),),
    )


def _words(quick: bool) -> tuple[str, ...]:
    fewer = ("30 jobs instead of 200",) if quick else ()
    return (*fewer, "sizes of jobs are chosen, as the sampled trace is not public: see the code")


def _lines(
    jobs: Setup, case: str, measures: Sequence[Measure], published: Sequence[float] = ()
) -> list[Line]:
    """Each method's measures; ``published``: each method's mean."""
    known: dict[tuple[str, str], Published] = {
        (method, _MEAN.title): reported(mean_s)
        for method, mean_s in zip(_METHODS, published, strict=False)
    }
    return [
        Line(
            case=case,
            subject=method,
            measure=measure,
            own=jobs.under(method),
            base=None,
            published=known.get((method, measure.title)),
        )
        for method in _METHODS
        for measure in measures
    ]


def figure_9(quick: bool) -> Figure:
    """Completion times of jobs: the mean, and percentiles in place of the CDF."""
    parts = [plain(f"JCT {part}", "s", job_time_s(part), format_duration) for part in _PARTS]
    return Figure(
        title="job completion time",
        where="Fig. 9, section V-B",
        lines=tuple(_lines(_jobs(quick), "", (_MEAN, *parts, *_USED), _TABLE_4[1])),
        scaled=_words(quick),
    )


def figure_10(quick: bool) -> Figure:
    """How busy servers and switches are."""
    return Figure(
        title="use of servers and switches",
        where="Fig. 10, section V-B",
        lines=tuple(_lines(_jobs(quick), "", (*_USED, COMPUTING, LINKS_USED))),
        scaled=_words(quick),
    )


def table_3(quick: bool) -> Figure:
    """The gap between two jobs."""
    chosen = (9, 15, 30) if quick else tuple(_TABLE_3)
    lines = [
        line
        for gap_s in chosen
        for line in _lines(
            _jobs(quick, gap_s), f"{gap_s} s apart", (_MEAN, *_USED), _TABLE_3[gap_s]
        )
    ]
    return _of_table("gap between jobs", "Table 3, section V-B.1", lines, quick)


def table_4(quick: bool, edges: Edges = "trace") -> Figure:
    """The switches' capacities, by one reading of the edges."""
    few = (0.5, 1.0, 3.5) if edges == "trace" else (1.0, 3.5)
    chosen = few if quick else tuple(_TABLE_4)
    lines: list[Line] = []
    for factor in chosen:
        network = tuple(
            (f"tree.{key}", f"{gbps * factor:g}Gbps") for key, gbps in _SWITCHES.items()
        )
        jobs = _jobs(quick, network=network if factor != 1 else (), edges=edges)
        lines += _lines(jobs, f"x {factor:g}", (_MEAN, *_USED), _TABLE_4[factor])
    title = f"capacity of the switches, edges={edges}"
    return _of_table(title, "Table 4, section V-B.2", lines, quick)


def table_5(quick: bool) -> Figure:
    """The number of servers."""
    chosen = (48, 96, 288) if quick else tuple(_TABLE_5)
    lines: list[Line] = []
    for servers in chosen:
        network = (("racks.nodes", f"{servers // 16}"),) if servers != 96 else ()
        jobs = _jobs(quick, network=network)
        lines += _lines(jobs, f"{servers} servers", (_MEAN, *_USED), _TABLE_5[servers])
    return _of_table("number of servers", "Table 5, section V-B.3", lines, quick)


def parts(quick: bool) -> Figure:
    """What the parts are worth, and what the paper leaves open."""
    names = (_JOINT, "joint:no-virtual", "joint:no-aeap", "joint + maxmin", "joint + sjf")
    jobs = _jobs(quick)
    setups = [(name, jobs.under(name)) for name in names]
    before = (("heft.prefetch", "true"),)
    for flows in ("maxmin", "sjf"):
        name = f"heft + {flows}"
        setups.append((f"{name}, prefetch", jobs.with_settings(before).under(name)))
    early = (("shuffle.slowstart", "0.05"),)
    setups.append(
        ("delay + sjf, reduces as in Hadoop", jobs.with_settings(early).under("delay + sjf"))
    )
    lines = [
        Line(case="", subject=name, measure=_MEAN, own=setup, base=None) for name, setup in setups
    ]
    return _of_table("parts, and what is left open", "not in the paper", lines, quick)


def _of_table(title: str, where: str, lines: Sequence[Line], quick: bool) -> Figure:
    return Figure(title=title, where=where, lines=tuple(lines), scaled=_words(quick))


PAPER = Paper(
    title="Joint (Yang et al., IEEE Access 2018)",
    figures={
        "fig9": figure_9,
        "fig10": figure_10,
        "table3": table_3,
        "table4": table_4,
        "table4-jobs": partial(table_4, edges="jobs"),
        "table4-all": partial(table_4, edges="all"),
        "table5": table_5,
        "parts": parts,
    },
    quick_seeds=1,
)
