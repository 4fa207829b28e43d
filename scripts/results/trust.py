"""Whether the machine kept up with an emulated run, so that its times can be trusted.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from railyard.cluster.errors import RailyardError
from railyard.cluster.units import format_count, format_duration, format_share

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
