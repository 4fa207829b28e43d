"""Fig. 5 and 6 of Co-scheduler's paper: the main table."""

from __future__ import annotations

from railyard.cluster.units import format_duration
from railyard.jobs.workloads.traces.swim import HEAVY_BYTES
from railyard.scripts.reproduce.figures import BETTER, Figure, Line, against, reported
from railyard.scripts.reproduce.measures import Job, but, job_time_s, of_jobs, reduction
from railyard.scripts.reproduce.papers.co_scheduler.setups import (
    BASES,
    EQUATION_10,
    ON_CIRCUITS,
    OURS,
    SHARE_ON_CIRCUITS,
    exact,
    exact_words,
    number,
    reductions,
)


def _is_heavy(job: Job) -> bool:
    """Shuffle-heavy: section II-B."""
    return int(job["shuffle_bytes"]) >= HEAVY_BYTES


def figure_5a(quick: bool) -> Figure:
    """Makespan, mean JCT and mean CCT against both baselines, and with equation 10 as printed."""
    setup = exact(quick)
    literally = setup.with_settings(EQUATION_10)
    lines: list[Line] = []
    for base, name in BASES.items():
        lines += reductions(base, setup, f"against {name}")
    if not quick:
        lines += reductions("corral", setup, "against Corral in queues")
    for base, name in BASES.items():
        lines += reductions(base, setup, f"eq. 10 as printed, against {name}", literally)
    return Figure(
        title="makespan, job and coflow completion times",
        where="Fig. 5(a), section V-B",
        lines=tuple(lines),
        scaled=exact_words(quick),
    )


def figure_5b(quick: bool) -> Figure:
    """The share of shuffled bytes that circuits carry."""
    setup = exact(quick)
    return Figure(
        title="share of shuffles on circuits",
        where="Fig. 5(b), section V-B",
        lines=tuple(
            number(SHARE_ON_CIRCUITS, each, setup, "", reported(share))
            for each, share in ON_CIRCUITS.items()
        ),
        scaled=exact_words(quick),
    )


def figure_6(quick: bool) -> Figure:
    """Shuffle-heavy jobs and all others; the paper has no numbers, but all are improvements."""
    setup = exact(quick)
    lines: list[Line] = []
    for name, which in (("shuffle-heavy", _is_heavy), ("others", but(_is_heavy))):
        job_time = reduction("JCT mean", job_time_s("mean", which), format_duration)
        coflow_time = reduction("CCT mean", of_jobs("cct_s", "mean", which), format_duration)
        measures = (job_time, coflow_time)
        for base, papers in BASES.items():
            better = {(OURS, measure.title): BETTER for measure in measures}
            case = f"{name}, against {papers}"
            lines += against(base, (OURS,), measures, case=case, jobs=setup, published=better)
    return Figure(
        title="shuffle-heavy jobs and others",
        where="Fig. 6, section V-B",
        lines=tuple(lines),
        scaled=exact_words(quick),
    )
