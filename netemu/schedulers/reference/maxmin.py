"""Max-min fair sharing: no flow can get more without a flow that has less (or equal) losing some.

Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2 (progressive filling);
what TCP flows of equal round-trip times tend to.  Weighted: a flow of weight 2 gets twice the
share of one of weight 1 at the same bottleneck.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill


class MaxMin(FlowScheduler):
    """All rates rise equally until a link is full; flows through it stop there, others rise on.

    ``fill`` does that.
    """

    name = "maxmin"
    source = "Bertsekas and Gallager, Data Networks, 1992, 6.5.2"

    def decide(self, traffic: Traffic) -> float:
        """Share all links among all flows."""
        for group in traffic.groups:  # at most one
            group.set_rates(fill(group.paths, group.weights, traffic.capacities.copy()))
        return np.inf
