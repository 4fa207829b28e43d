"""The differences between contenders, in sentences.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railyard.scripts.comparing.metrics import METRICS, Cell, Contender, Metric, Row

#: Metrics with a sentence; the rest are in the table only.
_REPORTED = ("makespan_s", "jct_s.mean", "cct_s.mean", "cross_rack_bytes", "node_local")
_CALLED = {
    "makespan_s": "makespan",
    "jct_s.mean": "mean job completion time",
    "cct_s.mean": "mean coflow completion time",
    "cross_rack_bytes": "cross-rack traffic",
    "node_local": "share of node-local maps",
}
#: From a single seed, a smaller difference says nothing.
_WORTH_A_SENTENCE = 0.03


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One difference."""

    who: str
    what: str
    better: bool


def differences(rows: Sequence[Row], labels: Mapping[Contender, str]) -> list[Sentence]:
    """The significant differences of contenders from the first one on their clock.

    If both clocks ran, those of the emulation: it moved real bytes.
    """
    clock = rows[0].contender.clock
    shown = [row for row in rows if row.contender.clock == clock]
    first = labels[shown[0].contender]
    metrics = [metric for metric in METRICS if metric.key in _REPORTED]
    return [
        Sentence(who=labels[row.contender], what=_say(metric, cell, base, first), better=better)
        for row in shown[1:]
        for metric in metrics
        if (cell := row.cells[metric.key]) is not None
        and (base := shown[0].cells[metric.key]) is not None
        and (better := _verdict(metric, cell)) is not None
    ]


def _verdict(metric: Metric, cell: Cell) -> bool | None:
    """Whether it is better than the first one's; None if the difference is not significant."""
    if cell.ratio is None or metric.less_is_better is None:
        return None
    if cell.ratio.half_width is not None:
        if not cell.differs:
            return None
    elif abs(cell.ratio.mean - 1) < _WORTH_A_SENTENCE:
        return None
    return (cell.ratio.mean < 1) == metric.less_is_better


def _say(metric: Metric, cell: Cell, base: Cell, first: str) -> str:
    assert cell.ratio is not None, "as _verdict has seen"
    called = _CALLED[metric.key]
    values = f"{metric.show(cell.value.mean)} against {metric.show(base.value.mean)}"
    change = cell.ratio.mean - 1
    if abs(change) >= 1:
        return f"{called} is {cell.ratio.mean:.1f} times that of {first}: {values}"
    way = _way(metric, change)
    return f"{called} is {abs(change):.0%} {way} than with {first}: {values}"


def _way(metric: Metric, change: float) -> str:
    if metric.key.endswith(("_s", ".mean")):
        return "shorter" if change < 0 else "longer"
    return "smaller" if change < 0 else "larger"
