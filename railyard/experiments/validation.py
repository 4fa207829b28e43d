"""What each paper is known for: the numbers of ``docs/validation.md``.

Each is a line of a figure in ``papers``, found by its words; the published number stands there.
Open ``validation`` for what becomes of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.experiments.figures import Figure, Line, Paper, Published
from railyard.experiments.reproduction import mean_words, published_words
from railyard.runs.outputfile import write_json


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


# Published headlines beside recorded numbers of ours, with a verdict for each, as one page.
#
# A folder of records has a file for each paper.  Numbers get there from what ``railyard reproduce
# --json`` wrote, never by hand.  Pure, but for ``load`` and ``save``.


NEAR = 10.0  #: points, or % of a published number that has another unit

Json = dict[str, Any]


class Key(NamedTuple):
    """Which number it is."""

    figure: str
    case: str
    subject: str
    measure: str


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of ours, and the run of ``railyard reproduce`` that made it."""

    figure: str
    case: str
    subject: str
    measure: str
    mean: float | None  #: over seeds; None = some run does not have it
    ci95_half_width: float | None  #: None from a single seed
    coarse: str  #: how its runs are coarser; "" = exact
    seeds: str  #: "4-10"
    command: str
    code: str  #: the commit that it was made with

    @property
    def key(self) -> Key:
        """Which number it is."""
        return Key(self.figure, self.case, self.subject, self.measure)


#: The records of a paper.
Records = Mapping[Key, Recorded]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A headline, and what became of it."""

    paper: str  #: "corral"
    where: str
    headline: Headline
    line: Line
    recorded: Recorded | None

    @property
    def verdict(self) -> str:
        """One of "within 10 points", "same direction", "not reproduced", "not recorded"."""
        if self.recorded is None or self.recorded.mean is None:
            return "not recorded"
        assert self.line.published is not None
        reduces = self.line.measure.lessens
        return verdict(self.line.published, self.recorded.mean, self.line.measure.unit, reduces)

    @property
    def is_chance(self) -> bool:
        """Whether our interval has both signs, though the paper's number has one."""
        known, recorded = self.line.published, self.recorded
        if recorded is None or recorded.mean is None or not self.line.measure.lessens:
            return False
        reaches = abs(recorded.mean) < (recorded.ci95_half_width or 0.0)
        return (
            reaches and known is not None and not known.least < 0.0 < known.most and known != ZERO
        )


ZERO = Published(least=0.0, most=0.0)


def verdict(published: Published, mean: float, unit: str, reduces: bool) -> str:
    """How a mean of ours compares with a published number or range.

    ``reduces``: whether it is a reduction, which has a direction.
    """
    off = published.off_by(mean)
    if math.isinf(published.least) or math.isinf(published.most):
        return "not reproduced" if off else "same direction"
    end = published.least if off < 0 else published.most
    points = off if unit == "%" else 100.0 * off / abs(end) if off else 0.0
    if abs(points) <= NEAR:
        return "within 10 points"
    middle = (published.least + published.most) / 2
    return "same direction" if reduces and mean * middle > 0 else "not reproduced"


# Records -----------------------------------------------------------------------------------------
def load(file: Path) -> dict[Key, Recorded]:
    """The records of a file, if there is one; raises ``UsageError`` for one that is malformed."""
    if not file.exists():
        return {}
    try:
        found = msgspec.json.decode(file.read_bytes(), type=list[Recorded])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file}: {error}: need what railyard validation wrote") from error
    return {each.key: each for each in found}


def save(records: Records, file: Path) -> None:
    """Write records in the order of their keys; raises ``NotWritten``."""
    write_json([msgspec.to_builtins(records[key]) for key in sorted(records)], file)


def recorded(numbers: Json, headlines: Iterable[Headline]) -> dict[Key, Recorded]:
    """The headlines among the numbers that ``railyard reproduce --json`` wrote.

    Raises ``UsageError`` for a file of an earlier Railyard, which does not say how it was made.
    """
    if "command" not in numbers:
        raise UsageError("it does not say which command made it: need one of this Railyard")
    found: dict[Key, Recorded] = {}
    for each in headlines:
        figure = numbers["figures"].get(each.figure, {"lines": ()})
        for line in figure["lines"]:
            key = Key(each.figure, line["case"], line["subject"], line["measure"])
            if key == (each.figure, each.case, each.subject, each.measure):
                found[key] = Recorded(
                    **key._asdict(),
                    mean=line["mean"],
                    ci95_half_width=line["ci95_half_width"],
                    coarse=line["coarse"],
                    seeds=figure.get("seed_range", numbers["seed_range"]),
                    command=numbers["command"],
                    code=numbers["code"],
                )
    return found


def of_headlines(records: Records, headlines: Iterable[Headline]) -> dict[Key, Recorded]:
    """The records of these headlines, without those of headlines that there are no more."""
    named = {Key(each.figure, each.case, each.subject, each.measure) for each in headlines}
    return {key: each for key, each in records.items() if key in named}


# The page ----------------------------------------------------------------------------------------
_HEAD = """\
# Published headlines, and ours

    railyard reproduce PAPER [FIGURE]... --json numbers.json
    railyard validation docs/validation --add numbers.json --output docs/validation.md

The first command runs experiments of a paper; the second takes their headlines into the records
of this folder and makes this page of them. No number here was typed. Numbers are means over the
seeds, with 95 % confidence intervals.

- **within 10 points** of the published number or range (10 % of a number that is not a percentage)
- **same direction**: better where the paper is better, but by another amount
- **not reproduced**: why is beside it

*By chance?* means that our interval has both signs. Runs are *exact*, or so many tasks are merged
into one of as many times the size; the documents of the papers say how far off that is.
"""


def page(rows: Sequence[Row], elsewhere: Mapping[str, Sequence[Elsewhere]]) -> str:
    """The page, in Markdown.  ``elsewhere``: by paper."""
    counts = ", ".join(
        f"{sum(row.verdict == words for row in rows)} {words}"
        for words in dict.fromkeys(row.verdict for row in rows)
    )
    text = [_HEAD, f"{len(rows)} headlines: {counts}.", "", *_table(rows), "", *_made_by(rows)]
    others = [(paper, each) for paper, every in elsewhere.items() for each in every]
    if others:
        text += ["", "Not run by `railyard reproduce`:", ""]
        text += ["| paper | | published | instead |", "| --- | --- | --- | --- |"]
        text += [
            f"| {paper} | {each.where}: {each.what} | {each.published} | {each.how} |"
            for paper, each in others
        ]
    return "\n".join(text) + "\n"


def _table(rows: Sequence[Row]) -> list[str]:
    made = _commands(rows)
    head = ["paper", "", "published", "ours", "runs", "by", "verdict"]
    return [
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(_cells(row, made))} |" for row in rows),
    ]


def _cells(row: Row, made: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    headline, measure = row.headline, row.line.measure
    what = f"less {measure.title}" if measure.lessens else measure.title
    about = ", ".join(word for word in (headline.case, f"`{headline.subject}`", what) if word)
    assert row.line.published is not None
    ours, runs, by = "", "", ""
    if row.recorded is not None and row.recorded.mean is not None:
        ours = mean_words(row.recorded.mean, row.recorded.ci95_half_width)
        runs = row.recorded.coarse or "exact"
        by = f"{made[row.recorded.command, row.recorded.code]}"
    words = f"**{row.verdict}**{' (by chance?)' if row.is_chance else ''}"
    why = f": {headline.why}" if headline.why and row.verdict != "within 10 points" else ""
    known = published_words(row.line.published, measure.unit)
    return row.paper, f"{row.where}: {about}", known, ours, runs, by, f"{words}{why}"


def _commands(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """{(command, commit): its number in the list below the table}"""
    known = [row.recorded for row in rows if row.recorded is not None]
    made = dict.fromkeys((each.command, each.code) for each in known)
    return {each: number for number, each in enumerate(made, 1)}


def _made_by(rows: Sequence[Row]) -> list[str]:
    made = _commands(rows)
    return ["Made by:", ""] + [
        f"{number}. `{command}`, {code}" for (command, code), number in made.items()
    ]
