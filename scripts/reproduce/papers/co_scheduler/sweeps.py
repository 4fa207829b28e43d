"""Fig. 7 to 10 of Co-scheduler's paper, the delay and the wavelengths of circuits: many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from railyard.scripts.reproduce.figures import (
    BETTER,
    WORSE,
    Figure,
    Line,
    Published,
    Setup,
    against,
    reported,
)
from railyard.scripts.reproduce.measures import CCT_MEAN, JCT_MEAN, MAKESPAN
from railyard.scripts.reproduce.papers.co_scheduler.setups import (
    BASES,
    CORRAL,
    FAIR,
    OURS,
    SHARE_ON_CIRCUITS,
    TIMES,
    coarse,
    coarse_words,
    number,
    with_network,
)

_SAME = reported(0)


def figure_7(quick: bool) -> Figure:
    """Co-scheduler without some of its parts."""
    part = "co-scheduler:dp+ocas"
    published = {
        (part, measure.title): reported(percent)
        for measure, percent in zip(TIMES, (16, 21, 25), strict=True)
    } | {(OURS, measure.title): BETTER for measure in TIMES}
    lines = against(
        "co-scheduler:ocas", (part, OURS), TIMES, case="", jobs=coarse(quick), published=published
    )
    return Figure(
        title="Co-scheduler's parts",
        where="Fig. 7, section V-C",
        lines=lines,
        scaled=coarse_words(quick),
        base="OCAS alone",
    )


def figure_8(quick: bool) -> Figure:
    """Oversubscription: each system against itself at 10:1, for which the paper has words only."""
    setup = coarse(quick)
    lines: list[Line] = []
    for ratio, change in ((3, BETTER), (5, BETTER), (20, WORSE)):
        other = with_network(setup, "oversubscription", str(ratio))
        changes = {FAIR: change, CORRAL: change, OURS: _SAME}
        lines += _against_itself(other, setup, f"{ratio}:1", changes)
    return Figure(
        title="oversubscription",
        where="Fig. 8, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
        base="the same scheduler at 10:1",
    )


def figure_9(quick: bool) -> Figure:
    """The share of jobs that recur, against Fair, to which it does not matter."""
    lines: list[Line] = []
    for share in (0.0, 0.5, 1.0):
        setup = coarse(quick, *(() if share == 0.5 else (f"recurring={share:g}",)))
        published = {(OURS, measure.title): BETTER for measure in TIMES}
        published |= {(CORRAL, measure.title): BETTER if share else _SAME for measure in TIMES}
        case = f"{share:.0%} recurring"
        lines += against(FAIR, (CORRAL, OURS), TIMES, case=case, jobs=setup, published=published)
    return Figure(
        title="recurring jobs",
        where="Fig. 9, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
        base="Fair",
    )


def figure_10(quick: bool) -> Figure:
    """Errors in the time that tasks are estimated to need still."""
    setup = coarse(quick)
    lines: list[Line] = []
    at_half = {FAIR: (43.0, 51.0), CORRAL: (18.0, 21.0)}
    measures = (MAKESPAN, JCT_MEAN)
    for error in (0.0, 0.25, 0.5):
        options = (("co-scheduler.remaining_error", f"{error:g}"),) if error else ()
        for base, percents in at_half.items():
            lines += against(
                base,
                (OURS,),
                measures,
                case=f"{error:.0%} wrong, against {BASES[base]}",
                jobs=setup,
                own=replace(setup, scheduler_options=options),
                published={
                    (OURS, measure.title): reported(percent)
                    for measure, percent in zip(measures, percents, strict=True)
                    if error == 0.5
                },
            )
    return Figure(
        title="errors of T_rem",
        where="Fig. 10, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
    )


def delta(quick: bool) -> Figure:
    """The reconfiguration delay; the paper has 10 ms only."""
    delays = ("10us", "1ms", "100ms")
    return _of_switch("delta", delays, "section II-B", "Co-scheduler at 10 ms", quick)


def wavelengths(quick: bool) -> Figure:
    """How many circuits a rack has at a time; the paper leaves it as future work."""
    return _of_switch("wavelengths", ("2", "4"), "section VI", "Co-scheduler with one", quick)


def _of_switch(key: str, values: Sequence[str], where: str, base: str, quick: bool) -> Figure:
    setup = coarse(quick)
    lines: list[Line] = []
    for value in values:
        other = with_network(setup, key, value)
        lines += _against_itself(other, setup, f"{key} {value}", {OURS: None})
        lines.append(number(SHARE_ON_CIRCUITS, OURS, other, f"{key} {value}"))
    return Figure(title=key, where=where, lines=tuple(lines), scaled=coarse_words(quick), base=base)


def _against_itself(
    own: Setup, base: Setup, case: str, published: Mapping[str, Published | None]
) -> list[Line]:
    lines: list[Line] = []
    for name, change in published.items():
        measures = (JCT_MEAN, CCT_MEAN)
        known = {(name, measure.title): change for measure in measures if change is not None}
        lines += against(name, (name,), measures, case=case, jobs=base, own=own, published=known)
    return lines
