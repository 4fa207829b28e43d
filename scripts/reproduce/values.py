"""The numbers of figures: means over seeds with their confidence, beside published ones.  Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railyard.scripts.comparing.estimates import Estimate, estimate
from railyard.scripts.reproduce.figures import Figure, Line, Published, Setup
from railyard.scripts.reproduce.measures import ALONE_S, Quantity, Summary, times_alone


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
