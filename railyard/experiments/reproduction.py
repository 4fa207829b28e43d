"""Figures are run: each setup with each seed, once; their numbers, as tables and as JSON.

A number is a mean over seeds with its confidence, beside the published one.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from railyard.cluster.errors import RailyardError
from railyard.cluster.topology import load_topology
from railyard.cluster.units import Unit, format_count, format_number
from railyard.experiments.contenders import Estimate, all_known, estimate, finite
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
    runs = {command(*pair): _run(*pair, made) for pair in pairs}  # equal runs have one command
    ran = dict(zip(runs, sweep(run_virtually, list(runs.values()), on=on), strict=True))
    found: Summaries = {setup: [] for setup in seeds}
    for setup, seed in pairs:
        summary = ran[command(setup, seed)]
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
    own = own_options(setup.scheduler, setup.scheduler_options)
    config = cluster_config(
        load_topology(setup.topology, setup.network),
        pair=setup.pair,
        options=tuple((key, as_number(text)) for key, text in own),
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


def command_line(request: ReproduceRequest, seeds: str) -> str:
    """The command that makes the same numbers again."""
    words = ["railyard", "reproduce", request.paper, *request.figures]
    words += ["--quick"] if request.quick else []
    words += ["--seeds", seeds]
    words += [word for case in request.cases for word in ("--case", case)]
    words += [word for key, value in request.changed for word in ("--set", f"{key}={value}")]
    return shlex.join(words)


# Numbers -----------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Value:
    """The number of a line."""

    line: Line
    by_seed: list[float | None]  #: in their order; None = that run does not have it
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
            "by_seed": self.by_seed,
            "own": self.own,
            "base": self.base,
            "published": known and {"least": finite(known.least), "most": finite(known.most)},
            "off_by": self.off_by,
        }


def values(figure: Figure, found: Mapping[Setup, Sequence[Summary]]) -> list[Value]:
    """Each line's number; ``found`` has the same seeds of every setup in the same order."""
    return [_value(line, found) for line in figure.lines]


def as_json(figure: Figure, results: Sequence[Value]) -> dict[str, Any]:
    """A figure for programs."""
    return {
        "title": figure.title,
        "where": figure.where,
        "against": figure.base,
        "scaled": list(figure.scaled),
        "lines": [value.as_json() for value in results],
    }


def _value(line: Line, found: Mapping[Setup, Sequence[Summary]]) -> Value:
    own = _with_alone(line.own, line, found)
    based = None if line.base is None else _with_alone(line.base, line, found)
    base: Sequence[Summary | None] = based or [None] * len(own)
    numbers = [line.measure.of(mine, other) for mine, other in zip(own, base, strict=True)]
    known = all_known(numbers)
    return Value(
        line=line,
        by_seed=numbers,
        ours=estimate(known) if known else None,
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
    values = all_known([quantity(run) for run in runs])
    return fmean(values) if values else None


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


def _rows(values: Sequence[Value]) -> Iterator[list[Cell]]:
    before = None
    for value in values:
        line, ours = value.line, value.ours
        yield [
            line.case if line.case != before else "",
            line.subject,
            "-" if ours is None else mean_words(ours.mean, ours.half_width),
            "" if line.published is None else published_words(line.published, "").strip(),
            f"{value.off_by:+.1f}" if value.off_by else "",
            value.base,
            value.own,
            line.own.coarse or "exact",
        ]
        before = line.case


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
