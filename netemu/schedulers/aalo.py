"""Aalo: coflows of unknown sizes, those that have sent least first.

Source: Chowdhury and Stoica, Efficient Coflow Scheduling Without Prior Knowledge, SIGCOMM 2015:
D-CLAS.  A coflow starts in the first queue and moves on as what it has sent passes the queues'
limits: 10 MB for the first, 10 times more for each that follows, 10 queues.  In a queue, coflows
are served in the order of their arrival, and the flows of a coflow alike (max-min), as their sizes
are not known.

The paper has two ways to serve queues: strictly one after the other, as in the authors' simulator
(CoflowSim): ``aalo``; and sharing links in proportion to the queues' weights, which fall from queue
to queue, so that no coflow starves: ``aalo+weighted``.

Left open there, chosen here: a coflow moves at the very moment at which it has sent its queue's
limit (the paper's coordinator notices at its next round, every 10 ms or later); what a coflow
can't use goes to the next ones.  Weights are 10 for the first queue, 9 for the second, and so on;
queues without coflows have none; what is left of a queue's part is handed out in strict order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railyard.netemu.model.arrays import Numbers
from railyard.netemu.schedulers.base import FlowScheduler, Holds, Plan, Traffic

QUEUES = 10
FIRST_LIMIT_BYTES = 10e6
NEXT_LIMIT_FACTOR = 10.0
#: [queue]: what a coflow has sent when it leaves it
LIMITS_BYTES = np.append(FIRST_LIMIT_BYTES * NEXT_LIMIT_FACTOR ** np.arange(QUEUES - 1), np.inf)
#: A limit is reached if no more than this many bytes are missing: rounding.
ROUNDING_BYTES = 1e-3


class Aalo(FlowScheduler):
    """Queues by what coflows have sent so far; FIFO in each."""

    name = "aalo"
    source = "Chowdhury and Stoica, Aalo, SIGCOMM 2015"

    def plan(self, traffic: Traffic) -> Plan:
        """By queue, then by arrival; until a coflow has sent its queue's limit."""
        queue = queues(traffic)
        order = np.argsort(queue, kind="stable")
        return Plan(order=order, limits_bytes=LIMITS_BYTES[queue])


class WeightedAalo(Aalo):
    """The same queues, which share links by their weights."""

    name = "aalo+weighted"

    def plan(self, traffic: Traffic) -> Plan:
        """Each queue has its part of the links; what it leaves goes to all, in order."""
        plan, queue = super().plan(traffic), queues(traffic)
        has_coflows = np.bincount(queue, minlength=QUEUES) > 0
        weights = np.where(has_coflows, QUEUES - np.arange(QUEUES), 0)
        shares = weights / weights.sum()
        # queues may have no coflow once one is empty
        return replace(plan, queues=queue[plan.order], shares=shares, holds=Holds.UNTIL_EMPTY)


def queues(traffic: Traffic) -> Numbers:
    """[coflow]: the queue that it is in by now; 0 is served first."""
    return np.searchsorted(LIMITS_BYTES, traffic.sent_bytes + ROUNDING_BYTES, side="right")
