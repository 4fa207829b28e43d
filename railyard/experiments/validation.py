"""Published numbers beside recorded ones of ours: records, verdicts, and the page made of them.

Every line of a figure with a published number is a row; figures and cases that are another reading
of the paper are beside it, in tables of their own.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import msgspec

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.topologyfile import split_changes
from railyard.experiments.contenders import Estimate
from railyard.experiments.figures import Figure, Line, Published, Setup
from railyard.experiments.papers import PAPERS, Key, Paper
from railyard.experiments.papers import paper as paper_named
from railyard.experiments.reproduction import carry_out, mean_words, published_words, values
from railyard.runs.folder import write_json

#: The share of a published number by which a mean may be off it and have reproduced it.
NEAR = 0.25
#: Within so much of 0, in %, there is no effect.
NO_EFFECT = 10.0


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of ours, and the run of ``railyard reproduce`` that made it."""

    figure: str
    case: str
    subject: str
    measure: str
    mean: float | None  #: over seeds; None = some run does not have it
    ci95_half_width: float | None  #: None from a single seed
    by_seed: list[float | None] = []  #: the numbers themselves
    coarse: str  #: how its runs are coarser; "" = exact
    seeds: str  #: "11-20"
    command: str
    code: str  #: the commit that it was made with

    @property
    def key(self) -> Key:
        return Key(self.figure, self.case, self.subject, self.measure)

    def seed(self, at: int) -> int:
        """That of a number in ``by_seed``."""
        return int(self.seeds.partition("-")[0]) + at


#: The records of a paper.
Records = Mapping[Key, Recorded]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published number, and what became of it."""

    key: Key
    line: Line
    published: Published  #: the line's
    figure: Figure  #: as it was run: quick or whole
    why: str  #: why ours is another, if it is
    is_other: bool  #: whether it is another reading than the paper's row
    constructed: str  #: why it is true whatever the simulation does; "" = it is not
    is_second_hand: bool  #: whether a scheduler of it is known from others' descriptions only
    recorded: Recorded | None

    @property
    def where(self) -> str:
        return self.figure.where.partition(",")[0]

    @property
    def verdict(self) -> str:
        """What the record shows: one of ``VERDICTS``."""
        if self.recorded is None or self.recorded.mean is None:
            return "not recorded"
        if self.constructed:
            return "by construction"
        ours = Estimate(mean=self.recorded.mean, half_width=self.recorded.ci95_half_width)
        return verdict(self.published, ours, has_direction=self.line.measure.lessens)


#: What a record may show; the last two show nothing.
VERDICTS = (
    *("reproduced", "direction", "undecided", "not reproduced"),
    *("by construction", "not recorded"),
)


def verdict(published: Published, ours: Estimate, *, has_direction: bool) -> str:
    """Whether a mean with its interval shows what a paper says; see ``tables/validation.md``.

    ``has_direction``: whether it is by how much less something is than a baseline's.
    """
    if ours.half_width is None:
        return "undecided"
    least, most = published.least, published.most
    near = Published(least - NEAR * abs(least), most + NEAR * abs(most))
    may_be_near = ours.low <= near.most and near.least <= ours.high
    if least == most == 0.0:
        is_small = max(abs(ours.low), abs(ours.high)) <= NO_EFFECT
        return "reproduced" if is_small else "undecided" if may_be_near else "not reproduced"
    if ours.low <= 0.0 <= ours.high:
        return "undecided" if may_be_near else "not reproduced"
    contains = ours.low <= most and least <= ours.high
    if published.is_number and (contains or near.off_by(ours.mean) == 0.0):
        return "reproduced"
    same = has_direction and ours.mean * (least + most) > 0
    return "direction" if same else "not reproduced"


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


def recorded(numbers: dict[str, Any], wanted: Iterable[Key]) -> dict[Key, Recorded]:
    """The rows among the numbers that ``railyard reproduce --json`` wrote.

    Raises ``UsageError`` for a file that does not say how it was made.
    """
    if "command" not in numbers:
        raise UsageError("it does not say which command made it: need one of this Railyard")
    wanted = set(wanted)
    return {
        key: Recorded(
            **key._asdict(),
            mean=line["mean"],
            ci95_half_width=line["ci95_half_width"],
            by_seed=line["by_seed"],
            coarse=line["coarse"],
            seeds=numbers["seed_range"],
            command=numbers["command"],
            code=numbers["code"],
        )
        for name, figure in numbers["figures"].items()
        for line in figure["lines"]
        if (key := Key(name, line["case"], line["subject"], line["measure"])) in wanted
    }


def record(file: Path, folder: Path) -> None:
    """Bring a paper's records up to date with what ``railyard reproduce --json`` wrote.

    Records of rows that there are no more go.  Raises ``UsageError``, ``NotWritten``.
    """
    try:
        numbers = json.loads(file.read_bytes())
        name = numbers["paper"]
        paper = paper_named(name)
        wanted = published_lines(paper, quick=True) | published_lines(paper, quick=False)
        found = recorded(numbers, wanted)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(f"{file}: {error}: need what railyard reproduce --json wrote") from error
    records = folder / f"{name}.json"
    together = load(records) | found
    save({key: together[key] for key in together if key in wanted}, records)


def published_lines(paper: Paper, quick: bool) -> dict[Key, tuple[Line, Figure]]:
    """All lines of a paper's figures that have a published number."""
    return {
        Key(name, line.case, line.subject, line.measure.title): (line, figure)
        for name, figure in paper.figures(quick).items()
        for line in figure.lines
        if line.published is not None
    }


def rows(name: str, records: Records) -> Iterator[Row]:
    """All published numbers of a paper, with its records; those of several figures once."""
    paper = paper_named(name)
    quick, whole = published_lines(paper, quick=True), published_lines(paper, quick=False)
    once: dict[object, Key] = {}
    for key, (line, _) in (whole | quick).items():
        same = line.own, line.base, line.alone, line.among, key.measure, line.published
        if same not in once or (key in records and once[same] not in records):
            once[same] = key
    for key in once.values():
        own = records.get(key)
        is_quick = own is not None and "--quick" in own.command.split()
        first, second = (quick, whole) if is_quick else (whole, quick)
        line, figure = (second | first)[key]
        assert line.published is not None
        pairs = [setup.pair for setup in (line.own, line.base) if setup is not None]
        yield Row(
            key=key,
            line=line,
            published=line.published,
            figure=figure,
            why=paper.rows.why(paper.rows.differ, key),
            is_other=paper.rows.is_other(key),
            constructed=paper.rows.why(paper.rows.constructed, key),
            is_second_hand=any(pair.scheduler in paper.rows.second_hand for pair in pairs),
            recorded=own,
        )


# Do records come out again? -----------------------------------------------------------------------
class NotAsRecorded(RailyardError):
    """A recorded number is another one now."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """A recorded number of one seed, and what that run gives now."""

    row: Row
    seed: int
    recorded: float | None
    now: float | None

    @property
    def holds(self) -> bool:
        if self.recorded is None or self.now is None:
            return self.recorded is self.now
        return math.isclose(self.recorded, self.now, rel_tol=1e-9, abs_tol=1e-9)

    def __str__(self) -> str:
        line, own = self.row.line, self.row.recorded
        assert own is not None
        number = (
            f"{self.now} as recorded" if self.holds else f"{self.now}, recorded {self.recorded}"
        )
        words = f"{self.row.figure.where}, {line.case}, {line.subject}, {line.measure.words}"
        return f"{words}, seed {self.seed}: {number} at {own.code}"


def checked(folder: Path, drawn_by: str, count: int) -> Iterator[Check]:
    """Make recorded numbers again, each of one seed: so many, drawn by a word.

    Those of traces that are not here are not drawn.  Raises ``UsageError`` if there are none.
    """
    found = (row for name in PAPERS for row in rows(name, load(folder / f"{name}.json")))
    known = [(row, own, at) for row in found if (own := row.recorded) for at in _places(row)]
    if not known:
        right = "railyard reproduce, and railyard workloads fetch for the traces"
        raise UsageError(f"{folder}: no record has its numbers by seed: need {right}")
    drawn = random.Random(drawn_by).sample(known, min(count, len(known)))
    alone = [(replace(row.figure, lines=(row.line,)), own.seed(at)) for row, own, at in drawn]
    pairs = dict.fromkeys((setup, seed) for figure, seed in alone for setup in figure.setups())
    seeds: dict[Setup, list[int]] = {}
    for setup, seed in pairs:
        seeds.setdefault(setup, []).append(seed)
    runs = carry_out(seeds)
    for (row, own, at), (figure, seed) in zip(drawn, alone, strict=True):
        of_seed = {each: [runs[each][seeds[each].index(seed)]] for each in figure.setups()}
        [value] = values(figure, of_seed)
        yield Check(row=row, seed=seed, recorded=own.by_seed[at], now=value.by_seed[0])


def _places(row: Row) -> range:
    """Where in a row's record are numbers that can be made again here."""
    alone = replace(row.figure, lines=(row.line,))
    files = [split_changes(setup.workload)[0].partition(":")[2] for setup in alone.setups()]
    is_here = all(Path(file).exists() for file in files)  # no file: this folder
    return range(len(row.recorded.by_seed) if row.recorded and is_here else 0)


# The page ----------------------------------------------------------------------------------------
def page(folder: Path) -> str:
    """The page, in Markdown, from the records of a folder.  Raises ``UsageError``."""
    every = {name: list(rows(name, load(folder / f"{name}.json"))) for name in PAPERS}
    known = [row.recorded for found in every.values() for row in found if row.recorded]
    made = dict.fromkeys((each.command, each.code) for each in known)
    numbers = {each: number for number, each in enumerate(made, 1)}
    counts = {
        name: Counter(row.verdict for row in found if not row.is_other)
        for name, found in every.items()
    }
    first = [
        *(_table("paper", "rows", *VERDICTS)),
        *(_count_row(name, counts[name]) for name in PAPERS),
        _count_row("**all**", sum(counts.values(), Counter())),
        *("", *(f"- **{name}**: {paper_named(name).rows.summary}" for name in PAPERS)),
        *("", *_directions(row for found in every.values() for row in found)),
    ]
    template = (Path(__file__).parent / "tables" / "validation.md").read_text()
    text = [template.rstrip().replace("{counts}", "\n".join(first))]
    for name, found in every.items():
        said = paper_named(name).rows
        text += ["", f"## {paper_named(name).title}"]
        text += _list("Where Railyard departs from the paper", said.departures)
        text += _list("Chosen with published numbers in view", said.chosen)
        text += _table_of([row for row in found if not row.is_other], numbers)
        if others := [row for row in found if row.is_other]:
            text += ["", "### Other readings", *_table_of(others, numbers)]
    text += ["", "## Made by", ""]
    text += [f"{number}. `{command}`, {code}" for (command, code), number in numbers.items()]
    text += ["", "Not run by `railyard reproduce`:", ""]
    text += _table("paper", "", "published", "instead")
    text += [
        f"| {name} | {each.what} | {each.published} | {each.by} |"
        for name in PAPERS
        for each in paper_named(name).elsewhere
    ]
    return "\n".join(text) + "\n"


def _list(heading: str, items: Sequence[str]) -> list[str]:
    return ["", f"{heading}:", "", *(f"- {item}" for item in items)] if items else []


def _directions(found: Iterable[Row]) -> Iterator[str]:
    """How far rows with a number, and rows that only say which way, hold."""
    ways = [row for row in found if not row.is_other]
    for words, good, some in (
        ("a number or a range", "reproduced", [row for row in ways if row.published.is_number]),
        ("only a direction", "direction", [row for row in ways if not row.published.is_number]),
    ):
        hold = sum(row.verdict == good for row in some)
        share = 100 * hold / max(1, len(some))
        yield f"{len(some)} rows have {words}: {hold} ({share:.0f} %) are **{good}**."


def _count_row(name: str, counts: Counter[str]) -> str:
    cells = [name, counts.total(), *(counts[each] for each in VERDICTS)]
    return f"| {' | '.join(map(str, cells))} |"


def _table(*heads: str) -> list[str]:
    return [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]


def _table_of(found: Sequence[Row], numbers: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """The rows that are recorded, a table for each figure and size, and how many are not."""
    tables: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if row.verdict != "not recorded":
            tables.setdefault((row.figure.where, _runs(row, numbers)), []).append(row)
    for (where, runs), some in tables.items():
        yield from ("", f"**{where}**: {runs}", "")
        about = [(row.line.case, f"`{row.line.subject}`", row.line.measure.words) for row in some]
        shared = set.intersection(*map(set, about)) if len(some) > 1 else set[str]()
        head = ", ".join(word for word in about[0] if word and word in shared)
        yield from _table(head, "published", "ours", "verdict")
        notes: dict[str, str] = {}  #: {what is said of some rows: its letter}
        for row, words in zip(some, about, strict=True):
            own = ", ".join(word for word in words if word and word not in shared)
            yield f"| {' | '.join([own, *_cells(row, notes)])} |"
        yield from (
            ("", *(f"({letter}) {words}" for words, letter in notes.items())) if notes else ()
        )
    missing = Counter(row.where for row in found if row.verdict == "not recorded")
    if missing:
        yield from ("", f"Not recorded: {'; '.join(f'{k} ({n})' for k, n in missing.items())}.")


def _runs(row: Row, numbers: Mapping[tuple[str, str], int]) -> str:
    """Of which size the runs of a row are, of which seeds, and by which command."""
    own = row.recorded
    assert own is not None
    size = ", ".join(filter(None, (row.figure.size, own.coarse))) or "the paper's size"
    return f"{size}; seeds {own.seeds}; by {numbers[own.command, own.code]}"


def _cells(row: Row, notes: dict[str, str]) -> tuple[str, ...]:
    line, own = row.line, row.recorded
    assert own is not None
    assert own.mean is not None
    ours = mean_words(own.mean, own.ci95_half_width)
    whys = [row.constructed or ("" if row.verdict == "reproduced" else row.why)]
    whys += ["a scheduler from second hand"] if row.is_second_hand else []
    letters = [notes.setdefault(why, ascii_lowercase[len(notes)]) for why in whys if why]
    words = " ".join([f"**{row.verdict}**", *(f"({letter})" for letter in letters)])
    return published_words(row.published, line.measure.unit), ours, words
