"""Shortest job first, for flows: the one with least left to send gets all that its path gives.

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

from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.ties import SAME_BYTES, ranks
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill


class ShortestFirst(FlowScheduler):
    """Flows in the order of what they have left to send."""

    name = "sjf"
    source = "Hong, Caesar and Godfrey, PDQ, SIGCOMM 2012 (no deadlines)"

    def class_key(self, flow: FlowSpec) -> Hashable:
        """None: every flow is a row of its own."""

    def decide(self, traffic: Traffic) -> float:
        """Give the shortest flow all that its path gives, then the next one what that leaves."""
        for group in traffic.groups:  # at most one
            left, weights = traffic.capacities.copy(), group.weights
            rates, rows = np.zeros(len(weights)), np.arange(len(weights))
            rank = ranks(group.remaining_bytes(), SAME_BYTES)
            while len(rows):
                rows = rows[left.take(group.paths[:, rows]).min(axis=0) > 0]  # others have to wait
                shortest = rank[rows] == rank[rows].min(initial=len(rates))
                served, rows = rows[shortest], rows[~shortest]
                rates[served] = fill(group.paths[:, served], weights[served], left)
            group.set_rates(rates)
        return np.inf
