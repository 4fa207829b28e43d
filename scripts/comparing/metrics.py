"""The metrics of a run by which schedulers are compared.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railyard.cluster.units import (
    NO_UNIT,
    PERCENT,
    Unit,
    format_digits,
    format_duration,
    format_share,
    format_size,
    size_unit,
    time_unit,
)

Summary = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What a metric's values are."""

    show: Callable[[float], str]  #: with its unit
    unit: Callable[[float], Unit]  #: of a column, by its largest value


_TIME = Kind(format_duration, time_unit)
_SIZE = Kind(format_size, size_unit)
_SHARE = Kind(format_share, lambda _: PERCENT)
_NUMBER = Kind(format_digits, lambda _: NO_UNIT)


@dataclass(frozen=True)
class Metric:
    """A quantity of a run."""

    key: str
    title: str
    of: Callable[[Summary], float | None]  #: None: a run without it, such as CCT of map-only jobs
    kind: Kind
    #: whether statements are made of it: these are times and bytes, of which less is better
    compared: bool = False
    unless_zero: bool = False  #: shown only if some contender has more than none of it

    @property
    def show(self) -> Callable[[float], str]:
        """A value with its unit."""
        return self.kind.show


def _spread(name: str, part: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary[name][part]


def _node_local(summary: Summary) -> float | None:
    maps = sum(summary["locality"].values())
    return summary["locality"]["node"] / maps if maps else None


def _shuffle_skew(summary: Summary) -> float | None:
    spread: dict[str, float | None] = summary.get("shuffle_skew", {})
    return spread.get("mean")


def _by_circuit(summary: Summary) -> float | None:
    crossing = summary["bytes"]["cross_rack"]
    return summary["bytes"]["ocs"] / crossing if crossing else None


def _crossing(summary: Summary) -> float:
    return float(summary["bytes"]["cross_rack"])


METRICS = (
    Metric("makespan_s", "makespan", lambda s: float(s["makespan_s"]), _TIME, compared=True),
    Metric("jct_s.mean", "JCT mean", _spread("jct_s", "mean"), _TIME, compared=True),
    Metric("jct_s.p95", "JCT p95", _spread("jct_s", "p95"), _TIME, compared=True),
    Metric("cct_s.mean", "CCT mean", _spread("cct_s", "mean"), _TIME, compared=True),
    Metric("cct_s.p95", "CCT p95", _spread("cct_s", "p95"), _TIME, compared=True),
    Metric("cross_rack_bytes", "between racks", _crossing, _SIZE, compared=True),
    Metric("jct_s.p50", "JCT median", _spread("jct_s", "p50"), _TIME),
    Metric("by_circuit", "by circuit", _by_circuit, _SHARE, unless_zero=True),
    Metric("node_local", "node-local maps", _node_local, _SHARE),
    Metric("shuffle_skew.mean", "shuffle skew", _shuffle_skew, _NUMBER),
    Metric("slot_utilization", "slots used", lambda s: s["slot_utilization"], _SHARE),
    Metric("compute_utilization", "computing", lambda s: s.get("compute_utilization"), _SHARE),
    Metric("network_utilization", "links used", lambda s: s.get("network_utilization"), _SHARE),
)
COMPARED = tuple(metric for metric in METRICS if metric.compared)
