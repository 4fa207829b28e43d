"""Shortest job first, for flows: the one with least left to send gets all that its path gives.

Source: Hong, Caesar and Godfrey, Finishing Flows Quickly with Preemptive Scheduling (PDQ), SIGCOMM
2012, without deadlines and in its ideal form: switches agree at once.  Preemptive: a newcomer that
has less to send than those under way pauses them.

Left open there, chosen here: flows with equally much to send share in a max-min way (PDQ goes by
their numbers, which would make their arrival's order matter); what a flow leaves of a link goes
to the next shortest, so that no link idles that an open flow could use.  Flows that differ by about
as much as rounding may are equals or not by their last digits, and what follows differs with that:
a run whose sums are made in another order has other ends for a few flows.
"""

from __future__ import annotations

from railyard.netemu.schedulers.base import FlowScheduler, Serves


class ShortestFirst(FlowScheduler):
    """Flows in the order of what they have left to send."""

    name = "sjf"
    source = "Hong, Caesar and Godfrey, PDQ, SIGCOMM 2012 (no deadlines)"
    serves = Serves.SHORTEST
