"""Published headlines beside recorded numbers of ours, with a verdict for each, as one page.

A headline is what a paper is known for: a line of a figure that its table marks; the published
number stands there.  A folder of records has a file for each paper.  Numbers get there
from what ``railyard reproduce --json`` wrote, never by hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.errors import UsageError
from railyard.experiments.figures import Line, Published
from railyard.experiments.papers import PAPERS, Key
from railyard.experiments.papers import paper as paper_named
from railyard.experiments.reproduction import mean_words, published_words
from railyard.runs.folder import write_json

NEAR = 10.0  #: points, or % of a published number that has another unit

Json = dict[str, Any]


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
        headlines = paper_named(paper).headlines()
        found = recorded(numbers, headlines)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        right = "what railyard reproduce --json wrote"
        raise UsageError(f"{file}: {error}: need {right}") from error
    records = folder / f"{paper}.json"
    together = load(records) | found
    save({key: together[key] for key in together if key in headlines}, records)


def rows(folder: Path) -> Iterator[Row]:
    """All headlines with the records of a folder.

    Raises ``UsageError`` for malformed records, ``LookupError`` for a headline that its paper has
    no line for.
    """
    for name in PAPERS:
        paper, records = paper_named(name), load(folder / f"{name}.json")
        every: dict[Key, tuple[str, Line, Published]] = {}
        for quick in (True, False):  # lines of whole figures in place of those of quick ones
            for figure_name, figure in paper.figures(quick).items():
                for line in figure.lines:
                    key = Key(figure_name, line.case, line.subject, line.measure.title)
                    if line.published is not None:
                        every[key] = figure.where, line, line.published
        for key, why in paper.headlines().items():
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
        *(
            f"| {name} | {each.what} | {each.published} | {each.by} |"
            for name in PAPERS
            for each in paper_named(name).elsewhere
        ),
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
