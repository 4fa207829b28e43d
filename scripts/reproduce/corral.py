"""Corral's experiments: Fig. 6 to 14.

Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
SIGCOMM 2015, section 6.  Yarn-CS is ``capacity``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.units import format_duration
from scripts.reproduce.figures import (
    BETTER,
    WORSE,
    Figure,
    Line,
    Paper,
    Setup,
    against,
    told,
)
from scripts.reproduce.measures import (
    COMPUTE_TIME,
    CROSS_RACK,
    JCT_MEAN,
    JCT_MEDIAN,
    MAKESPAN,
    of_jobs,
    reduction,
)
from scripts.reproduce.smaller import Coarser, fewer_jobs

_TESTBED = "corral-7x30"
_BASE = "capacity"
_RIVALS = ("corral", "local-shuffle", "shufflewatcher")
_COARSER = Coarser(topology=_TESTBED, tasks=4, machines=3)
_REDUCE_TIME = reduction("reduce time, median job", of_jobs("reduce_s", "p50"), format_duration)


@dataclass(frozen=True)
class _Jobs:
    """A workload of the testbed: how many jobs the paper has, and how many we run."""

    papers: int
    ours: int
    quick: int

    def count(self, quick: bool) -> int:
        return self.quick if quick else self.ours


_JOBS = {"w1": _Jobs(100, 40, 15), "w2": _Jobs(400, 400, 100), "w3": _Jobs(200, 60, 15)}


def _testbed(workload: str, options: str, quick: bool) -> Setup:
    jobs = _JOBS[workload].count(quick)
    return Setup(
        workload=f"corral-{workload},jobs={jobs},{options},grain={_COARSER.tasks}",
        topology=_TESTBED,
        scheduler=_BASE,
        network=_COARSER.network(),
    )


def _smaller(workloads: tuple[str, ...], quick: bool) -> tuple[str, ...]:
    words = [
        f"{name.upper()}: {text}"
        for name in workloads
        for text in fewer_jobs(_JOBS[name].count(quick), _JOBS[name].papers)
    ]
    return (*words, *_COARSER.words())


def figure_6(quick: bool) -> Figure:
    """Makespans of batches."""
    lines: list[Line] = []
    for name in _JOBS:
        published = {("corral", "makespan"): told(10, 33), ("shufflewatcher", "makespan"): WORSE}
        published["local-shuffle", "makespan"] = BETTER if name == "w1" else WORSE
        jobs = _testbed(name, "arrivals=batch", quick)
        lines += against(
            _BASE, _RIVALS, (MAKESPAN,), case=name.upper(), jobs=jobs, published=published
        )
    return Figure(
        title="makespan of a batch",
        where="Fig. 6, section 6.2.1",
        lines=tuple(lines),
        scaled=_smaller(tuple(_JOBS), quick),
        base="Yarn-CS (capacity)",
    )


def figure_7(quick: bool) -> Figure:
    """What else is different in batches."""
    lines: list[Line] = []
    for name in _JOBS:
        published = {
            ("corral", CROSS_RACK.title): told(20, 90),
            ("corral", COMPUTE_TIME.title): told(0, 20),
        }
        if name == "w1":
            published["corral", _REDUCE_TIME.title] = told(40)
        lines += against(
            _BASE,
            _RIVALS,
            (CROSS_RACK, COMPUTE_TIME, _REDUCE_TIME),
            case=name.upper(),
            jobs=_testbed(name, "arrivals=batch", quick),
            published=published,
        )
    return Figure(
        title="cross-rack bytes, compute hours and reduce time of a batch",
        where="Fig. 7, section 6.2.1",
        lines=tuple(lines),
        scaled=_smaller(tuple(_JOBS), quick),
        base="Yarn-CS (capacity)",
    )


def figure_8(quick: bool) -> Figure:
    """Job times online."""
    lines: list[Line] = []
    for name in _JOBS:
        lines += against(
            _BASE,
            _RIVALS,
            (JCT_MEDIAN, JCT_MEAN),
            case=name.upper(),
            jobs=_testbed(name, "arrivals=uniform", quick),
            published={
                ("corral", JCT_MEDIAN.title): told(30, 56),
                ("corral", JCT_MEAN.title): told(26, 36),
            },
        )
    return Figure(
        title="job completion time online",
        where="Fig. 8, section 6.2.2",
        lines=tuple(lines),
        scaled=_smaller(tuple(_JOBS), quick),
        base="Yarn-CS (capacity)",
    )


PAPER = Paper(
    title="Corral (Jalaparti et al., SIGCOMM 2015)",
    figures={"fig6": figure_6, "fig7": figure_7, "fig8": figure_8},
)
