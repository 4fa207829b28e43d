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

from railyard.netemu.schedulers.base import FlowScheduler, Plan, Traffic


class Fifo(FlowScheduler):
    """Coflows in the order in which their first flows came."""

    name = "fifo"
    source = "Chowdhury et al., Orchestra, SIGCOMM 2011, 4.3 and 5"
    by_bytes = True

    def plan(self, traffic: Traffic) -> Plan:
        return Plan(order=np.arange(len(traffic)))
