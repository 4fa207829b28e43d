"""Published headlines beside recorded numbers of ours, with a verdict for each, as one page.

A folder of records has a file for each paper.  Numbers get there from what ``railyard reproduce
--json`` wrote, never by hand.  Pure, but for ``load`` and ``save``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.scripts.reproduce.figures import Line, Published
from railyard.scripts.reproduce.headlines import Elsewhere, Headline
from railyard.scripts.reproduce.table import mean_words, published_words
from railyard.scripts.results.outputfile import write_json

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
