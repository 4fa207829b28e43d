"""Do the two clocks agree?  Emulated and simulated metrics, and how chance varies them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railyard.scripts.comparing.metrics import METRICS, Contender, Metric, Row

#: Keys of the metrics that are compared.
_KEYS = ("makespan_s", "jct_s.mean", "cct_s.mean")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A metric on both clocks."""

    who: str
    metric: Metric
    emulated: float
    simulated: float
    by_chance: tuple[float, float] | None  #: least and most of further simulations

    @property
    def difference(self) -> float:
        """(emulated - simulated) / simulated."""
        return self.emulated / self.simulated - 1

    @property
    def beyond_chance(self) -> bool:
        """Whether the emulated value lies outside those of all simulations."""
        return self.by_chance is not None and not (
            self.by_chance[0] <= self.emulated <= self.by_chance[1]
        )

    def shown(self) -> tuple[str, str, str, str]:
        """Emulated, simulated, the difference and its range by chance, as text."""
        show = self.metric.show
        low_high = "" if self.by_chance is None else " to ".join(map(show, self.by_chance))
        return show(self.emulated), show(self.simulated), f"{self.difference:+.1%}", low_high


def agreements(rows: Sequence[Row], labels: Mapping[Contender, str]) -> list[Agreement]:
    """Emulated beside simulated; none unless both clocks ran."""
    by_name = {(row.contender.clock, labels[row.contender]): row for row in rows}
    pairs = [
        (who, row, other)
        for (clock, who), row in by_name.items()
        if clock == "wall" and (other := by_name.get(("virtual", who))) is not None
    ]
    metrics = [metric for metric in METRICS if metric.key in _KEYS]
    return [
        Agreement(
            who=who,
            metric=metric,
            emulated=wall.value.mean,
            simulated=virtual.value.mean,
            by_chance=other.by_chance(metric),
        )
        for who, row, other in pairs
        for metric in metrics
        if (wall := row.cells[metric.key]) is not None
        and (virtual := other.cells[metric.key]) is not None
        and virtual.value.mean
    ]
