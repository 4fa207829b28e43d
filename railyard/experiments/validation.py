"""Published headlines beside recorded numbers of ours, with a verdict for each, as one page.

A headline is what a paper is known for: a line of a figure in ``papers``, found by its words; the
published number stands there.  A folder of records has a file for each paper.  Numbers get there
from what ``railyard reproduce --json`` wrote, never by hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.experiments.figures import Line, Published
from railyard.experiments.papers import paper as paper_named
from railyard.experiments.reproduction import mean_words, published_words
from railyard.runs.outputfile import write_json

NEAR = 10.0  #: points, or % of a published number that has another unit

Json = dict[str, Any]


class Key(NamedTuple):
    """Which number it is."""

    figure: str  #: as ``railyard reproduce PAPER`` names it
    case: str
    subject: str  #: the scheduler, or the pair "corral + varys"
    measure: str  #: the measure's title


_Headline = tuple[Key, str]  #: the published number, and why ours is another, if it is


def _of(subject: str, figure: str, measure: str, *cases: str, why: str = "") -> list[_Headline]:
    return [(Key(figure, case, subject, measure), why) for case in cases]


_TIMES = ("makespan", "JCT mean", "CCT mean")
_WORKLOADS = ("W1", "W2", "W3")

_ONE_SEED = (
    "one seed, and merged tasks give every scheduler more circuits than it has exactly "
    "([the other figures](reproduce-co-scheduler.md#the-other-figures))"
)
_CO_SCHEDULER = (
    *(key for of in _TIMES for key in _of("co-scheduler", "fig5a", of, "against Fair")),
    *(key for of in _TIMES for key in _of("co-scheduler", "fig5a", of, "against Corral")),
    *_of("fair", "fig5b", "on circuits", ""),
    *_of("corral-fair", "fig5b", "on circuits", ""),
    *_of("co-scheduler", "fig5b", "on circuits", ""),
    *(key for of in _TIMES for key in _of("co-scheduler:dp+ocas", "fig7", of, "", why=_ONE_SEED)),
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


def _joint(subject: str, half: str = "", whole: str = "") -> list[_Headline]:
    cases = {"x 0.5": half, "x 1": whole, "x 3.5": _TASKS_ALONE}
    return [(Key("table4", case, subject, "JCT mean"), why) for case, why in cases.items()]


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

#: {paper: its headlines, with the reason for a number of ours that is another}, in the order of
#: ``papers.PAPERS``
HEADLINES: dict[str, dict[Key, str]] = {
    "co-scheduler": dict(_CO_SCHEDULER),
    "corral": dict(_CORRAL),
    "joint": dict(_JOINT),
    "shadow": dict(_SHADOW),
    "tetrium": dict(_TETRIUM),
}

#: What ``railyard reproduce`` does not run: paper, where and what, published, what has it instead.
_ELSEWHERE = (
    (
        *("corral", "Fig. 5, section 4.4: time to plan 500 jobs on 100 racks"),
        *("55 s", "`scripts/bench planner`"),
    ),
    (
        *("tetrium", "Fig. 7: time of decisions for 50 and 400 jobs"),
        *("950 ms, 8 s", "`scripts/bench placement`"),
    ),
)


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
    line: Line
    published: Published  #: the line's
    why: str  #: why ours is another, if it is
    recorded: Recorded | None  #: None: it is not recorded, or some run does not have it

    @property
    def verdict(self) -> str:
        """One of "within 10 points", "same direction", "not reproduced", "not recorded"."""
        if self.recorded is None or self.recorded.mean is None:
            return "not recorded"
        measure = self.line.measure
        return verdict(self.published, self.recorded.mean, measure.unit, measure.lessens)

    @property
    def is_chance(self) -> bool:
        """Whether our interval has both signs, though the paper's number has one."""
        known, recorded = self.published, self.recorded
        if recorded is None or recorded.mean is None or not self.line.measure.lessens:
            return False
        has_one_sign = not known.least < 0.0 < known.most and known != Published(0.0, 0.0)
        return has_one_sign and abs(recorded.mean) < (recorded.ci95_half_width or 0.0)


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


def recorded(numbers: Json, headlines: Iterable[Key]) -> dict[Key, Recorded]:
    """The headlines among the numbers that ``railyard reproduce --json`` wrote.

    Raises ``UsageError`` for a file that does not say how it was made.
    """
    if "command" not in numbers:
        raise UsageError("it does not say which command made it: need one of this Railyard")
    wanted = set(headlines)
    return {
        key: Recorded(
            **key._asdict(),
            mean=line["mean"],
            ci95_half_width=line["ci95_half_width"],
            coarse=line["coarse"],
            seeds=figure.get("seed_range", numbers["seed_range"]),
            command=numbers["command"],
            code=numbers["code"],
        )
        for name, figure in numbers["figures"].items()
        for line in figure["lines"]
        if (key := Key(name, line["case"], line["subject"], line["measure"])) in wanted
    }


def record(file: Path, folder: Path) -> None:
    """Bring a paper's records up to date with what ``railyard reproduce --json`` wrote.

    Records of headlines that there are no more go.  Raises ``UsageError``, ``NotWritten``.
    """
    try:
        numbers: Json = json.loads(file.read_bytes())
        paper = numbers["paper"]
        found = recorded(numbers, HEADLINES[paper])
    except (ValueError, KeyError, TypeError, UsageError) as error:
        right = "what railyard reproduce --json wrote"
        raise UsageError(f"{file}: {error}: need {right}") from error
    records = folder / f"{paper}.json"
    together = load(records) | found
    save({key: together[key] for key in together if key in HEADLINES[paper]}, records)


def rows(folder: Path) -> Iterator[Row]:
    """All headlines with the records of a folder.

    Raises ``UsageError`` for malformed records, ``LookupError`` for a headline that its paper has
    no line for.
    """
    for name, headlines in HEADLINES.items():
        paper, records = paper_named(name), load(folder / f"{name}.json")
        every: dict[Key, tuple[str, Line, Published]] = {}
        for quick in (True, False):  # lines of whole figures in place of those of quick ones
            for figure_name, figure in paper.figures(quick).items():
                for line in figure.lines:
                    key = Key(figure_name, line.case, line.subject, line.measure.title)
                    if line.published is not None:
                        every[key] = figure.where, line, line.published
        for key, why in headlines.items():
            where, line, published = every[key]
            yield Row(
                paper=name,
                where=where,
                line=line,
                published=published,
                why=why,
                recorded=records.get(key),
            )


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


def page(rows: Sequence[Row]) -> str:
    """The page, in Markdown."""
    every = [row.verdict for row in rows]
    counts = ", ".join(f"{every.count(words)} {words}" for words in dict.fromkeys(every))
    known = [row.recorded for row in rows if row.recorded is not None]
    numbers = dict.fromkeys((each.command, each.code) for each in known)
    made = {each: number for number, each in enumerate(numbers, 1)}
    head = ("paper", "", "published", "ours", "runs", "by", "verdict")
    text = [
        *(_HEAD, f"{len(rows)} headlines: {counts}.", ""),
        *(f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"),
        *(f"| {' | '.join(_cells(row, made))} |" for row in rows),
        *("", "Made by:", ""),
        *(f"{number}. `{command}`, {code}" for (command, code), number in made.items()),
        *("", "Not run by `railyard reproduce`:", ""),
        *("| paper | | published | instead |", "| --- | --- | --- | --- |"),
        *(f"| {' | '.join(row)} |" for row in _ELSEWHERE),
    ]
    return "\n".join(text) + "\n"


def _cells(row: Row, made: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    line, recorded = row.line, row.recorded
    about = ", ".join(word for word in (line.case, f"`{line.subject}`", line.measure.words) if word)
    ours, runs, by = "", "", ""
    if recorded is not None and recorded.mean is not None:
        ours = mean_words(recorded.mean, recorded.ci95_half_width)
        runs = recorded.coarse or "exact"
        by = f"{made[recorded.command, recorded.code]}"
    words = f"**{row.verdict}**{' (by chance?)' if row.is_chance else ''}"
    why = f": {row.why}" if row.why and row.verdict != "within 10 points" else ""
    known = published_words(row.published, line.measure.unit)
    return row.paper, f"{row.where}: {about}", known, ours, runs, by, f"{words}{why}"
