"""What a comparison says: each contender against the first one of its clock.  Pure.

The terminal, the page and the JSON show these statements, and make none of their own.  There is one
for each compared metric, good or bad.  A difference is called one only if chance does not explain
it: over several seeds, if its interval is on one side of no change, where all intervals of the
comparison hold together with 95 % confidence.  Of one seed nothing is called a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any

from railyard.cluster.units import PERCENT, format_change, format_count, format_ratio
from railyard.experiments.contenders import (
    TOGETHER,
    Change,
    Contender,
    Counted,
    Estimate,
    OwnFigure,
    Row,
    change,
    counted,
    estimate,
    finite,
    metrics_of,
    own_figures,
)
from railyard.runs.figures import COMPARED, METRICS, Metric, is_trusted
from railyard.terminal import tables
from railyard.terminal.tables import Column

if TYPE_CHECKING:
    from rich.console import Console


class Verdict(Enum):
    """What is said of a metric; the value is the word for people and programs."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "the same"  #: with every seed
    CHANCE = "may be chance"
    ONE_SEED = "one seed"  #: so that chance is not ruled out
    UNTRUSTED = "not to be trusted"  #: a run of either has a flaw

    @property
    def mark(self) -> str:
        """One letter, for narrow tables."""
        return _MARKS[self]


_MARKS = {
    Verdict.BETTER: "+",
    Verdict.WORSE: "-",
    Verdict.SAME: "=",
    Verdict.CHANCE: "?",
    Verdict.ONE_SEED: "?",
    Verdict.UNTRUSTED: "!",
}

_CALLED = {
    "makespan_s": "makespan",
    "jct_s.mean": "mean job completion time",
    "jct_s.p95": "p95 of job completion times",
    "cct_s.mean": "mean coflow completion time",
    "cct_s.p95": "p95 of coflow completion times",
    "cross_rack_bytes": "traffic between racks",
}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A metric of a contender against that of the first one."""

    row: Row
    first: Row
    metric: Metric
    change: Change

    @property
    def who(self) -> Contender:
        return self.row.contender

    @property
    def verdict(self) -> Verdict:
        found = self.change
        if self.row.flaw or self.first.flaw:
            return Verdict.UNTRUSTED
        if len(self.row.runs) == 1:
            return Verdict.ONE_SEED
        if found.low == found.none == found.high:
            return Verdict.SAME
        if not found.is_sure:
            return Verdict.CHANCE
        return Verdict.BETTER if found.mean < found.none else Verdict.WORSE

    @property
    def by_chance(self) -> tuple[tuple[float, float], ...]:
        """Of one seed, the least and the most that chance makes of either; () if not known."""
        ranges = [row.chance_range(self.metric) for row in (self.row, self.first)]
        known = tuple(ends for ends in ranges if ends is not None)
        return known if len(self.row.runs) == 1 and len(known) == len(ranges) else ()

    @property
    def words(self) -> str:
        """A sentence without its subject and full stop."""
        called, of = _CALLED[self.metric.key], self.first.label
        value, against = (self.metric.show(row.mean(self.metric)) for row in (self.row, self.first))
        if self.verdict is Verdict.SAME:
            return f"{called} is that of {of} with every seed: {value}"
        within = f" ({interval})" if (interval := self.interval()) else ""
        size = f"{self.amount()} times{within} that of"
        if self.change.kind == "difference":
            size = f"{self.amount()}{within} beside that of"
        return f"{called} is {size} {of}: {value} against {against}{self._doubt()}"

    def interval(self) -> str:
        """The interval of the change, without its unit's name if it is a ratio; "" without one."""
        if self.change.low is None or self.change.high is None:
            return ""
        return " to ".join(map(self._show, (self.change.low, self.change.high)))

    def amount(self) -> str:
        """The change: a ratio, or a difference with its sign."""
        return self._show(self.change.mean)

    def chance(self) -> str:
        """The range by chance of either, of one seed; "" if not known."""
        ranges = [" to ".join(map(self.metric.show, ends)) for ends in self.by_chance]
        return " against ".join(ranges)

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric.key,
            "verdict": self.verdict.value,
            "against": self.first.label,
            "seeds": len(self.row.runs),
            self.change.kind: finite(self.change.mean),
            "low": finite(self.change.low),
            "high": finite(self.change.high),
            "by_chance": [list(ends) for ends in self.by_chance],
            "words": self.words,
        }

    def _doubt(self) -> str:
        if self.verdict is Verdict.UNTRUSTED:
            return f"; not to be trusted: {self.row.flaw or self.first.flaw}"
        if self.verdict is Verdict.ONE_SEED:
            return f"; one seed, of which chance makes {self.chance() or 'nobody knows what'}"
        return "; may be chance" if self.verdict is Verdict.CHANCE else ""

    def _show(self, amount: float) -> str:
        if self.change.kind == "ratio":
            return format_ratio(amount)
        return f"{'-' if amount < 0 else '+'}{self.metric.show(abs(amount))}"


@dataclass(frozen=True, kw_only=True)
class Statements:
    """All that a comparison says."""

    every: tuple[Statement, ...]  #: by contender, then by metric
    intervals: int  #: that hold together

    def of(self, who: Contender) -> dict[str, Statement]:
        """A contender's statements by the metrics' keys; none of a first one."""
        return {one.metric.key: one for one in self.every if one.who == who}

    def rule(self) -> str:
        """By which rule a difference is called one: a sentence or two."""
        words = []
        if self.intervals:
            words.append(
                f"Better or worse is what chance does not explain: ratios are of equal seeds, and "
                f"all {format_count(self.intervals, 'interval')} hold together with "
                f"{PERCENT.digits(TOGETHER)}% confidence."
            )
        single = dict.fromkeys(one.row.clock for one in self.every if len(one.row.runs) == 1)
        words += [f"One {clock} run of each rules no chance out: see --seeds." for clock in single]
        return " ".join(words)


def statements(rows: Sequence[Row]) -> Statements:
    """What is said of these rows."""
    firsts: dict[str, Row] = {}
    pairs = [
        (row, first, metric, own, against)
        for row in rows
        if (first := firsts.setdefault(row.contender.clock, row)) is not row
        for metric in COMPARED
        if (own := row.values(metric)) and (against := first.values(metric))
    ]
    intervals = sum(len(own) > 1 for *_, own, _ in pairs)
    of = max(1, intervals)
    every = tuple(
        Statement(row=row, first=first, metric=metric, change=change(own, against, of))
        for row, first, metric, own, against in pairs
    )
    return Statements(every=every, intervals=intervals)


def first_failure(row: Row) -> str:
    """Which job of a row's runs failed first, and why; "" if none did."""
    failed = (job for run in row.runs for job in run.get("jobs", ()) if job["ok"] is False)
    job = next(failed, None)
    return "" if job is None else f"{job['name']} failed: {job.get('reason', '')}"


# The two clocks ----------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A metric on both clocks: of an emulated run and of its twins (``experiments.comparison``)."""

    row: Row  #: emulated
    metric: Metric
    emulated: float
    simulated: float  #: of the twins
    from_seed: float | None  #: simulated with the same seeds, with blocks that the seed places
    beyond_chance: bool  #: whether further twins do not explain the emulated value

    @property
    def difference(self) -> float:
        """(emulated - simulated) / simulated."""
        return self.emulated / self.simulated - 1

    @property
    def by_chance(self) -> tuple[float, float] | None:
        """Least and most of further twins."""
        return self.row.chance_range(self.metric)

    def cells(self) -> tuple[str, str, str, str, str]:
        """Emulated, its twins', the difference, its range by chance, simulated from the seed."""
        show = self.metric.show
        low_high = "" if self.by_chance is None else " to ".join(map(show, self.by_chance))
        from_seed = "-" if self.from_seed is None else show(self.from_seed)
        off = format_change(self.difference)
        return show(self.emulated), show(self.simulated), off, low_high, from_seed

    @property
    def doubt(self) -> str:
        """What must be said beside the emulated value; "" for nothing."""
        if self.row.flaw:
            return f"not to be trusted: {self.row.flaw}"
        return "beyond chance" if self.beyond_chance else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric.key,
            "emulated": self.emulated,
            "simulated_with_its_blocks": self.simulated,
            "simulated_from_seed": self.from_seed,
            "by_chance": self.by_chance,
            "beyond_chance": self.beyond_chance,
            "trusted": not self.row.flaw,
        }


def agreements(rows: Sequence[Row]) -> list[Agreement]:
    """Emulated beside simulated; none unless both clocks ran."""
    simulated = {row.label: row for row in rows if row.contender.clock == "virtual"}
    metrics = [each for each in METRICS if each.key in ("makespan_s", "jct_s.mean", "cct_s.mean")]
    pairs = [
        (row, metric, own.mean, twin)
        for row in rows
        for metric in metrics
        if (own := row.cells[metric.key]) is not None and (twin := row.twin(metric))
    ]
    return [
        Agreement(
            row=row,
            metric=metric,
            emulated=value,
            simulated=twin,
            from_seed=_from_seed(simulated.get(row.label), row, metric),
            beyond_chance=_is_beyond(value, row.by_chance(metric), len(pairs)),
        )
        for row, metric, value, twin in pairs
    ]


def _from_seed(other: Row | None, row: Row, metric: Metric) -> float | None:
    """Mean of the simulated runs with the emulated seeds."""
    if other is None:
        return None
    values = [metric.of(run) for run in other.runs if run["seed"] in row.seeds]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(row.runs) else None


def _is_beyond(value: float, others: Sequence[float], values: int) -> bool:
    """Whether ``value`` is no further draw: it is outside of all, and of where one would be.

    That is Student's prediction interval; ``values`` of them hold together with ``TOGETHER``.
    """
    if len(others) < 2 or min(others) <= value <= max(others):
        return False
    found = estimate(others, 1 - (1 - TOGETHER) / values)
    assert found.half_width is not None, "of several"
    return abs(value - found.mean) > found.half_width * math.sqrt(len(others) + 1)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A comparison for programs: a row for each contender."""
    own, said, agreed = own_figures(rows), statements(rows), agreements(rows)
    return [
        {
            "scheduler": row.contender.scheduler,
            "flow_scheduler": row.contender.flow_scheduler,
            "clock": row.contender.clock,
            "seeds": row.seeds,
            "verified": [run["verified"] for run in row.runs],
            "trusted": [is_trusted(run) for run in row.runs],
            "figures": {
                key: cell and _estimate_as_json(cell) | _ratio(said.of(row.contender).get(key))
                for key, cell in row.cells.items()
            },
            "statements": [one.as_json() for one in said.of(row.contender).values()],
            "own_figures": {
                f"{figure.policy}.{figure.name}": _estimate_as_json(figure.value)
                for figure in own
                if figure.row is row
            },
            "agreement": [one.as_json() for one in agreed if one.row is row],
            "by_chance": {
                metric.key: found
                for metric in METRICS
                if (found := row.chance_range(metric)) is not None
            },
            "runs": row.runs,
        }
        for row in rows
    ]


def _estimate_as_json(value: Estimate) -> dict[str, Any]:
    return {"mean": value.mean, "ci95_half_width": value.half_width}


def _ratio(one: Statement | None) -> dict[str, float]:
    return {} if one is None or one.change.kind != "ratio" else {"ratio": one.change.mean}


# On the terminal ----------------------------------------------------------------------------------
#: So many contenders besides the first have their statements listed; more have marks only.
_LISTED_MAX = 5
#: Rows of counters; programs get all.
_COUNTERS_MAX = 40
_OF_BLOCKS = (
    "Its blocks: where the emulated run had them, which is not the same each time.  Seed's blocks: "
    "where the seed puts them, as in the table of simulated runs.  By chance: of more simulations "
    "with its blocks, and tasks a few ms shorter or longer."
)
_VALUE = Column("", tables.plain_numbers)
_AGREEMENT = (
    Column("emulated", tables.plain_numbers),
    Column("simulated, its blocks", tables.plain_numbers),
    Column("off by", tables.plain_numbers),
    Column("by chance", tables.plain_numbers, rank=1),
    Column("seed's blocks", tables.plain_numbers, rank=2),
)
_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNTRUSTED: "yellow"}


def show(rows: Sequence[Row], title: str) -> None:
    """Print it, clock by clock; below each compared metric its change from the first one's."""
    console = tables.plain_console(highlight=False)
    console.print(tables.cell(title, "bold"))
    said, own = statements(rows), own_figures(rows)
    for clock, of in groupby(rows, key=lambda row: row.clock):
        same = list(of)
        console.print(f"\n{clock}, {_seeds(same[0].seeds)}")
        for _, metrics in groupby(metrics_of(rows), key=lambda metric: metric.compared):
            _show_figures(console, same, list(metrics), said)
        for row in same:
            if row.flaw:
                words = f"! {row.label}: not to be trusted: {first_failure(row) or row.flaw}"
                console.print(tables.cell(words, "yellow"))
        if 1 < len(same) <= 1 + _LISTED_MAX:
            _show_statements(console, same, said)
    if said.every:
        marks = f"Below a number: its ratio to {rows[0].label}'s on the same clock; + better, "
        marks += "- worse, = the same, ? may be chance, ! not to be trusted."
        console.print()
        console.print(tables.cell(marks, "dim"))
        console.print(tables.cell(said.rule(), "dim"))
    if found := agreements(rows):
        _show_agreements(console, found)
    if own:
        _show_own(console, own)
    if counts := counted(rows):
        _show_counters(console, counts)


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}: means"


def _show_figures(
    console: Console, rows: Sequence[Row], metrics: Sequence[Metric], said: Statements
) -> None:
    lines: list[list[tables.Cell]] = []
    for row in rows:
        cells = [row.cells[metric.key] for metric in metrics]
        who = row.label + (" !" if row.flaw else "")
        lines.append([who, *(None if cell is None else cell.mean for cell in cells)])
        marks = said.of(row.contender)
        changes = [marks.get(metric.key) for metric in metrics]
        if any(changes):
            marked = (
                "" if one is None else tables.cell(f"{one.amount()} {one.verdict.mark}", "dim")
                for one in changes
            )
            lines.append(["", *marked])
    columns = [Column(each.title, each.kind.unit, rank=n) for n, each in enumerate(metrics)]
    tables.show_table(console, [Column(""), *columns], lines, elsewhere="--json")


def _show_statements(console: Console, rows: Sequence[Row], said: Statements) -> None:
    lines: list[list[tables.Cell]] = []
    for row in rows[1:]:
        who = row.label
        for one in said.of(row.contender).values():
            verdict = one.verdict.value
            if one.verdict is Verdict.ONE_SEED and one.by_chance:
                verdict = f"by chance {one.chance()}"
            shown = tables.cell(verdict, _STYLES.get(one.verdict, ""))
            lines.append([who, one.metric.title, one.amount(), one.interval(), shown])
            who = ""
    columns = (
        Column(f"against {rows[0].label}"),
        Column(""),
        Column("ratio", tables.plain_numbers),
        Column("interval", tables.plain_numbers, rank=1),
        Column(""),
    )
    console.print()
    tables.show_table(console, columns, lines, elsewhere="--json")


def _show_agreements(console: Console, found: Sequence[Agreement]) -> None:
    console.print("\nDo the two clocks agree?")
    lines: list[list[tables.Cell]] = []
    doubts: list[str] = []
    for who, same in groupby(found, key=lambda one: one.row.label):
        lines.append([tables.cell(who, "bold"), *[""] * len(_AGREEMENT)])
        for one in same:
            mark = " !" if one.doubt else ""
            lines.append([f"  {one.metric.title}{mark}", *one.cells()])
            if one.doubt:
                doubts.append(f"! {who}, {one.metric.title}: {one.doubt}")
    tables.show_table(console, (Column(""), *_AGREEMENT), lines, elsewhere="--json")
    for doubt in doubts:
        console.print(tables.cell(doubt, "yellow"))
    console.print(tables.cell(_OF_BLOCKS, "dim"))


def _show_own(console: Console, own: Sequence[OwnFigure]) -> None:
    console.print("\nThe schedulers' own figures")
    lines: list[list[tables.Cell]] = []
    for name, same in groupby(own, key=lambda one: one.row.name):
        who = name
        for one in same:
            lines.append([who, one.policy, one.words, " ".join(filter(None, one.cells()))])
            who = ""
    columns = (Column("scheduler"), Column("policy"), Column("figure"), _VALUE)
    tables.show_table(console, columns, lines)


def _show_counters(console: Console, counts: Sequence[Counted]) -> None:
    console.print("\nWhat the jobs counted, all of a run together")
    some = counts[:_COUNTERS_MAX]
    lines: list[list[tables.Cell]] = [[one.name, one.who, one.text()] for one in some]
    tables.show_table(console, (Column("counter"), Column("scheduler"), _VALUE), lines)
    if len(counts) > _COUNTERS_MAX:
        console.print(f"{len(counts) - _COUNTERS_MAX} more are in --json")
