"""Varys: the coflow with the smallest bottleneck first, its flows slowed to end together.

Source: Chowdhury, Zhong and Stoica, Efficient Coflow Scheduling with Varys, SIGCOMM 2014: SEBF
orders coflows by the time that their most loaded link needs for what remains; MADD gives each flow
the least rate at which it ends with its coflow, given what the coflows before left; what no coflow
needed is handed out (backfill), so that the network idles no link that an open flow could use.

Left open there, chosen here (results of Varys depend on it):
- Rates are set anew whenever a flow or coflow arrives or ends and when a capacity changes; the
  paper's own system does so for coflows only.
- Backfill goes by coflow, in SEBF order, and inside of one in proportion to what remains of each
  flow: flows that share a link still end together.
- A coflow one of whose links is used up gets nothing but backfill.
- Ties in SEBF: the earlier arrival, then the name.  The paper's guard against starvation (a share
  of time for all) is left out: it is for networks that never empty.
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Floats, FlowScheduler, FlowSpec, Group, Traffic
from netemu.schedulers.filling import fill, load_of
from netemu.schedulers.inorder import by_arrival

#: What is left of a link after MADD is rounding if it is less than this share of its capacity.
_ROUNDING = 1e-12


class Varys(FlowScheduler):
    """SEBF, MADD and work-conserving backfill."""

    name = "varys"
    source = "Chowdhury et al., Varys, SIGCOMM 2014"
    by_coflow = True

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """Flows of one route end at the same time."""
        return remaining_bytes

    def decide(self, traffic: Traffic) -> float:
        """MADD for all, then backfill."""
        left = traffic.capacities
        rounding = np.where(np.isfinite(left), left * _ROUNDING, 0.0)
        remaining = {group: group.remaining_bytes() for group in traffic.groups}
        demand = {
            group: load_of(group.paths, remaining[group], len(left)) for group in traffic.groups
        }
        bottleneck_s = {group: _longest_s(demand[group], left) for group in traffic.groups}
        order = sorted(traffic.groups, key=lambda group: (bottleneck_s[group], by_arrival(group)))

        speed: dict[Group, float] = {}  # 1/Γ: the share of what remains that is sent each second
        for group in order:
            ends_after_s = _longest_s(demand[group], left)
            speed[group] = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
            if 0 < speed[group] < np.inf:
                left -= demand[group] * speed[group]
                left[left <= rounding] = 0.0
        for group in order:
            bytes_left = remaining[group]
            rates = fill(group.paths, bytes_left, left) + speed[group]
            group.set_rates(rates * (bytes_left / group.weights))
        return np.inf


def _longest_s(demand: Floats, left: Floats) -> float:
    """Γ: how long the slowest link takes; inf if one that is needed has nothing left."""
    used = demand > 0
    with np.errstate(divide="ignore"):
        return float((demand[used] / left[used]).max(initial=0.0))
