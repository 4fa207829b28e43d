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

from dataclasses import dataclass

import numpy as np

from railyard.netemu.model.arrays import Floats, bits
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.links import load_of
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill, rounding_of
from railyard.netemu.schedulers.reference.inorder import by_arrival

#: A sum from which so much has been taken that this share is left has lost too many digits.
CANCELS = 1e-3
#: A coflow that could end within this share of the time that the clock shows is summed up anew:
#: the clock has too few digits to say what it sent in its last moments.
LAST_MOMENTS = 1e-4


@dataclass(slots=True, eq=False)
class _Demand:
    """What a coflow has left to send, link by link."""

    known_s: float  #: as of then
    link_bytes: Floats
    summed: Floats  #: what they were when they were last summed up
    bottleneck_s: float  #: Γ, if it had the network for itself
    links: int  #: that it crosses, as bits


class Varys(FlowScheduler):
    """SEBF, MADD and work-conserving backfill."""

    name = "varys"
    source = "Chowdhury et al., Varys, SIGCOMM 2014"
    by_coflow = True

    def __init__(self) -> None:
        self._demands: dict[Group, _Demand] = {}
        self._capacities: Floats = np.empty(0)

    def compiled(self) -> FlowScheduler:
        """The compiled version, for many open flows."""
        from railyard.netemu.schedulers.fast.varys import CompiledVarys

        return CompiledVarys()

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """Flows of one route end at the same time."""
        return remaining_bytes

    def decide(self, traffic: Traffic) -> float:
        """MADD for all, then backfill."""
        if not np.array_equal(traffic.capacities, self._capacities):
            self._demands.clear()
        self._capacities = traffic.capacities
        demands = {group: self._demand(group, traffic) for group in traffic.groups}
        self._demands = demands
        order = _smallest_bottleneck_first(demands, traffic.now_s)
        left = traffic.capacities.copy()
        rounding = rounding_of(left)
        speeds: dict[Group, float] = {}  # 1/Γ: the share of what remains that is sent each second
        empty = bits(left == 0)
        for group in order:
            demand = demands[group]
            if demand.links & empty:
                continue
            ends_after_s = _longest_s(demand.link_bytes, left)
            speed = speeds[group] = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
            if speed < np.inf:
                left -= demand.link_bytes * speed
                left[left <= rounding] = 0.0
                empty = bits(left == 0)
        for group in order:
            speed = speeds.get(group, 0.0)
            waits = bool(left.take(group.paths).min(axis=0).max() == 0)
            if waits and not speed and not group.rate_bytes_per_s and group not in traffic.changed:
                continue
            bytes_left = group.remaining_bytes()
            rates = bytes_left * (speed / group.weights)
            if not waits:
                rates += fill(group.paths, bytes_left, left) * (bytes_left / group.weights)
            group.set_rates(rates)
        return np.inf

    def _demand(self, group: Group, traffic: Traffic) -> _Demand:
        known = self._demands.get(group)
        if known is None or group in traffic.changed:
            return _sum_up(group, traffic)
        if group.rate_bytes_per_s and known.known_s < traffic.now_s:
            known.link_bytes = known.link_bytes - group.load * (traffic.now_s - known.known_s)
            known.bottleneck_s = _longest_s(known.link_bytes, traffic.capacities)
            ends = known.bottleneck_s < traffic.now_s * LAST_MOMENTS
            if ends or (known.link_bytes < known.summed * CANCELS).any():
                return _sum_up(group, traffic)
        known.known_s = traffic.now_s
        return known


def _smallest_bottleneck_first(demands: dict[Group, _Demand], now_s: float) -> list[Group]:
    """SEBF."""
    rank = ranks(np.array([demand.bottleneck_s for demand in demands.values()]), instant_s(now_s))
    place = dict(zip(demands, rank.tolist(), strict=True))
    return sorted(demands, key=lambda group: (place[group], by_arrival(group)))


def _sum_up(group: Group, traffic: Traffic) -> _Demand:
    links = len(traffic.capacities)
    link_bytes = load_of(group.paths, group.remaining_bytes(), links)
    return _Demand(
        known_s=traffic.now_s,
        link_bytes=link_bytes,
        summed=link_bytes,
        bottleneck_s=_longest_s(link_bytes, traffic.capacities),
        links=group.crossed,
    )


def _longest_s(demand: Floats, left: Floats) -> float:
    """Γ: how long the slowest link takes; inf if one that is needed has nothing left."""
    used = demand > 0
    with np.errstate(divide="ignore"):
        return float((demand[used] / left[used]).max(initial=0.0))
