"""Means over seeds, changes from one scheduler to another, and how sure they are.  Pure.

Runs with the same seed have the same jobs, so values are compared seed by seed: what differs from
seed to seed for both schedulers cancels.  A change is the geometric mean of the ratios, with the
interval of Student's t for their logarithms; docs/decisions/comparisons.md says why this test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
    mean = math.fsum(values) / len(values)
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
