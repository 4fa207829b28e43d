"""Shortest job first, for flows: whoever has least left to send gets all that its way gives.

Source: Hong, Caesar and Godfrey, Finishing Flows Quickly with Preemptive Scheduling (PDQ), SIGCOMM
2012, without deadlines and in its ideal form: switches agree at once.  Preemptive: a newcomer that
has less to send than those under way pauses them.

Left open there, chosen here: flows with equally much to send share in a max-min way (PDQ goes by
their numbers, which would make their arrival's order matter); what a flow leaves of a link goes
to the next shortest, so that no link idles that an open flow could use.  Flows that differ by about
as much as rounding may (see below) are equals or not by their last digits, and what follows differs
with that: a run whose sums are made in another order has other ends for a few flows.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill

#: Flows are equally long if what they have left differs by less than this, or by the share that is
#: rounding: a day after the beginning, the last digit of a time is worth .02 bytes at 8 Gbps.
SAME_BYTES = 0.1


class ShortestFirst(FlowScheduler):
    """Greedy by remaining bytes."""

    name = "sjf"
    source = "Hong, Caesar and Godfrey, PDQ, SIGCOMM 2012 (no deadlines)"

    rows_stay = True

    def compiled(self) -> FlowScheduler:
        """The compiled version, for many open flows."""
        from railyard.netemu.schedulers.fast.sjf.scheduler import CompiledShortestFirst

        return CompiledShortestFirst()

    def class_key(self, flow: FlowSpec) -> Hashable:
        """Every flow is on its own."""
        return flow.flow

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            group.set_rates(_greedy(group, traffic.capacities.copy()))
        return np.inf


def _greedy(group: Group, left: Floats) -> Floats:
    """Each row's rate.  A row that is the shortest on all of its links need not wait for others:
    all such rows are served at once, and then those that become so.
    """
    # O(rounds x rows), and rows that cross a full link drop out at once
    weights = group.weights
    rates = np.zeros(len(weights))
    rows = np.flatnonzero(weights)
    rank = ranks(group.remaining_bytes()[rows], SAME_BYTES)
    paths = group.paths.take(rows, axis=1)
    while True:
        open_rows = left.take(paths).min(axis=0) > 0
        rows, rank, paths = rows[open_rows], rank[open_rows], paths[:, open_rows]
        if not len(rows):
            return rates
        served = _first_everywhere(rank, paths, len(left))
        rates[rows[served]] = fill(paths[:, served], weights[rows[served]], left)
        rest = ~served
        rows, rank, paths = rows[rest], rank[rest], paths[:, rest]


def _first_everywhere(rank: Numbers, paths: Numbers, links: int) -> Bools:
    """The rows than which none is shorter on any of their links, nor on those of their equals."""
    none = np.iinfo(np.int64).max
    first = np.full(links, none)
    for position in paths:
        np.minimum.at(first, position, rank)
    first[-1] = none  # stands for no link: all may pass
    served: Bools = np.all(rank <= first.take(paths), axis=0)
    # an equal that has to wait elsewhere has its part in a link all the same, so wait for it
    waits = ~served
    while waits.any():
        shared = np.zeros(links, dtype=bool)
        for position in paths:
            shared[position[waits & (rank == first.take(position))]] = True
        waits = served & np.any(shared.take(paths), axis=0)
        served &= ~waits
    return served
