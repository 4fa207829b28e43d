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

from railyard.experiments.figures import Figure, Line, Paper, Setup, figure, lines
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
from railyard.runs.figures import TIME
from railyard.terminal.options import TextPairs

_METHODS = ("joint + afap", "delay + maxmin", "heft + maxmin", "delay + sjf", "heft + sjf")
_MEAN = plain("JCT mean", job_time_s("mean"), TIME)
_PARTS = tuple(
    plain(f"JCT {part}", job_time_s(part), TIME) for part in ("p25", "p50", "p75", "p90", "p99")
)
#: How near their limits servers and switches are, beside each figure.
_USED = (SLOTS_USED, ROOT_USED, AGGREGATION_USED)
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


def _jobs(
    quick: bool, *, gap_s: float = 15, network: TextPairs = (), edges: str = "trace"
) -> Setup:
    return Setup(
        workload=f"joint,jobs={30 if quick else 200},gap={gap_s:g}s,edges={edges}",
        topology="joint-16x6",
        scheduler="joint",
        network=network,
        scheduler_options=(("shuffle.slowstart", "1"),),
    )


def _methods(
    case: str, jobs: Setup, means_s: Sequence[float], beside: Sequence[Measure] = _USED
) -> list[Line]:
    """Each method's mean beside the paper's, and other measures."""
    means = zip(_METHODS, means_s, strict=True)
    measured = {name: {_MEAN: mean_s, **dict.fromkeys(beside)} for name, mean_s in means}
    return lines(case, jobs, measured)


def _switches(factor: float) -> TextPairs:
    if factor == 1:
        return ()
    return tuple((f"tree.{key}", f"{gbps * factor:g}Gbps") for key, gbps in _SWITCHES.items())


def _figures(quick: bool) -> dict[str, Figure]:
    fewer = ("30 jobs instead of 200",) if quick else ()
    scaled = (*fewer, "sizes of jobs are chosen, as the sampled trace is not public: see the code")
    jobs, table = _jobs(quick), partial(figure, scaled=scaled)

    def table_4(edges: str, few: Sequence[float]) -> Figure:
        """The switches' capacities, by one reading of the edges."""
        return table(
            f"capacity of the switches, edges={edges}",
            "Table 4, section V-B.2",
            [
                _methods(
                    f"x {factor:g}",
                    _jobs(quick, network=_switches(factor), edges=edges),
                    _TABLE_4[factor],
                )
                for factor in (few if quick else _TABLE_4)
            ],
        )

    return {
        "fig9": table(  # percentiles in place of the CDF
            "job completion time",
            "Fig. 9, section V-B",
            [_methods("", jobs, _TABLE_4[1], (*_PARTS, *_USED))],
        ),
        "fig10": table(
            "use of servers and switches",
            "Fig. 10, section V-B",
            [lines("", jobs, dict.fromkeys(_METHODS, (*_USED, COMPUTING, LINKS_USED)))],
        ),
        "table3": table(
            "gap between jobs",
            "Table 3, section V-B.1",
            [
                _methods(f"{gap_s} s apart", _jobs(quick, gap_s=gap_s), _TABLE_3[gap_s])
                for gap_s in ((9, 15, 30) if quick else _TABLE_3)
            ],
        ),
        "table4": table_4("trace", (0.5, 1, 3.5)),
        "table4-jobs": table_4("jobs", (1, 3.5)),
        "table4-all": table_4("all", (1, 3.5)),
        "table5": table(
            "number of servers",
            "Table 5, section V-B.3",
            [
                _methods(
                    f"{servers} servers",
                    _jobs(
                        quick,
                        network=() if servers == 96 else (("racks.nodes", f"{servers // 16:g}"),),
                    ),
                    _TABLE_5[servers],
                )
                for servers in ((48, 96, 288) if quick else _TABLE_5)
            ],
        ),
        "parts": table(
            "parts, and what is left open",
            "not in the paper",
            [
                lines(
                    "",
                    jobs,
                    dict.fromkeys(
                        (
                            *("joint + afap", "joint:no-virtual", "joint:no-aeap"),
                            *("joint + maxmin", "joint + sjf"),
                        ),
                        (_MEAN,),
                    ),
                ),
                lines(
                    "",
                    jobs.with_settings((("heft.prefetch", "true"),)),
                    {"heft + maxmin, prefetch": (_MEAN,), "heft + sjf, prefetch": (_MEAN,)},
                ),
                lines(
                    "",
                    jobs.with_settings((("shuffle.slowstart", "0.05"),)),
                    {"delay + sjf, reduces as in Hadoop": (_MEAN,)},
                ),
            ],
        ),
    }


PAPER = Paper(title="Joint (Yang et al., IEEE Access 2018)", figures=_figures, quick_seeds=1)
