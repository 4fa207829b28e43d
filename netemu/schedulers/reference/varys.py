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
- Ties in SEBF, which are bottlenecks that differ by rounding only: the earlier arrival, then the
  name.  The paper's guard against starvation (a share of time for all) is left out: it is for
  networks that never empty.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.links import load_of
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import by_arrival, fill, rounding_of


class Varys(FlowScheduler):
    """SEBF, MADD and work-conserving backfill."""

    name = "varys"
    source = "Chowdhury et al., Varys, SIGCOMM 2014"
    by_coflow = True

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """Flows of one route end at the same time."""
        return remaining_bytes

    def decide(self, traffic: Traffic) -> float:
        """MADD in SEBF order, then backfill in the same order."""
        left, links = traffic.capacities.copy(), len(traffic.capacities)
        rounding = rounding_of(left)
        flow_bytes = {coflow: coflow.remaining_bytes() for coflow in traffic.groups}
        link_bytes = {
            coflow: load_of(coflow.paths, remaining, links)
            for coflow, remaining in flow_bytes.items()
        }
        gammas_s = [gamma_s(link_bytes[coflow], traffic.capacities) for coflow in traffic.groups]
        order = _smallest_first(list(traffic.groups), gammas_s, traffic.now_s)
        rates: dict[Group, Floats] = {}
        for coflow in order:
            ends_after_s = gamma_s(link_bytes[coflow], left)
            speed = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
            rates[coflow] = flow_bytes[coflow] * speed
            if 0 < speed < np.inf:
                left -= link_bytes[coflow] * speed
                left[left <= rounding] = 0.0
        for coflow in order:
            remaining = flow_bytes[coflow]
            rates[coflow] += fill(coflow.paths, remaining, left) * remaining
            coflow.set_rates(rates[coflow] / coflow.weights)
        return np.inf


def gamma_s(link_bytes: Floats, left: Floats) -> float:
    """Γ: seconds that the slowest link takes; inf if one that is needed has nothing left."""
    used = link_bytes > 0
    with np.errstate(divide="ignore"):
        return float((link_bytes[used] / left[used]).max(initial=0.0))


def _smallest_first(coflows: list[Group], gammas_s: list[float], now_s: float) -> list[Group]:
    """SEBF: by Γ alone in the network; near-equal ones are ties, see above."""
    rank = ranks(np.array(gammas_s), instant_s(now_s)).tolist()
    places = [(place, by_arrival(coflow)) for place, coflow in zip(rank, coflows, strict=True)]
    return [coflow for _, coflow in sorted(zip(places, coflows, strict=True), key=lambda p: p[0])]
