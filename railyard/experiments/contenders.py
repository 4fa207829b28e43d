"""A comparison's rows: the runs of each contender, and their metrics' means over seeds.  Pure.

A *contender* is a scheduler with a flow scheduler on one clock; the first one of each clock is what
the others are compared with.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from railyard.cluster.units import Unit, format_number
from railyard.runs.figures import (
    METRICS,
    Metric,
    Summary,
    figure_unit,
    figure_words,
    is_trusted,
    own_counters,
)

#: That a single mean lies in its interval.
CONFIDENCE = 0.95
#: That all changes of a comparison lie in their intervals: times are not quite normal, and this
#: leaves room below one wrong comparison in twenty.
TOGETHER = 0.975


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    half_width: float | None  #: of its confidence interval; None from a single seed

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)


@dataclass(frozen=True, kw_only=True)
class Change:
    """How values differ from others of the same seeds: as a ratio, or a difference if some are 0.

    Without an interval (``low`` and ``high`` are None) it is of a single seed.
    """

    kind: Literal["ratio", "difference"]
    mean: float
    low: float | None
    high: float | None

    @property
    def none(self) -> float:
        """What it is if nothing changes."""
        return 1.0 if self.kind == "ratio" else 0.0

    @property
    def is_sure(self) -> bool:
        """Whether its interval is on one side of no change."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.none or self.high < self.none


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean and confidence interval (Student's t) of independent values."""
    mean = fmean(values)
    if len(values) == 1:
        return Estimate(mean=mean, half_width=None)
    from scipy.stats import t

    squares = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    beyond = float(t.ppf(0.5 + confidence / 2, len(values) - 1))
    return Estimate(mean=mean, half_width=beyond * math.sqrt(squares / len(values)))


def change(own: Sequence[float], base: Sequence[float], intervals: int = 1) -> Change:
    """The change from ``base`` to ``own``, which have a value of each seed, in the same order.

    ``intervals``: of how many it is one, so that all hold together with ``TOGETHER``
    (Bonferroni).
    """
    confidence = 1 - (1 - TOGETHER) / intervals
    pairs = list(zip(own, base, strict=True))
    if all(value > 0 for pair in pairs for value in pair):
        logs = [math.log(value / other) for value, other in pairs]
        return _change("ratio", estimate(logs, confidence))
    return _change("difference", estimate([value - other for value, other in pairs], confidence))


def _change(kind: Literal["ratio", "difference"], found: Estimate) -> Change:
    raised = _exp if kind == "ratio" else float
    sure = found.half_width is not None
    return Change(
        kind=kind,
        mean=raised(found.mean),
        low=raised(found.low) if sure else None,
        high=raised(found.high) if sure else None,
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def finite(value: float | None) -> float | None:
    """A number for JSON, which has no infinity: None is open."""
    return value if value is not None and math.isfinite(value) else None


# Estimates ----------------------------------------------------------------------------------------
CLOCK_WORDS = {"wall": "emulated", "virtual": "simulated"}


@dataclass(frozen=True)
class Contender:
    """A scheduler with a flow scheduler, on one clock."""

    scheduler: str
    flow_scheduler: str
    clock: str  #: "wall" or "virtual"


@dataclass(frozen=True, kw_only=True)
class Twins:
    """Simulations of one emulated run: its jobs, with the blocks where they were in that run."""

    first: Summary  #: on ideal nodes
    others: Sequence[Summary]  #: with tasks a few ms shorter or longer, each as likely


@dataclass(frozen=True, kw_only=True)
class Row:
    """A contender's row of the table."""

    contender: Contender
    label: str  #: the scheduler, with its flow scheduler if there are several
    colour: int  #: the index of its label, which both clocks share
    name: str  #: the label, with the clock if there are two, and " !" if it has a flaw
    runs: Sequence[Summary]  #: by seed
    cells: Mapping[str, Estimate | None]  #: by the metrics' keys; None: some run has it not
    twins: Sequence[Twins] = field(default=())  #: of each emulated run; none if not simulated, too

    @property
    def clock(self) -> str:
        """Its clock in words: "emulated", "simulated"."""
        return CLOCK_WORDS[self.contender.clock]

    @property
    def flaw(self) -> str:
        """Why its numbers cannot be trusted; "" if they can."""
        return _flaw(self.runs)

    @property
    def seeds(self) -> list[int]:
        return [run["seed"] for run in self.runs]

    def mean(self, metric: Metric) -> float:
        """The metric's mean over seeds, of one that every run has."""
        cell = self.cells[metric.key]
        assert cell is not None, "some run has it not"
        return cell.mean

    def values(self, metric: Metric) -> list[float]:
        """The metric's values by seed; none if some run has it not."""
        return all_known([metric.of(run) for run in self.runs])

    def twin(self, metric: Metric) -> float | None:
        """Mean over seeds of the emulated runs' first twins; None if not known."""
        values = all_known([metric.of(twins.first) for twins in self.twins])
        return fmean(values) if values else None

    def by_chance(self, metric: Metric) -> list[float]:
        """Means over seeds that were as likely, of the other twins; none if not known."""
        draws = zip(*(twins.others for twins in self.twins), strict=True)
        found = [all_known([metric.of(run) for run in draw]) for draw in draws]
        return [fmean(values) for values in found if values]

    def chance_range(self, metric: Metric) -> tuple[float, float] | None:
        """Least and most of these; None if not known."""
        found = self.by_chance(metric)
        return (min(found), max(found)) if found else None


def rows_of(
    runs: Mapping[Contender, Sequence[Summary]],
    twins: Mapping[Contender, Sequence[Twins]] = MappingProxyType({}),
) -> list[Row]:
    """The rows; contenders of one clock have the same seeds in the same order."""
    labels = labelled(runs)
    colours = list(dict.fromkeys(labels.values()))
    both = len({contender.clock for contender in runs}) > 1
    return [
        Row(
            contender=contender,
            label=label,
            colour=colours.index(label),
            name=label
            + (f", {CLOCK_WORDS[contender.clock]}" if both else "")
            + (" !" if _flaw(own) else ""),
            runs=own,
            cells={metric.key: _cell(metric, own) for metric in METRICS},
            twins=twins.get(contender, ()),
        )
        for contender, own in runs.items()
        for label in [labels[contender]]
    ]


def _flaw(runs: Sequence[Summary]) -> str:
    for run in runs:
        if run.get("verified") is False or not all(job["ok"] for job in run.get("jobs", ())):
            return "a job failed or its output is wrong"
    return "" if all(map(is_trusted, runs)) else "the machine was too busy"


def labelled(contenders: Iterable[Contender]) -> dict[Contender, str]:
    """Each contender's label, with its flow scheduler if they have several."""
    every = list(contenders)
    several = len({each.flow_scheduler for each in every}) > 1
    return {
        each: f"{each.scheduler} + {each.flow_scheduler}" if several else each.scheduler
        for each in every
    }


def metrics_of(rows: Sequence[Row]) -> list[Metric]:
    """The metrics that a table of these rows has."""
    return [
        metric
        for metric in METRICS
        if not metric.unless_zero
        or any(cell.mean for row in rows if (cell := row.cells[metric.key]))
    ]


def unit_of(metric: Metric, rows: Sequence[Row]) -> Unit:
    """The unit of a metric's column, by the largest of these rows' means."""
    known = [cell.mean for row in rows if (cell := row.cells[metric.key]) is not None]
    return metric.kind.unit(max(known, default=0.0))


@dataclass(frozen=True, kw_only=True)
class OwnFigure:
    """A figure that a contender's policies gave with every seed."""

    row: Row
    policy: str
    name: str
    value: Estimate

    @property
    def words(self) -> str:
        """Its name without its unit."""
        return figure_words(self.name)

    def cells(self) -> tuple[str, str]:
        """Its value, and the half width of its interval, "" from one seed; both in one unit."""
        spread = self.value.half_width
        unit = figure_unit(self.name, max(abs(self.value.mean), spread or 0.0))
        return unit.show(self.value.mean), "" if spread is None else f"± {unit.show(spread)}"


def own_figures(rows: Sequence[Row]) -> list[OwnFigure]:
    """The policies' own figures, contender by contender."""
    found = []
    for row in rows:
        every = [
            {(policy, name): value for policy, of in given.items() for name, value in of.items()}
            for run in row.runs
            for given in [run.get("figures", {})]
        ]
        found += [
            OwnFigure(
                row=row,
                policy=policy,
                name=name,
                value=estimate([figures[policy, name] for figures in every]),
            )
            for policy, name in every[0]
            if all((policy, name) in figures for figures in every)
        ]
    return found


def _cell(metric: Metric, runs: Sequence[Summary]) -> Estimate | None:
    values = all_known([metric.of(run) for run in runs])
    return estimate(values) if values else None


def all_known(values: Sequence[float | None]) -> list[float]:
    """The values; none if one is not known."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


# Counters of the jobs' own code -------------------------------------------------------------------
#: The number of a job of a mix: "terasort-2".
_NUMBER = re.compile(r"-\d+$")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A counter of all jobs of a run together."""

    name: str  #: with the jobs' name if jobs of several names counted
    who: str  #: a contender's label, or "all" if it is the same under all of a clock
    value: Estimate

    def text(self) -> str:
        """Its mean, and the half width of its interval."""
        spread = self.value.half_width
        within = f" ± {format_number(spread)}" if spread else ""
        return f"{format_number(self.value.mean)}{within}"


def counted(rows: Sequence[Row]) -> list[Counted]:
    """All counters of each clock; once, if it is the same under all contenders with every seed."""
    found = []
    for _, of in groupby(rows, key=lambda row: row.contender.clock):
        totals = {row.label: [_totals(run) for run in row.runs] for row in of}
        keys = sorted({key for runs in totals.values() for run in runs for key in run})
        several = len({job for job, _ in keys}) > 1
        for job, counter in keys:
            values = {who: [run[job, counter] for run in runs] for who, runs in totals.items()}
            [first, *others] = values.values()
            if all(each == first for each in others):
                values = {"all": first}
            name = f"{job}: {counter}" if several else counter
            found += [
                Counted(name=name, who=who, value=estimate(each)) for who, each in values.items()
            ]
    return found


def _totals(run: Summary) -> Counter[tuple[str, str]]:
    """The counts of a run's jobs by their name without number, and the counter's name."""
    totals: Counter[tuple[str, str]] = Counter()
    for job in run.get("jobs", ()):
        for name, count in own_counters(job).items():
            totals[_NUMBER.sub("", job["name"]), name] += count
    return totals
