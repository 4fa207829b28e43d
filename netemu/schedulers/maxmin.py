"""Max-min fair sharing: no flow can get more without a flow that has less (or equal) losing some.

Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2 (progressive filling);
what TCP flows of equal round-trip times tend to.  Weighted: a flow of weight 2 gets twice the
share of one of weight 1 at the same bottleneck.
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Demand, Floats, FlowScheduler

#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12


class MaxMin(FlowScheduler):
    """Fills all flows alike until a link is full, and so on with the flows that are left."""

    name = "maxmin"
    source = "Bertsekas and Gallager, Data Networks, 1992, 6.5.2"

    def rates(self, demand: Demand) -> Floats:
        """Progressive filling, in which links that do not depend on one another fill at once.

        A link's share (what is left of it by the weight that is left on it) only grows as others
        fill up.  So a link whose share is the smallest on the route of every class through it is
        the bottleneck of them all, however many links elsewhere have smaller shares.
        """
        # O(rounds x classes); a round is the depth of "waits for", not a link: 1 to 6 in shuffles
        links, width = len(demand.capacities), demand.paths.shape[1]
        rates = np.zeros(len(demand.weights))
        left = demand.capacities.copy()
        rest = np.arange(len(rates))
        paths, weights = demand.paths, demand.weights
        while len(rest):
            flat = paths.ravel()
            load = np.bincount(flat, weights.repeat(width), links)
            share = np.divide(left, load, out=np.full(links, np.inf), where=load > 0)
            hope = share[paths].min(axis=1)
            lowest = np.full(links, np.inf)
            np.minimum.at(lowest, flat, hope.repeat(width))
            fixed = (share <= lowest * _ROUNDING)[paths].any(axis=1)

            rates[rest[fixed]] = hope[fixed]
            if fixed.all():
                break
            taken = hope[fixed] * weights[fixed]
            taken[np.isinf(taken)] = 0.0
            left -= np.bincount(paths[fixed].ravel(), taken.repeat(width), links)
            np.maximum(left, 0.0, out=left)
            rest, paths, weights = rest[~fixed], paths[~fixed], weights[~fixed]
        return rates
