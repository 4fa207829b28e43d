"""What a comparison says: each contender against the first one of its clock.  Pure.

The terminal, the page and the JSON show these statements, and make none of their own.  There is one
for each compared metric, good or bad.  A difference is called one only if chance does not explain
it: over several seeds, if its interval is on one side of no change, where all intervals of the
comparison hold together with 95 % confidence.  Of one seed nothing is called a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from railyard.cluster.units import PERCENT, format_change, format_count, format_ratio
from railyard.experiments.contenders import (
    CLOCK_WORDS,
    Contender,
    Row,
    firsts,
    label_rows,
    own_figures,
)
from railyard.experiments.estimates import TOGETHER, Change, Estimate, change
from railyard.runs.figures import COMPARED, METRICS, Metric, Summary, is_trusted


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

    who: Contender
    first: Contender
    first_label: str
    metric: Metric
    seeds: int
    value: float  #: means over seeds
    against: float
    change: Change
    verdict: Verdict
    #: of one seed, the least and the most that chance makes of either; () if not known
    by_chance: tuple[tuple[float, float], ...]
    flaw: str  #: why a run cannot be trusted; "" if all can

    @property
    def words(self) -> str:
        """A sentence without its subject and full stop."""
        show, called = self.metric.show, _CALLED[self.metric.key]
        if self.verdict is Verdict.SAME:
            return f"{called} is that of {self.first_label} with every seed: {show(self.value)}"
        return (
            f"{called} is {self._size()} {self.first_label}: {show(self.value)} against "
            f"{show(self.against)}{self._doubt()}"
        )

    def interval(self) -> str:
        """The interval of the change, without its unit's name if it is a ratio; "" without one."""
        if self.change.low is None or self.change.high is None:
            return ""
        ends = (self.change.low, self.change.high)
        return " to ".join(self._show(end) for end in ends)

    def amount(self) -> str:
        """The change: a ratio, or a difference with its sign."""
        return self._show(self.change.mean)

    def chance(self) -> str:
        """The range by chance of either, of one seed; "" if not known."""
        ranges = [" to ".join(map(self.metric.show, ends)) for ends in self.by_chance]
        return " against ".join(ranges)

    def _size(self) -> str:
        within = f" ({interval})" if (interval := self.interval()) else ""
        if self.change.kind == "ratio":
            return f"{self.amount()} times{within} that of"
        return f"{self.amount()}{within} beside that of"

    def _doubt(self) -> str:
        if self.verdict is Verdict.UNTRUSTED:
            return f"; not to be trusted: {self.flaw}"
        if self.verdict is Verdict.CHANCE:
            return "; may be chance"
        if self.verdict is not Verdict.ONE_SEED:
            return ""
        chance = self.chance()
        return f"; one seed, of which chance makes {chance or 'nobody knows what'}"

    def _show(self, amount: float) -> str:
        if self.change.kind == "ratio":
            return format_ratio(amount)
        return f"{'-' if amount < 0 else '+'}{self.metric.show(abs(amount))}"


@dataclass(frozen=True, kw_only=True)
class Statements:
    """All that a comparison says."""

    every: tuple[Statement, ...]  #: by contender, then by metric
    intervals: int  #: that hold together

    def of(self, contender: Contender) -> dict[str, Statement]:
        """A contender's statements by the metrics' keys; none of a first one."""
        return {one.metric.key: one for one in self.every if one.who == contender}

    def rule(self, rows: Sequence[Row]) -> str:
        """By which rule a difference is called one: a sentence or two."""
        said = []
        if self.intervals:
            said.append(
                f"Better or worse is what chance does not explain: ratios are of equal seeds, and "
                f"all {format_count(self.intervals, 'interval')} hold together with "
                f"{PERCENT.digits(TOGETHER)}% confidence."
            )
        for clock, first in firsts(rows).items():
            if len(first.runs) == 1 and any(one.who.clock == clock for one in self.every):
                said.append(
                    f"One {CLOCK_WORDS[clock]} run of each rules no chance out: see --seeds."
                )
        return " ".join(said)


def statements(rows: Sequence[Row]) -> Statements:
    """What is said of these rows."""
    labels = label_rows(rows)
    base = firsts(rows)
    pairs = [
        (row, first, metric, own, against)
        for row in rows
        if (first := base[row.contender.clock]) is not row
        for metric in COMPARED
        if (own := row.values(metric)) and (against := first.values(metric))
    ]
    intervals = sum(len(own) > 1 for *_, own, _ in pairs)
    every = tuple(
        _statement(
            row, first, labels[first.contender], metric, change(own, against, max(1, intervals))
        )
        for row, first, metric, own, against in pairs
    )
    return Statements(every=every, intervals=intervals)


def flaw(row: Row) -> str:
    """Why a row's numbers cannot be trusted; "" if they can."""
    if any(_has_failed(run) for run in row.runs):
        return "a job failed or its output is wrong"
    if not all(map(is_trusted, row.runs)):
        return "the machine was too busy"
    return ""


def first_failure(row: Row) -> str:
    """Which job of a row's runs failed first, and why; "" if none did."""
    failed = (job for run in row.runs for job in run.get("jobs", ()) if job["ok"] is False)
    job = next(failed, None)
    return "" if job is None else f"{job['name']} failed: {job.get('reason', '')}"


def statement_as_json(one: Statement) -> dict[str, Any]:
    """A statement for programs."""
    return {
        "metric": one.metric.key,
        "verdict": one.verdict.value,
        "against": one.first_label,
        "seeds": one.seeds,
        one.change.kind: _finite(one.change.mean),
        "low": _finite(one.change.low),
        "high": _finite(one.change.high),
        "by_chance": [list(ends) for ends in one.by_chance],
        "words": one.words,
    }


def _statement(row: Row, first: Row, label: str, metric: Metric, found: Change) -> Statement:
    own, against = row.cells[metric.key], first.cells[metric.key]
    assert own is not None, "as its values are known"
    assert against is not None, "likewise"
    seeds = len(row.runs)
    ranges = [row.by_chance(metric), first.by_chance(metric)] if seeds == 1 else []
    return Statement(
        who=row.contender,
        first=first.contender,
        first_label=label,
        metric=metric,
        seeds=seeds,
        value=own.mean,
        against=against.mean,
        change=found,
        verdict=_verdict(found, seeds, flaw(row) or flaw(first)),
        by_chance=tuple((min(each), max(each)) for each in ranges if each) if all(ranges) else (),
        flaw=flaw(row) or flaw(first),
    )


def _verdict(found: Change, seeds: int, flawed: str) -> Verdict:
    if flawed:
        return Verdict.UNTRUSTED
    if seeds == 1:
        return Verdict.ONE_SEED
    if found.low == found.none == found.high:
        return Verdict.SAME
    if not found.is_sure:
        return Verdict.CHANCE
    return Verdict.BETTER if found.mean < found.none else Verdict.WORSE


def _has_failed(run: Summary) -> bool:
    return run["verified"] is False or not all(job["ok"] for job in run.get("jobs", ()))


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: None is open."""
    return value if value is not None and math.isfinite(value) else None


# Do the two clocks agree?  Emulated and simulated metrics, and how chance varies them.  Pure.
#
# An emulated run is compared with its twins: simulations of the same jobs that begin with the
# blocks where they were in that run.  Where they were depends on which generating task ran where,
# so twins are not the same each time; the simulated runs of a comparison, whose blocks the seed
# places, are.


#: Keys of the metrics that are compared.
_KEYS = ("makespan_s", "jct_s.mean", "cct_s.mean")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A metric on both clocks."""

    contender: Contender
    who: str
    metric: Metric
    emulated: float
    simulated: float  #: of the twins
    from_seed: float | None  #: simulated with the same seeds, with blocks that the seed places
    by_chance: tuple[float, float] | None  #: least and most of further twins
    beyond_chance: bool  #: whether the further twins do not explain the emulated value
    flaw: str  #: why the emulated value cannot be trusted; "" if it can

    @property
    def difference(self) -> float:
        """(emulated - simulated) / simulated."""
        return self.emulated / self.simulated - 1

    def shown(self) -> tuple[str, str, str, str, str]:
        """Emulated, its twins', the difference, its range by chance, simulated from the seed."""
        show = self.metric.show
        low_high = "" if self.by_chance is None else " to ".join(map(show, self.by_chance))
        from_seed = "-" if self.from_seed is None else show(self.from_seed)
        return show(self.emulated), show(self.simulated), self._off(), low_high, from_seed

    @property
    def doubt(self) -> str:
        """What must be said beside the emulated value; "" for nothing."""
        if self.flaw:
            return f"not to be trusted: {self.flaw}"
        return "beyond chance" if self.beyond_chance else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric.key,
            "emulated": self.emulated,
            "simulated_with_its_blocks": self.simulated,
            "simulated_from_seed": self.from_seed,
            "by_chance": self.by_chance,
            "beyond_chance": self.beyond_chance,
            "trusted": not self.flaw,
        }

    def _off(self) -> str:
        return format_change(self.difference)


def agreements(rows: Sequence[Row], labels: Mapping[Contender, str]) -> list[Agreement]:
    """Emulated beside simulated; none unless both clocks ran."""
    simulated = {labels[row.contender]: row for row in rows if row.contender.clock == "virtual"}
    metrics = [metric for metric in METRICS if metric.key in _KEYS]
    pairs = [
        (row, metric, own.mean, twin)
        for row in rows
        for metric in metrics
        if (own := row.cells[metric.key]) is not None and (twin := row.twin(metric))
    ]
    return [
        Agreement(
            contender=row.contender,
            who=labels[row.contender],
            metric=metric,
            emulated=value,
            simulated=twin,
            from_seed=_from_seed(simulated.get(labels[row.contender]), row, metric),
            by_chance=(min(others), max(others)) if (others := row.by_chance(metric)) else None,
            beyond_chance=_is_beyond(value, others, len(pairs)),
            flaw=flaw(row),
        )
        for row, metric, value, twin in pairs
    ]


def _from_seed(other: Row | None, row: Row, metric: Metric) -> float | None:
    """Mean of the simulated runs with the emulated seeds."""
    if other is None:
        return None
    values = [metric.of(run) for run in other.runs if run["seed"] in row.seeds]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(row.runs) else None


def _is_beyond(value: float, others: Sequence[float], values: int) -> bool:
    """Whether ``value`` is no further draw: it is outside of all, and of where one would be.

    That is Student's prediction interval; ``values`` of them hold together with ``TOGETHER``.
    """
    if len(others) < 2 or min(others) <= value <= max(others):
        return False
    from scipy.stats import t

    mean = math.fsum(others) / len(others)
    squares = math.fsum((other - mean) ** 2 for other in others) / (len(others) - 1)
    beyond = float(t.ppf(1 - (1 - TOGETHER) / values / 2, len(others) - 1))
    return abs(value - mean) > beyond * math.sqrt(squares * (1 + 1 / len(others)))


# A comparison for programs.  Pure.


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each contender."""
    own, said = own_figures(rows), statements(rows)
    agreed = agreements(rows, label_rows(rows))
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
            "statements": [statement_as_json(one) for one in said.of(row.contender).values()],
            "own_figures": {
                f"{figure.policy}.{figure.name}": _estimate_as_json(figure.value)
                for figure in own
                if figure.contender == row.contender
            },
            "agreement": [one.as_json() for one in agreed if one.contender == row.contender],
            "by_chance": {
                metric.key: (min(found), max(found))
                for metric in METRICS
                if (found := row.by_chance(metric))
            },
            "runs": row.runs,
        }
        for row in rows
    ]


def _estimate_as_json(value: Estimate) -> dict[str, Any]:
    return {"mean": value.mean, "ci95_half_width": value.half_width}


def _ratio(one: Statement | None) -> dict[str, float]:
    return {} if one is None or one.change.kind != "ratio" else {"ratio": one.change.mean}
