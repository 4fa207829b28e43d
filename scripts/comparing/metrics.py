"""Runs of the same jobs under several schedulers, as metrics: means, confidence, ratios.

Pure.  A *contender* is a scheduler with a flow scheduler on one clock; the first one of each clock
is the baseline of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from railyard.cluster.units import format_duration, format_number, format_size

Summary = dict[str, Any]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Metric:
    """A quantity of a run, by which contenders are compared."""

    key: str
    title: str
    of: Callable[[Summary], float | None]  #: None: a run without it, such as CCT of map-only jobs
    show: Callable[[float], str]
    less_is_better: bool | None  #: None: neither is
    unless_zero: bool = False  #: shown only if some contender has more than none of it


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


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


def _computing(summary: Summary) -> float | None:
    return summary.get("compute_utilization")


METRICS = (
    Metric("makespan_s", "makespan", lambda s: float(s["makespan_s"]), format_duration, True),
    Metric("jct_s.mean", "JCT mean", _spread("jct_s", "mean"), format_duration, True),
    Metric("jct_s.p50", "JCT median", _spread("jct_s", "p50"), format_duration, True),
    Metric("jct_s.p95", "JCT p95", _spread("jct_s", "p95"), format_duration, True),
    Metric("cct_s.mean", "CCT mean", _spread("cct_s", "mean"), format_duration, True),
    Metric("cct_s.p95", "CCT p95", _spread("cct_s", "p95"), format_duration, True),
    Metric(
        "cross_rack_bytes",
        "cross-rack",
        lambda s: float(s["bytes"]["cross_rack"]),
        format_size,
        True,
    ),
    Metric("by_circuit", "by circuit", _by_circuit, _share, None, unless_zero=True),
    Metric("node_local", "node-local maps", _node_local, _share, False),
    Metric("shuffle_skew.mean", "shuffle skew", _shuffle_skew, lambda v: f"{v:.2f}", True),
    Metric("slot_utilization", "slots used", lambda s: s["slot_utilization"], _share, None),
    Metric("compute_utilization", "computing", _computing, _share, None),
    Metric(
        "network_utilization",
        "links used",
        lambda s: s.get("network_utilization"),
        _share,
        None,
    ),
)


@dataclass(frozen=True)
class Contender:
    """A scheduler with a flow scheduler, on one clock."""

    scheduler: str
    flow_scheduler: str
    clock: str  #: "wall" or "virtual"


def labelled(contenders: Iterable[Contender]) -> dict[Contender, str]:
    """Each contender's label, with its flow scheduler if they have several."""
    every = list(contenders)
    several = len({each.flow_scheduler for each in every}) > 1
    return {
        each: f"{each.scheduler} + {each.flow_scheduler}" if several else each.scheduler
        for each in every
    }


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    half_width: float | None  #: of its 95 % confidence interval; None from a single seed

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A metric of a contender."""

    value: Estimate
    #: to the first contender's, each seed to the same seed; None for itself, and against zero
    ratio: Estimate | None

    @property
    def differs(self) -> bool:
        """Whether it differs significantly from the first contender's, over all seeds."""
        ratio = self.ratio
        return (
            ratio is not None
            and ratio.half_width is not None
            and not ratio.low <= 1.0 <= ratio.high
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """A contender's row of the table."""

    contender: Contender
    runs: list[Summary]  #: by seed
    cells: dict[str, Cell | None]  #: by the metrics' keys; None: no run has it
    #: of each seed further simulations, as likely as that in ``runs``; none if not emulated, too
    scatter: list[list[Summary]] = field(default_factory=list)

    def by_chance(self, metric: Metric) -> tuple[float, float] | None:
        """Range of the mean over seeds that chance explains: least and most; None if not known."""
        draws = [[metric.of(run) for run in draw] for draw in zip(*self.scatter, strict=True)]
        means = [math.fsum(values) / len(values) for draw in draws if (values := _known(draw))]
        return (min(means), max(means)) if means else None


def compared(
    runs: dict[Contender, list[Summary]],
    scatter: Mapping[Contender, list[list[Summary]]] = MappingProxyType({}),
) -> list[Row]:
    """The table; every contender has the same seeds in the same order.

    ``scatter`` has further simulations of contenders, by seed.
    """
    first: dict[str, list[Summary]] = {}  #: of each clock
    rows = []
    for contender, own in runs.items():
        base = first.setdefault(contender.clock, own)
        cells = {
            metric.key: _cell(metric, own, None if base is own else base) for metric in METRICS
        }
        again = scatter.get(contender, [])
        rows.append(Row(contender=contender, runs=own, cells=cells, scatter=again))
    return rows


def shown_metrics(rows: Sequence[Row]) -> list[Metric]:
    """The metrics that a table of these rows has."""
    return [
        metric
        for metric in METRICS
        if not metric.unless_zero
        or any(cell.value.mean for row in rows if (cell := row.cells[metric.key]))
    ]


@dataclass(frozen=True, kw_only=True)
class OwnFigure:
    """A figure that a contender's policies gave with every seed."""

    contender: Contender
    policy: str
    name: str
    value: Estimate

    def shown(self) -> tuple[str, str]:
        """Its value, and the half width of its interval, "" from one seed."""
        spread = self.value.half_width
        within = "" if spread is None else f"± {format_number(spread)}"
        return format_number(self.value.mean), within


def own_figures(rows: Sequence[Row]) -> list[OwnFigure]:
    """The policies' own figures, contender by contender."""
    found = []
    for row in rows:
        every = [_flat(run.get("figures", {})) for run in row.runs]
        found += [
            OwnFigure(
                contender=row.contender,
                policy=policy,
                name=name,
                value=estimate([figures[policy, name] for figures in every]),
            )
            for policy, name in every[0]
            if all((policy, name) in figures for figures in every)
        ]
    return found


def _flat(figures: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    return {(policy, name): value for policy, of in figures.items() for name, value in of.items()}


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % confidence interval (Student's t) of independent values."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(mean=mean, half_width=None)
    from scipy.stats import t

    squares = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    beyond = float(t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    return Estimate(mean=mean, half_width=beyond * math.sqrt(squares / len(values)))


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The table for programs."""
    own = own_figures(rows)
    return [
        {
            "scheduler": row.contender.scheduler,
            "flow_scheduler": row.contender.flow_scheduler,
            "clock": row.contender.clock,
            "seeds": [run["seed"] for run in row.runs],
            "verified": [run["verified"] for run in row.runs],
            "figures": {key: cell and _cell_as_json(cell) for key, cell in row.cells.items()},
            "own_figures": {
                f"{figure.policy}.{figure.name}": _estimate_as_json(figure.value)
                for figure in own
                if figure.contender == row.contender
            },
            "by_chance": {
                metric.key: low_high
                for metric in METRICS
                if (low_high := row.by_chance(metric)) is not None
            },
            "runs": row.runs,
        }
        for row in rows
    ]


def _cell(metric: Metric, own: list[Summary], base: list[Summary] | None) -> Cell | None:
    values = [metric.of(summary) for summary in own]
    known = _known(values)
    if not known:
        return None
    against = [] if base is None else [metric.of(summary) for summary in base]
    ratios = [
        value / other
        for value, other in zip(known, against, strict=False)
        if other not in (None, 0)
    ]
    whole = len(ratios) == len(known)
    return Cell(value=estimate(known), ratio=estimate(ratios) if whole else None)


def _known(values: Sequence[float | None]) -> list[float]:
    """The values; none if one is not known."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _cell_as_json(cell: Cell) -> dict[str, Any]:
    numbers = _estimate_as_json(cell.value)
    if cell.ratio is not None:
        numbers |= {"ratio": cell.ratio.mean, "ratio_ci95_half_width": cell.ratio.half_width}
    return numbers


def _estimate_as_json(value: Estimate) -> dict[str, Any]:
    return {"mean": value.mean, "ci95_half_width": value.half_width}
