"""Max-min fair sharing: no flow can get more without a flow that has less (or equal) losing some.

Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2 (progressive filling);
what TCP flows of equal round-trip times tend to.  Weighted: a flow of weight 2 gets twice the
share of one of weight 1 at the same bottleneck.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import rounding_of
from railyard.netemu.schedulers.reference.leveling import Leveling


class MaxMin(FlowScheduler):
    """Fills all flows alike until a link is full, and so on with the flows that are left."""

    name = "maxmin"
    source = "Bertsekas and Gallager, Data Networks, 1992, 6.5.2"

    rows_stay = True

    def __init__(self) -> None:
        self._leveling = Leveling()

    def compiled(self) -> FlowScheduler:
        """The compiled version, for many open flows."""
        from railyard.netemu.schedulers.fast.fairshares import CompiledMaxMin

        return CompiledMaxMin()

    def decide(self, traffic: Traffic) -> float:
        """Fill, as far as what has changed reaches."""
        capacities = traffic.capacities
        for group in traffic.groups:  # at most one
            rates, _ = self._leveling.share(group, capacities, rounding_of(capacities))
            group.set_rates(rates)
        return np.inf
