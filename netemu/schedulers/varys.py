"""Varys: the coflow with the smallest bottleneck first, its flows slowed to end together.

Source: Chowdhury, Zhong and Stoica, Efficient Coflow Scheduling with Varys, SIGCOMM 2014: SEBF
orders coflows by Γ, the time that their most loaded link needs for what remains; MADD gives each
flow the least rate at which it ends with its coflow, given what the coflows before left; what no
coflow needed is handed out (backfill), so that the network idles no link that a flow could use.

Left open there, chosen here (results of Varys depend on it):
- The order and rates are set anew whenever a flow or coflow arrives or ends and when a capacity
  changes; the paper's own system does so for coflows only.
- Backfill goes by coflow, in SEBF order, and inside of one in proportion to what remains of each
  flow: flows that share a link still end together.
- A coflow one of whose links is used up gets nothing but backfill.
- Ties in SEBF, which are bottlenecks that differ by rounding only: the earlier arrival, then the
  name.  The paper's guard against starvation (a share of time for all) is left out: it is for
  networks that never empty.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import instant_s, ranks
from railyard.netemu.schedulers.base import FlowScheduler, Holds, Plan, Traffic


class Varys(FlowScheduler):
    """SEBF, MADD and work-conserving backfill."""

    name = "varys"
    source = "Chowdhury et al., Varys, SIGCOMM 2014"
    by_bytes = True

    def plan(self, traffic: Traffic) -> Plan:
        """SEBF: by Γ; near-equal ones are ties.  The network does MADD, then backfill."""
        rank = ranks(traffic.bottleneck_s, instant_s(traffic.now_s))
        order = np.argsort(rank, kind="stable")
        return Plan(order=order, ends_together=True, holds=Holds.UNTIL_END)
