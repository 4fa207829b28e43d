"""What each paper is known for: the numbers of ``docs/validation.md``.

Each is a line of a figure in ``papers``, found by its words; the published number stands there.
Open ``validation`` for what becomes of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from railyard.scripts.reproduce.figures import Figure, Line, Paper


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A published number."""

    figure: str  #: as ``railyard reproduce PAPER`` names it
    case: str
    subject: str  #: the scheduler, or the pair "corral + varys"
    measure: str  #: the measure's title
    why: str = ""  #: why ours is another, if it is

    def in_paper(self, paper: Paper) -> tuple[Figure, Line]:
        """Its figure and line; raises ``LookupError`` if the paper has no such line."""
        for quick in (False, True):
            figure = paper.figures[self.figure](quick)
            for line in figure.lines:
                words = line.case, line.subject, line.measure.title
                if words == (self.case, self.subject, self.measure) and line.published:
                    return figure, line
        raise LookupError(f"{paper.title} has no published number {self}")


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A published number that no figure has."""

    where: str  #: "Fig. 5, section 4.4"
    what: str
    published: str
    how: str  #: what has it instead, or why nothing does


def _corral(figure: str, case: str, measure: str, why: str = "") -> Headline:
    return Headline(figure=figure, case=case, subject="corral", measure=measure, why=why)


_CORRAL = (
    _corral("fig6", "W1", "makespan"),
    _corral("fig6", "W2", "makespan"),
    _corral("fig6", "W3", "makespan"),
    _corral("fig7", "W1", "cross-rack bytes"),
    _corral("fig7", "W2", "cross-rack bytes"),
    _corral("fig7", "W3", "cross-rack bytes"),
    _corral("fig7", "W1", "compute time"),
    _corral("fig7", "W1", "reduce time, median job"),
    _corral("fig8", "W1", "JCT median"),
    _corral("fig8", "W2", "JCT median"),
    _corral("fig8", "W3", "JCT median"),
    _corral("fig8", "W1", "JCT mean"),
    _corral("fig8", "W2", "JCT mean"),
    _corral("fig8", "W3", "JCT mean"),
    _corral("fig9", "small", "JCT mean"),
    _corral("fig9", "medium", "JCT mean"),
    _corral("fig9", "large", "JCT mean"),
    _corral("fig10", "queries", "query time median"),
    _corral("fig10", "queries", "query time mean"),
    _corral("fig11", "mix", "recurring, JCT mean"),
    _corral("fig11", "mix", "recurring, JCT median"),
    _corral("fig11", "mix", "ad hoc, JCT mean"),
    _corral("fig11", "mix", "ad hoc, JCT p90"),
    _corral("fig11", "mix", "ad hoc, makespan"),
    _corral("fig13", "sizes off up to 50 %", "makespan"),
    _corral("fig13", "50 % not on time", "JCT mean"),
    Headline(
        figure="fig14",
        case="against capacity + maxmin",
        subject="capacity + varys",
        measure="JCT median",
    ),
    Headline(
        figure="fig14",
        case="against capacity + varys",
        subject="corral + maxmin",
        measure="JCT median",
    ),
)


def _co_scheduler(figure: str, case: str, subject: str, *measures: str) -> tuple[Headline, ...]:
    return tuple(
        Headline(figure=figure, case=case, subject=subject, measure=measure) for measure in measures
    )


_TIMES = ("makespan", "JCT mean", "CCT mean")
_CO_SCHEDULER = (
    *_co_scheduler("fig5a", "against Fair", "co-scheduler", *_TIMES),
    *_co_scheduler("fig5a", "against Corral", "co-scheduler", *_TIMES),
    *_co_scheduler("fig5b", "", "fair", "on circuits"),
    *_co_scheduler("fig5b", "", "corral-fair", "on circuits"),
    *_co_scheduler("fig5b", "", "co-scheduler", "on circuits"),
    *_co_scheduler("fig7", "", "co-scheduler:dp+ocas", *_TIMES),
    *_co_scheduler("fig10", "50% wrong, against Fair", "co-scheduler", *_TIMES[:2]),
    *_co_scheduler("fig10", "50% wrong, against Corral", "co-scheduler", *_TIMES[:2]),
)

#: {paper: its headlines}, in the order of ``papers.PAPERS``
HEADLINES: dict[str, tuple[Headline, ...]] = {
    "co-scheduler": _CO_SCHEDULER,
    "corral": _CORRAL,
}

#: {paper: what ``railyard reproduce`` does not run}
ELSEWHERE: dict[str, tuple[Elsewhere, ...]] = {
    "corral": (
        Elsewhere(
            where="Fig. 5, section 4.4",
            what="time to plan 500 jobs on 100 racks",
            published="55 s",
            how="`scripts/bench planner`",
        ),
    )
}
