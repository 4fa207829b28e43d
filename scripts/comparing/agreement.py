"""Do the two clocks agree?  Emulated and simulated metrics, and how chance varies them.  Pure.

An emulated run is compared with its twins: simulations of the same jobs that begin with the blocks
where they were in that run.  Where they were depends on which generating task ran where, so twins
are not the same each time; the simulated runs of a comparison, whose blocks the seed places, are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railyard.cluster.units import format_change
from railyard.scripts.comparing.estimates import TOGETHER
from railyard.scripts.comparing.metrics import METRICS, Metric
from railyard.scripts.comparing.rows import Contender, Row
from railyard.scripts.comparing.statements import flaw

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
