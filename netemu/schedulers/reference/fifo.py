"""First come, first served, by coflow: the one that came first gets all that it can use.

Source: Chowdhury et al., Managing Data Transfers in Computer Clusters with Orchestra, SIGCOMM
2011: FIFO between transfers (section 5) and weighted shuffle scheduling inside of one (4.3), where
a flow's rate is in proportion to its bytes, so that the flows that share the bottleneck end at
the same time.

Left open there, chosen here: a flow's bytes are those that remain; coflows that came at the same
time are ordered by name; flows without a coflow are coflows of their own.  What a coflow can't use
goes to the next ones, so that no link idles that an open flow could use.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import by_arrival, serve_in_order


class Fifo(FlowScheduler):
    """Coflows in the order in which their first flows came."""

    name = "fifo"
    source = "Chowdhury et al., Orchestra, SIGCOMM 2011, 4.3 and 5"
    by_coflow = True

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """Flows of one route end at the same time."""
        return remaining_bytes

    def decide(self, traffic: Traffic) -> float:
        """By arrival (section 5); within a coflow in proportion to what remains (4.3)."""
        order = sorted(traffic.groups, key=by_arrival)
        serve_in_order(order, traffic.capacities, lambda coflow: coflow.remaining_bytes())
        return np.inf
