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


def _of(subject: str, figure: str, measure: str, *cases: str, why: str = "") -> list[Headline]:
    return [
        Headline(figure=figure, case=case, subject=subject, measure=measure, why=why)
        for case in cases
    ]


_TIMES = ("makespan", "JCT mean", "CCT mean")
_WORKLOADS = ("W1", "W2", "W3")

_ONE_SEED = (
    "one seed, and merged tasks give every scheduler more circuits than it has exactly "
    "([the other figures](reproduce-co-scheduler.md#the-other-figures))"
)
_CO_SCHEDULER = (
    *(line for of in _TIMES for line in _of("co-scheduler", "fig5a", of, "against Fair")),
    *(line for of in _TIMES for line in _of("co-scheduler", "fig5a", of, "against Corral")),
    *_of("fair", "fig5b", "on circuits", ""),
    *_of("corral-fair", "fig5b", "on circuits", ""),
    *_of("co-scheduler", "fig5b", "on circuits", ""),
    *(line for of in _TIMES for line in _of("co-scheduler:dp+ocas", "fig7", of, "", why=_ONE_SEED)),
    *_of("corral-fair", "fig9", "JCT mean", "0% recurring"),
    *_of("co-scheduler", "fig10", "makespan", "50% wrong, against Fair"),
    *_of("co-scheduler", "fig10", "JCT mean", "50% wrong, against Fair"),
)

_ONE_RACK = (
    "a large job has one rack to itself ([what does not hold](reproduce.md#what-does-not-hold))"
)
_AHEAD = (
    "ad hoc jobs come first and are served first under both "
    "([what does not hold](reproduce.md#what-does-not-hold))"
)
_CORRAL = (
    *_of("corral", "fig6", "makespan", *_WORKLOADS),
    *_of("corral", "fig7", "cross-rack bytes", *_WORKLOADS),
    *_of("corral", "fig7", "compute time", *_WORKLOADS),
    *_of("corral", "fig7", "reduce time, median job", "W1"),
    *_of("corral", "fig8", "JCT median", *_WORKLOADS),
    *_of("corral", "fig8", "JCT mean", *_WORKLOADS),
    *_of("corral", "fig9", "JCT mean", "small", "medium"),
    *_of("corral", "fig9", "JCT mean", "large", why=_ONE_RACK),
    *_of("corral", "fig10", "query time median", "queries"),
    *_of("corral", "fig10", "query time mean", "queries"),
    *_of("corral", "fig11", "recurring, JCT mean", "mix"),
    *_of("corral", "fig11", "recurring, JCT median", "mix"),
    *_of("corral", "fig11", "ad hoc, JCT mean", "mix", why=_AHEAD),
    *_of("corral", "fig11", "ad hoc, JCT p90", "mix", why=_AHEAD),
    *_of("corral", "fig11", "ad hoc, makespan", "mix", why=_AHEAD),
    *_of("corral", "fig13", "makespan", "sizes off up to 50 %"),
    *_of("corral", "fig13", "JCT mean", "50 % not on time"),
    *_of("capacity + varys", "fig14", "JCT median", "against capacity + maxmin"),
    *_of("corral + maxmin", "fig14", "JCT median", "against capacity + varys"),
)

_TASKS_ALONE = (
    "our tasks alone take 13 s each, and a job has two stages "
    "([what does not hold](reproduce-joint.md#what-does-not-hold-and-why))"
)
_LOADED = (
    "with jobs 9 s apart instead of 15 it takes 123 to 132 s: the load of the paper's was higher "
    "([Table 3](reproduce-joint.md#the-tables-mean-times-in-seconds))"
)
_READS = (
    "HEFT reads inputs from other racks, and its root is 90 % used; with a quarter of the input "
    "`heft + sjf` takes 145 s instead of 321 s "
    "([what does not hold](reproduce-joint.md#what-does-not-hold-and-why))"
)
_FULL = (
    "the root is 93 % used, by bytes of jobs that the paper leaves open; 24 % less than "
    "`delay + sjf` ([Table 4](reproduce-joint.md#the-tables-mean-times-in-seconds))"
)


def _joint(subject: str, half: str = "", whole: str = "") -> list[Headline]:
    cases = {"x 0.5": half, "x 1": whole, "x 3.5": _TASKS_ALONE}
    return [
        line
        for case, why in cases.items()
        for line in _of(subject, "table4", "JCT mean", case, why=why)
    ]


_JOINT = (
    *_joint("joint + afap", half=_FULL),
    *_joint("delay + maxmin", whole=_LOADED),
    *_joint("heft + maxmin", half=_READS, whole=_READS),
    *_joint("delay + sjf", whole=_LOADED),
    *_joint("heft + sjf", half=_READS, whole=_READS),
)

_SHADOW = (
    *_of("shadow", "fig10", "job time, mean of each", "mean of the six"),
    *_of("shadow", "fig11", "makespan", "50 jobs"),
    *_of(
        *("shadow", "fig11", "more jobs done, at best", "50 jobs"),
        why="our interval has the published number: three seeds differ by more than that",
    ),
    *_of("shadow", "fig14", "JCT mean", "25 %", "50 %", "75 %", "two waves"),
    *_of("shadow", "fig15", "JCT mean", "1 Gbps", "4 Gbps"),
    *_of("shadow", "fig16", "duplicates, of the maps", "all six"),
    *_of("shadow", "fig16", "chosen, of the duplicates", "all six"),
    *_of("shadow", "fig20", "skew, mean of each", "mean, against delay", "mean, against kmn"),
    *_of("delay", "fig23", "shuffle skew", "60GB"),
    *_of("shadow", "fig23", "shuffle skew", "60GB"),
    *_of("shadow", "fig23", "shuffle time", "60GB"),
    *_of("shadow", "fig23", "JCT mean", "60GB"),
)

_TETRIS = (
    "Tetris is as good where sites run several waves, and not at the load as read "
    "([what does not hold](reproduce-tetrium.md#what-does-not-hold))"
)
_ALONE = (
    "a stage is planned as if it had all links for itself "
    "([what does not hold](reproduce-tetrium.md#what-does-not-hold))"
)
_TETRIUM = (
    *_of("tetrium", "fig8", "JCT mean", "waves, against in-place", "waves, against centralized"),
    *_of("tetrium+fair-order", "fig8", "JCT mean", "waves, against in-place"),
    *_of("tetrium", "fig8", "JCT mean", "waves, against tetris", why=_TETRIS),
    *_of("tetrium", "fig8", "JCT p90", "waves, against tetris", why=_TETRIS),
    *_of("tetrium", "fig8", "jobs slowed down", "waves, against in-place", why=_ALONE),
    *_of("tetrium:random-reduces", "fig9", "JCT mean", "waves"),
    *_of("tetrium:local-first", "fig9", "JCT mean", "waves"),
    *_of("tetrium:reverse", "reverse", "JCT mean", "waves"),
    *_of("tetrium", "fig10", "bytes between sites", "rho 0, waves", "rho 0.75, waves"),
    *_of("tetrium", "fig10", "JCT mean", "rho 0.75, waves", "epsilon 0.6, waves"),
    *_of("tetrium", "fig11", "JCT mean", "-10 %, k = 3", "-10 %, k = 10", "-50 %, k = 10"),
)

#: {paper: its headlines}, in the order of ``papers.PAPERS``
HEADLINES: dict[str, tuple[Headline, ...]] = {
    "co-scheduler": _CO_SCHEDULER,
    "corral": _CORRAL,
    "joint": _JOINT,
    "shadow": _SHADOW,
    "tetrium": _TETRIUM,
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
    ),
    "tetrium": (
        Elsewhere(
            where="Fig. 7",
            what="time of decisions for 50 and 400 jobs",
            published="950 ms, 8 s",
            how="`scripts/bench placement`",
        ),
    ),
}
