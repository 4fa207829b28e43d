"""The figures of a run: metrics, how they are written for people, whether they can be trusted.

Pure, and light: no command waits for its imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from railyard.cluster.errors import RailyardError
from railyard.cluster.units import (
    NO_UNIT,
    PERCENT,
    Unit,
    format_count,
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


TIME = Kind(format_duration, time_unit)
SIZE = Kind(format_size, size_unit)
SHARE = Kind(format_share, lambda _: PERCENT)
NUMBER = Kind(format_digits, lambda _: NO_UNIT)


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
        return self.kind.show


def _part(name: str, part: str) -> Callable[[Summary], float | None]:
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


METRICS = (
    Metric("makespan_s", "makespan", lambda s: float(s["makespan_s"]), TIME, compared=True),
    Metric("jct_s.mean", "JCT mean", _part("jct_s", "mean"), TIME, compared=True),
    Metric("jct_s.p95", "JCT p95", _part("jct_s", "p95"), TIME, compared=True),
    Metric("cct_s.mean", "CCT mean", _part("cct_s", "mean"), TIME, compared=True),
    Metric("cct_s.p95", "CCT p95", _part("cct_s", "p95"), TIME, compared=True),
    Metric("cross_rack_bytes", "between racks", _part("bytes", "cross_rack"), SIZE, compared=True),
    Metric("jct_s.p50", "JCT median", _part("jct_s", "p50"), TIME),
    Metric("by_circuit", "by circuit", _by_circuit, SHARE, unless_zero=True),
    Metric("node_local", "node-local maps", _node_local, SHARE),
    Metric("shuffle_skew.mean", "shuffle skew", _shuffle_skew, NUMBER),
    Metric("slot_utilization", "slots used", lambda s: s["slot_utilization"], SHARE),
    Metric("compute_utilization", "computing", lambda s: s.get("compute_utilization"), SHARE),
    Metric("network_utilization", "links used", lambda s: s.get("network_utilization"), SHARE),
)
COMPARED = tuple(metric for metric in METRICS if metric.compared)


# In words -----------------------------------------------------------------------------------------
_DISTANCES = {"local": "within nodes", "rack": "within racks", "cross_rack": "between racks"}
_WAYS = {"eps": "by packets", "ocs": "by circuits", "wan": "between sites"}
#: Endings of the names of policies' figures that are units.
_UNITS: dict[str, Callable[[float], Unit]] = {"_s": time_unit, "_bytes": size_unit}


def moved_words(moved: Mapping[str, int]) -> str:
    """What was moved how far, and by which way: "8 GB within nodes, 3 GB between racks (...)"."""
    words = [f"{format_size(moved[key])} {how}" for key, how in _DISTANCES.items() if moved[key]]
    ways = [key for key in _WAYS if moved.get(key)]
    if len(ways) == 1 and moved["cross_rack"]:
        words[-1] += f" ({_WAYS[ways[0]]})"
    elif ways:
        words[-1] += f" ({', '.join(f'{format_size(moved[key])} {_WAYS[key]}' for key in ways)})"
    return ", ".join(words) or "nothing"


def figure_words(name: str) -> str:
    """The name of a policy's figure for readers: "waited" for waited_s."""
    return name.removesuffix(_suffix(name)).replace("_", " ")


def figure_unit(name: str, value: float) -> Unit:
    """The unit in which a policy's figure of this size is shown."""
    suffix = _suffix(name)
    return _UNITS[suffix](abs(value)) if suffix else NO_UNIT


def own_counters(job: Mapping[str, Any]) -> dict[str, int]:
    """What a job's own code counted, without what is counted of every job."""
    from railyard.jobs.operators import COUNTED  # and all that jobs are written with

    return {
        name: count
        for name, count in job.get("counters", {}).items()
        if name.rpartition(".")[2] not in COUNTED
    }


def _suffix(name: str) -> str:
    return next((suffix for suffix in _UNITS if name.endswith(suffix)), "")


# Whether the machine kept up with an emulated run -------------------------------------------------
#: Beyond these the emulated network was not what the model says (see the README).
_LAG_MS_MAX = 20.0
_SATURATED_MAX = 0.5


class TooBusy(RailyardError):
    """The machine was too busy for a run's times, and ``--strict`` was asked for."""


def is_trusted(summary: Mapping[str, Any]) -> bool:
    """Whether a run's times can be trusted; those of a simulation always."""
    fidelity = summary.get("fidelity")
    return fidelity is None or (
        fidelity["grant_lag_ms_p99"] <= _LAG_MS_MAX and fidelity["cpu_saturated"] <= _SATURATED_MAX
    )


def fidelity_words(fidelity: Mapping[str, float]) -> str:
    """How late the network was, how busy the CPUs, and how long the network was restarted."""
    lag = format_duration(fidelity["grant_lag_ms_p99"] / 1e3)
    saturated = format_share(fidelity["cpu_saturated"])
    words = f"grants at most {lag} late (p99), CPUs saturated {saturated} of the time"
    away_s = fidelity.get("network_away_s", 0.0)  # there is none in older records
    return f"{words}; the network was away for {format_duration(away_s)}" if away_s else words


def require_trusted(summaries: Iterable[Mapping[str, Any]]) -> None:
    """Raise ``TooBusy`` if the machine was too busy in one of these runs."""
    bad = [summary for summary in summaries if not is_trusted(summary)]
    if bad:
        which = "; ".join(
            f"{run['scheduler']} with seed {run['seed']}: {fidelity_words(run['fidelity'])}"
            for run in bad
        )
        runs = format_count(len(bad), "run")
        raise TooBusy(f"--strict: this machine was too busy to trust the times of {runs} ({which})")


def require_figures(summaries: Iterable[Summary]) -> None:
    """Raise ``InvalidDecision`` if a policy broke when it was asked for its figures.

    Call it last: the results are right without figures.
    """
    from railyard.resourcemanager.interface.decisions import InvalidDecision

    for summary in summaries:
        if "figures_error" in summary:
            raise InvalidDecision(summary["figures_error"])
