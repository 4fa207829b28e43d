"""Running what figures need: each setup with each seed, once, spread over cores."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from railyard.cluster.errors import RailyardError
from railyard.cluster.topology import load_topology
from railyard.cluster.units import (
    NO_UNIT,
    Unit,
    format_count,
    format_digits,
    format_duration,
    format_number,
    format_ratio,
    format_size,
    size_unit,
    time_unit,
)
from railyard.experiments.estimates import Estimate, estimate
from railyard.experiments.figures import Figure, Line, Published, Setup
from railyard.experiments.measures import (
    ALONE_S,
    POINTS,
    Measure,
    Quantity,
    Summary,
    show_percent,
    times_alone,
)
from railyard.jobs.workloads.model import Workload
from railyard.runs.config import cluster_config, own_options
from railyard.runs.outputfile import write_json
from railyard.runs.requests import Workers
from railyard.runs.simulation import VirtualRun, require_faults, run_virtually
from railyard.runs.sweep import sweep
from railyard.runs.workloads import simulators_workload
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs, as_number, seeds_in_words
from railyard.terminal.tables import Cell, Column, cell, plain_console, show_table

#: The summaries of each setup, by seed.
Summaries = dict[Setup, list[Summary]]


#: Compiled loops set the rates from so few open flows on, as a process that makes many runs loads
#: them once.  Less than half of the CPU time of W1's batch under ``capacity``, and the same end.
_FAST_FROM_FLOWS = 100


class JobsFailed(RailyardError):
    """Jobs of an experiment failed, so its numbers are of fewer jobs than they should be."""


def carry_out(
    setups: Iterable[Setup], seeds: Sequence[int], on: Workers | None = None
) -> Summaries:
    """Run every setup with every seed; see ``carry_out_each``."""
    return carry_out_each(dict.fromkeys(setups, seeds), on)


def carry_out_each(seeds: Mapping[Setup, Sequence[int]], on: Workers | None = None) -> Summaries:
    """Run every setup with its seeds.

    Raises ``UsageError`` for a setup that makes no sense, before the first run; ``JobsFailed``.
    """
    made: dict[tuple[str, int], Workload] = {}
    pairs = [(setup, seed) for setup, those in seeds.items() for seed in those]
    runs = [_run(setup, seed, made) for setup, seed in pairs]
    found: Summaries = {setup: [] for setup in seeds}
    summaries = sweep(run_virtually, runs, on=on)
    for (setup, seed), summary in zip(pairs, summaries, strict=True):
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
    pairs = (("--network", setup.network), ("--set", _own_options(setup)))
    usual = Behaviour()
    changed = tuple(
        (name, f"{getattr(setup.behaviour, name):g}")
        for name in Behaviour.__struct_fields__
        if getattr(setup.behaviour, name) != getattr(usual, name)
    )
    for option, settings in (*pairs, ("--behaviour", changed)):
        for key, value in settings:
            words += [option, f"{key}={value}"]
    if setup.faults is not None:
        words += ["--faults", setup.faults]
    return shlex.join([*words, "--exact", "--seed", str(seed)])


def save(found: Summaries, folder: Path) -> None:
    """Write each run's summary, with the command that repeats it, to a new folder."""
    folder.mkdir()
    for number, (setup, summaries) in enumerate(found.items()):
        for summary in summaries:
            seed = summary["seed"]
            name = f"{number:03}-{'-'.join(setup.pair)}-{seed}.json"
            whole = summary | {"workload": setup.workload, "command": command(setup, seed)}
            write_json(whole, folder / name)


def _own_options(setup: Setup) -> TextPairs:
    """The settings of its own scheduler, without those of the others."""
    return own_options(setup.scheduler, setup.scheduler_options)


def _run(setup: Setup, seed: int, made: dict[tuple[str, int], Workload]) -> VirtualRun:
    config = cluster_config(
        load_topology(setup.topology, setup.network),
        pair=setup.pair,
        options=tuple((key, as_number(text)) for key, text in _own_options(setup)),
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
    require_faults(run)
    return run


# The command that makes the same numbers of a paper again.


def command_line(
    paper: str,
    figures: Iterable[str],
    *,
    quick: bool,
    seeds: str | None,
    cases: Iterable[str],
    changed: TextPairs,
) -> str:
    """The command that makes the same numbers again; ``seeds`` if all figures have the same."""
    words = ["railyard", "reproduce", paper, *figures, *(["--quick"] if quick else [])]
    words += [] if seeds is None else ["--seeds", seeds]
    words += [word for case in cases for word in ("--case", case)]
    for key, value in changed:
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)


# The numbers of figures: means over seeds with their confidence, beside published ones.  Pure.


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
        "lines": [_line_as_json(value) for value in results],
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
    return math.fsum(known) / len(known) if known and len(known) == len(runs) else None


def _line_as_json(value: Value) -> dict[str, Any]:
    line, ours = value.line, value.ours
    return {
        "case": line.case,
        "subject": line.subject,
        "measure": line.measure.title,
        "unit": line.measure.unit,
        "lessens": line.measure.lessens,
        "coarse": line.own.coarse,
        "mean": None if ours is None else ours.mean,
        "ci95_half_width": None if ours is None else ours.half_width,
        "own": value.own,
        "base": value.base,
        "published": None if line.published is None else _published_as_json(line.published),
        "off_by": value.off_by,
    }


def _published_as_json(published: Published) -> dict[str, float | None]:
    """JSON has no infinity: None is open."""
    ends = {"least": published.least, "most": published.most}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}


# Figures as tables on the terminal: one for each measure, whose numbers have one unit.


#: Units of quantities that are shown by these.
_UNITS: dict[Callable[[float], str], Callable[[float], Unit]] = {
    format_duration: time_unit,
    format_size: size_unit,
    show_percent: lambda _: POINTS,
    format_digits: lambda _: NO_UNIT,
    format_ratio: lambda _: NO_UNIT,
}


def show(figure: Figure, results: Sequence[Value], seeds: range) -> None:
    """Print a figure: our numbers beside the paper's, and how the experiment differs."""
    console = plain_console(highlight=False)
    console.print(cell(f"{figure.where}: {figure.title}", "bold"))
    order = {_words(value.line.measure): None for value in results}
    by_measure = sorted(results, key=lambda value: list(order).index(_words(value.line.measure)))
    for words, same in groupby(by_measure, key=lambda value: _words(value.line.measure)):
        click.echo(f"\n{words}")
        of_one = list(same)
        show_table(console, _columns(of_one[0].line.measure), _rows(of_one), elsewhere="--json")
    click.echo()
    several = f"seeds {seeds_in_words(seeds)}, mean ± 95 % confidence interval"
    console.print(several if len(seeds) > 1 else f"seed {seeds[0]}", style="dim")
    if figure.base:
        console.print(f"reductions are against {figure.base}", style="dim")
    for told in figure.scaled:
        console.print(cell(f"else than in the paper: {told}", "dim"))
    click.echo()


def _words(measure: Measure) -> str:
    return f"less {measure.title}" if measure.lessens else measure.title


def _columns(measure: Measure) -> list[Column]:
    unit = Unit(measure.unit, 1.0)
    quantity = _UNITS.get(measure.show, lambda _: NO_UNIT)
    return [
        Column("case"),
        Column("scheduler"),
        *(Column(heading, lambda _: unit) for heading in ("ours", "paper")),
        Column("off by", lambda _: unit, rank=1),
        *(Column(heading, quantity, rank=3) for heading in ("from", "to")),
        Column("runs", rank=2),
    ]


def _rows(values: Sequence[Value]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    before = None
    for value in values:
        line, measure = value.line, value.line.measure
        published = "" if line.published is None else published_words(line.published, "").strip()
        rows.append(
            [
                line.case if line.case != before else "",
                line.subject,
                _ours(value),
                published,
                f"{value.off_by:+.1f}" if value.off_by else "",
                *(_quantity(number, measure) for number in (value.base, value.own)),
                line.own.coarse or "exact",
            ]
        )
        before = line.case
    return rows


def _quantity(number: float | None, measure: Measure) -> Cell:
    return number if number is None or measure.show in _UNITS else measure.show(number)


def _ours(value: Value) -> str:
    return "-" if value.ours is None else mean_words(value.ours.mean, value.ours.half_width)


def mean_words(mean: float, spread: float | None) -> str:
    """A mean, and half of its interval if there are several seeds: "12.3 ± 4.5"."""
    return f"{mean:.1f}{'' if spread is None else f' ± {spread:.1f}'}"


def published_words(published: Published, unit: str) -> str:
    """What the paper says: "10 to 33 %", "> 0 %"."""
    if math.isinf(published.most):
        return f"> {format_number(published.least)} {unit}"
    if math.isinf(published.least):
        return f"< {format_number(published.most)} {unit}"
    if published.least == published.most:
        return f"{format_number(published.least)} {unit}"
    return f"{format_number(published.least)} to {format_number(published.most)} {unit}"
