"""Background traffic and wrong predictions: Fig. 12 and 13, section 6.5."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import Figure, Line, Published, Setup, against, reported
from railyard.scripts.reproduce.measures import JCT_MEAN, MAKESPAN, Measure
from railyard.scripts.reproduce.papers.corral.setups import (
    AGAINST,
    BASE,
    BATCH,
    CORRAL,
    W1,
    smaller,
)


# Sensitivity -------------------------------------------------------------------------------------
def figure_12(quick: bool) -> Figure:
    """Background traffic: "more than 2X" as it goes from 30 to 40 Gbps a rack."""
    lines: list[Line] = []
    for gbps, share in ((30, "0.5"), (35, "0.583"), (40, "0.667")):
        for words, measure in ((BATCH, MAKESPAN), (W1.online, JCT_MEAN)):
            jobs = W1.setup(quick, words)
            jobs = replace(jobs, network=(*jobs.network, ("background", share)))
            if gbps == 30:  # as it is otherwise: the same runs as other figures'
                jobs = W1.setup(quick, words)
            lines += against(BASE, CORRAL, (measure,), case=f"{gbps} Gbps", jobs=jobs)
    return Figure(
        title="background traffic, W1",
        where="Fig. 12, section 6.5 (40 Gbps: more than twice the gain at 30 Gbps)",
        lines=tuple(lines),
        scaled=smaller(quick, W1, online=True),
        base=AGAINST,
    )


def figure_13(quick: bool) -> Figure:
    """Predictions that are wrong."""
    batch, online = W1.setup(quick, BATCH), W1.setup(quick, W1.online)
    lines: list[Line] = []
    # An option "size_error" is the mean error, half of the most.  What is predicted is nothing to
    # Yarn-CS: the runs are those of the other figures.
    for most in (0, 25, 50):
        wrong = W1.setup(quick, BATCH, f"size_error={min(most / 200, 0.25):g}")
        case = f"sizes off up to {most} %"
        lines += _wrong(case, MAKESPAN, wrong, batch, reported(25, 35))
    late_by_s = W1.window_s / 15  # 4 min of an hour
    for share in (0, 25, 50):
        late = W1.setup(quick, W1.online, f"late={share / 100:g}", f"late_by={late_by_s:g}s")
        usual = online if share == 0 else late
        published = reported(40) if share == 0 else reported(25, 40)
        lines += _wrong(f"{share} % not on time", JCT_MEAN, usual, usual, published)
    return Figure(
        title="errors in predictions, W1",
        where="Fig. 13, section 6.5",
        lines=tuple(lines),
        scaled=(
            *smaller(quick, W1, online=True),
            f"jobs come up to {format_duration(late_by_s)} early or late, not 4 min",
        ),
        base=AGAINST,
    )


def _wrong(
    case: str, measure: Measure, own: Setup, base: Setup, published: Published
) -> tuple[Line, ...]:
    known = {("corral", measure.title): published}
    return against(BASE, CORRAL, (measure,), case=case, jobs=base, own=own, published=known)
