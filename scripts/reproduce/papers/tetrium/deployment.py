"""Tetrium's deployment (6.2): two kinds of queries on 8 and on 30 sites.

Left open there, chosen here: a job's time alone (Fig. 6) is that under In-Place, from a run in
which jobs come far apart.
"""

from __future__ import annotations

from dataclasses import replace

from railyard.scripts.reproduce.figures import Figure, Line, Published, Setup, against
from railyard.scripts.reproduce.measures import JCT_MEAN, SLOWDOWN
from railyard.scripts.reproduce.papers.tetrium.setups import (
    IN_PLACE,
    IRIDIUM,
    LOADS,
    OURS,
    Load,
    queries,
    queries_words,
    use,
)


def figure_5(quick: bool) -> Figure:
    """Response times of both kinds of queries on 8 and 30 sites."""
    lines: list[Line] = []
    for kind, sites, load, jobs in _deployments(quick):
        case = f"{kind}, {sites} sites, {load.name}"
        for base, most in ((IN_PLACE, 78), (IRIDIUM, 55)):
            known = {(OURS, JCT_MEAN.title): Published(least=0, most=most)}
            case_of = f"{case}, against {base}"
            lines += against(base, (OURS,), (JCT_MEAN,), case=case_of, jobs=jobs, published=known)
        lines += use(jobs, case, (IN_PLACE, IRIDIUM, OURS))
    return Figure(
        title="mean response time",
        where="Fig. 5, section 6.2",
        lines=tuple(lines),
        scaled=queries_words(quick),
    )


def figure_6(quick: bool) -> Figure:
    """Slowdowns: how many times as long as alone."""
    lines: list[Line] = []
    for kind, sites, load, jobs in _deployments(quick):
        own = dict(load.gap_s) | {sites: 20_000.0}
        apart = queries(kind, sites, replace(load, gap_s=own), quick).under(IN_PLACE)
        for base, most in ((IN_PLACE, 45), (IRIDIUM, 16)):
            known = {(OURS, SLOWDOWN.title): Published(least=0, most=most)}
            case = f"{kind}, {sites} sites, {load.name}, against {base}"
            found = against(base, (OURS,), (SLOWDOWN,), case=case, jobs=jobs, published=known)
            lines += [replace(line, alone=apart) for line in found]
    return Figure(
        title="mean slowdown, in times of a job alone under In-Place",
        where="Fig. 6, section 6.2",
        lines=tuple(lines),
        scaled=queries_words(quick),
    )


def _deployments(quick: bool) -> list[tuple[str, int, Load, Setup]]:
    return [
        (kind, sites, load, queries(kind, sites, load, quick))
        for load in LOADS
        for kind in ("tpcds", "bigdata")
        for sites in (8, 30)
    ]
