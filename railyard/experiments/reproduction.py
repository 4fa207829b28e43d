"""Figures are run: each setup with each seed, once; their numbers, as tables and as JSON.

A number is a mean over seeds with its confidence, beside the published one.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import msgspec

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.topology import load_topology
from railyard.cluster.units import Unit, format_count, format_number
from railyard.experiments.contenders import Estimate, estimate, finite
from railyard.experiments.figures import (
    ALONE_S,
    Figure,
    Line,
    Measure,
    Published,
    Quantity,
    Setup,
    times_alone,
)
from railyard.experiments.papers import PAPERS, Key
from railyard.experiments.papers import paper as paper_named
from railyard.jobs.workloads.model import Workload
from railyard.runs.config import cluster_config, own_options
from railyard.runs.figures import Summary
from railyard.runs.folder import write_json
from railyard.runs.requests import ReproduceRequest, Workers
from railyard.runs.simulation import VirtualRun, run_virtually, sweep
from railyard.runs.workloads import simulators_workload
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import as_number, seeds_in_words
from railyard.terminal.tables import Cell, Column, cell, plain_console, show_table

#: The summaries of each setup, by seed.
Summaries = dict[Setup, list[Summary]]
#: Compiled loops set the rates from so few open flows on, as a process that makes many runs loads
#: them once.  Less than half of the CPU time of W1's batch under ``capacity``, and the same end.
_FAST_FROM_FLOWS = 100


class JobsFailed(RailyardError):
    """Jobs of an experiment failed, so its numbers are of fewer jobs than they should be."""


def carry_out(seeds: Mapping[Setup, Sequence[int]], on: Workers | None = None) -> Summaries:
    """Run every setup with its seeds.

    Raises ``UsageError`` for a setup that makes no sense, before the first run; ``JobsFailed``.
    """
    made: dict[tuple[str, int], Workload] = {}
    pairs = [(setup, seed) for setup, those in seeds.items() for seed in those]
    runs = [_run(setup, seed, made) for setup, seed in pairs]
    found: Summaries = {setup: [] for setup in seeds}
    for (setup, seed), summary in zip(pairs, sweep(run_virtually, runs, on=on), strict=True):
        failed = [job["name"] for job in summary["jobs"] if not job["ok"]]
        if failed:
            count = format_count(len(failed), "job")
            raise JobsFailed(f"{count} failed, {failed[0]} for one: {command(setup, seed)}")
        found[setup].append(summary)
    return found


def command(setup: Setup, seed: int) -> str:
    """The command that runs this setup alone."""
    words = ["railyard", "simulate", "--workload", setup.workload, "--topology", setup.topology]
    words += ["--scheduler", setup.pair.scheduler, "--flow-scheduler", setup.pair.flow_scheduler]
    usual = Behaviour()
    changed = tuple(
        (name, f"{getattr(setup.behaviour, name):g}")
        for name in Behaviour.__struct_fields__
        if getattr(setup.behaviour, name) != getattr(usual, name)
    )
    for option, settings in (
        ("--network", setup.network),
        ("--set", own_options(setup.scheduler, setup.scheduler_options)),
        ("--behaviour", changed),
    ):
        for key, value in settings:
            words += [option, f"{key}={value}"]
    if setup.faults is not None:
        words += ["--faults", setup.faults]
    return shlex.join([*words, "--exact", "--seed", str(seed)])


def save_runs(found: Summaries, folder: Path) -> None:
    """Write each run's summary, with the command that repeats it, to a new folder."""
    folder.mkdir()
    for number, (setup, summaries) in enumerate(found.items()):
        for summary in summaries:
            seed = summary["seed"]
            name = f"{number:03}-{'-'.join(setup.pair)}-{seed}.json"
            whole = summary | {"workload": setup.workload, "command": command(setup, seed)}
            write_json(whole, folder / name)


def _run(setup: Setup, seed: int, made: dict[tuple[str, int], Workload]) -> VirtualRun:
    config = cluster_config(
        load_topology(setup.topology, setup.network),
        pair=setup.pair,
        options=tuple(
            (key, as_number(text))
            for key, text in own_options(setup.scheduler, setup.scheduler_options)
        ),
        seed=seed,
    )
    key = setup.workload, seed
    if key not in made:
        made[key] = simulators_workload(setup.workload, config.topology, seed)
    run = VirtualRun(
        config=config,
        workload=made[key],
        behaviour=setup.behaviour,
        faults=setup.faults,
        compiled_from=_FAST_FROM_FLOWS,
    )
    run.all_faults()  # mistakes show before the first run
    return run


def command_line(request: ReproduceRequest, seeds: str | None) -> str:
    """The command that makes the same numbers again; ``seeds`` if all figures have the same."""
    words = ["railyard", "reproduce", request.paper, *request.figures]
    words += ["--quick"] if request.quick else []
    words += [] if seeds is None else ["--seeds", seeds]
    words += [word for case in request.cases for word in ("--case", case)]
    words += [word for key, value in request.changed for word in ("--set", f"{key}={value}")]
    return shlex.join(words)


# Numbers -----------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Value:
    """The number of a line."""

    line: Line
    ours: Estimate | None  #: None: some run does not have it
    own: float | None  #: the mean of the quantity behind it
    base: float | None  #: and the baseline's

    @property
    def off_by(self) -> float | None:
        """By how much our mean lies outside the published range; None without one."""
        if self.ours is None or self.line.published is None:
            return None
        return self.line.published.off_by(self.ours.mean)

    def as_json(self) -> dict[str, Any]:
        """For programs; an end of a published range that is open is None."""
        line, ours, known = self.line, self.ours, self.line.published
        return {
            "case": line.case,
            "subject": line.subject,
            "measure": line.measure.title,
            "unit": line.measure.unit,
            "lessens": line.measure.lessens,
            "coarse": line.own.coarse,
            "mean": None if ours is None else ours.mean,
            "ci95_half_width": None if ours is None else ours.half_width,
            "own": self.own,
            "base": self.base,
            "published": known and {"least": finite(known.least), "most": finite(known.most)},
            "off_by": self.off_by,
        }


def values(figure: Figure, found: Mapping[Setup, Sequence[Summary]]) -> list[Value]:
    """Each line's number; ``found`` has the same seeds of every setup in the same order."""
    return [_value(line, found) for line in figure.lines]


def as_json(figure: Figure, results: Sequence[Value], seed_range: str) -> dict[str, Any]:
    """A figure for programs; ``seed_range`` is "4-10"."""
    return {
        "title": figure.title,
        "where": figure.where,
        "against": figure.base,
        "scaled": list(figure.scaled),
        "seed_range": seed_range,
        "lines": [value.as_json() for value in results],
    }


def _value(line: Line, found: Mapping[Setup, Sequence[Summary]]) -> Value:
    own = _with_alone(line.own, line, found)
    based = None if line.base is None else _with_alone(line.base, line, found)
    base: Sequence[Summary | None] = based or [None] * len(own)
    numbers = [line.measure.of(mine, other) for mine, other in zip(own, base, strict=True)]
    known = [number for number in numbers if number is not None]
    return Value(
        line=line,
        ours=estimate(known) if known and len(known) == len(numbers) else None,
        own=_mean(line.measure.quantity, own),
        base=None if based is None else _mean(line.measure.quantity, based),
    )


def _with_alone(
    setup: Setup, line: Line, found: Mapping[Setup, Sequence[Summary]]
) -> Sequence[Summary]:
    """The runs of a setup, with the times that their jobs take alone if the line has any."""
    if line.alone is None:
        return found[setup]
    pairs = zip(found[setup], found[line.alone], strict=True)
    return [run | {ALONE_S: times_alone(alone)} for run, alone in pairs]


def _mean(quantity: Quantity, runs: Sequence[Summary]) -> float | None:
    known = [value for value in map(quantity, runs) if value is not None]
    return fmean(known) if known and len(known) == len(runs) else None


# Tables ------------------------------------------------------------------------------------------
def show(figure: Figure, results: Sequence[Value], seeds: range) -> None:
    """Print a figure: a table for each measure, and how the experiment differs from the paper's."""
    console = plain_console(highlight=False)
    console.print(cell(f"{figure.where}: {figure.title}", "bold"))
    order = list(dict.fromkeys(value.line.measure.words for value in results))
    by_measure = sorted(results, key=lambda value: order.index(value.line.measure.words))
    for words, same in groupby(by_measure, key=lambda value: value.line.measure.words):
        click.echo(f"\n{words}")
        of_one = list(same)
        show_table(console, _columns(of_one[0].line.measure), _rows(of_one), elsewhere="--json")
    click.echo()
    several = f"seeds {seeds_in_words(seeds)}, mean ± 95 % confidence interval"
    console.print(several if len(seeds) > 1 else f"seed {seeds[0]}", style="dim")
    if figure.base:
        console.print(f"reductions are against {figure.base}", style="dim")
    for words in figure.scaled:
        console.print(cell(f"else than in the paper: {words}", "dim"))
    click.echo()


def _columns(measure: Measure) -> list[Column]:
    unit = Unit(measure.unit, 1.0)
    return [
        Column("case"),
        Column("scheduler"),
        *(Column(heading, lambda _: unit) for heading in ("ours", "paper")),
        Column("off by", lambda _: unit, rank=1),
        *(Column(heading, measure.kind.unit, rank=3) for heading in ("from", "to")),
        Column("runs", rank=2),
    ]


def _rows(values: Sequence[Value]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    before = None
    for value in values:
        line, ours = value.line, value.ours
        rows.append(
            [
                line.case if line.case != before else "",
                line.subject,
                "-" if ours is None else mean_words(ours.mean, ours.half_width),
                "" if line.published is None else published_words(line.published, "").strip(),
                f"{value.off_by:+.1f}" if value.off_by else "",
                value.base,
                value.own,
                line.own.coarse or "exact",
            ]
        )
        before = line.case
    return rows


def mean_words(mean: float, spread: float | None) -> str:
    """A mean, and half of its interval if there are several seeds: "12.3 ± 4.5"."""
    return f"{mean:.1f}{'' if spread is None else f' ± {spread:.1f}'}"


def published_words(published: Published, unit: str) -> str:
    """What the paper says: "10 to 33 %", "> 0 %"."""
    least, most = format_number(published.least), format_number(published.most)
    if math.isinf(published.most):
        return f"> {least} {unit}"
    if math.isinf(published.least):
        return f"< {most} {unit}"
    return f"{least} {unit}" if published.least == published.most else f"{least} to {most} {unit}"


# Published headlines beside recorded numbers ------------------------------------------------------
NEAR = 10.0  #: points, or % of a published number that has another unit


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


def recorded(numbers: dict[str, Any], headlines: Iterable[Key]) -> dict[Key, Recorded]:
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
        numbers = json.loads(file.read_bytes())
        paper = numbers["paper"]
        headlines = paper_named(paper).headlines()
        found = recorded(numbers, headlines)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(f"{file}: {error}: need what railyard reproduce --json wrote") from error
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
