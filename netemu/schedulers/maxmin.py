"""Max-min fair sharing: no flow can get more without a flow that has less (or equal) losing some.

Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2 (progressive filling);
what TCP flows of equal round-trip times tend to.  Weighted: a flow of weight 2 gets twice the
share of one of weight 1 at the same bottleneck.
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Floats, FlowScheduler, Traffic
from netemu.schedulers.refilling import fill_all, refill, rounding_of


class MaxMin(FlowScheduler):
    """Fills all flows alike until a link is full, and so on with the flows that are left."""

    name = "maxmin"
    source = "Bertsekas and Gallager, Data Networks, 1992, 6.5.2"

    def __init__(self) -> None:
        self._levels: Floats | None = None
        self._limited = np.zeros(0, dtype=bool)

    def decide(self, traffic: Traffic) -> float:
        """Fill what has changed."""
        capacities = traffic.capacities
        limited = np.isfinite(capacities)
        for group in traffic.groups:  # at most one
            if self._levels is None or not np.array_equal(limited, self._limited):
                filled = fill_all(group.paths, group.weights, capacities)
            else:
                filled = refill(group, capacities, rounding_of(capacities), self._levels)
            self._levels = filled.levels
            group.set_rates(filled.rates)
        self._limited = limited
        return np.inf
