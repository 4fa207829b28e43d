"""Aalo: coflows whose sizes nobody knows, the ones that have sent least first.

Source: Chowdhury and Stoica, Efficient Coflow Scheduling Without Prior Knowledge, SIGCOMM 2015:
D-CLAS.  A coflow starts in the first queue and moves on as what it has sent passes the queues'
limits: 10 MB for the first, 10 times more for each that follows, 10 queues.  In a queue, coflows
are served in the order of their arrival, and the flows of a coflow alike (max-min), as their sizes
are not known.

Left open there, chosen here: a coflow moves at the very moment at which it has sent its queue's
limit (the paper's coordinator notices at its next round, every 10 ms or later); a queue is served
before all later ones, as in the authors' simulator (CoflowSim), where the paper also describes
weighted sharing between queues; what a coflow can't use goes to the next ones.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from netemu.schedulers.base import Floats, Group, Traffic
from netemu.schedulers.inorder import InOrder, by_arrival

QUEUES = 10
FIRST_LIMIT_BYTES = 10e6
NEXT_LIMIT_FACTOR = 10.0
#: What a coflow has sent when it leaves each of the queues but the last.
_LIMITS_BYTES = tuple(FIRST_LIMIT_BYTES * NEXT_LIMIT_FACTOR**n for n in range(QUEUES - 1))
#: A limit is reached if no more than this many bytes are missing: rounding.
_ROUNDING_BYTES = 1e-3


class Aalo(InOrder):
    """Queues by what coflows have sent so far; FIFO in each."""

    name = "aalo"
    source = "Chowdhury and Stoica, Aalo, SIGCOMM 2015"
    shares_stay = rows_stay = True

    def order(self, traffic: Traffic) -> Sequence[Group]:
        """By queue, then by arrival."""
        return sorted(
            traffic.groups, key=lambda group: (_queue(group.sent_bytes()), by_arrival(group))
        )

    def shares(self, group: Group) -> Floats:
        """All flows alike."""
        return group.weights

    def next_decision_s(self, traffic: Traffic) -> float:
        """When the first coflow moves to its next queue."""
        next_s = np.inf
        for group in traffic.groups:
            rate = group.rate_bytes_per_s
            if 0 < rate < np.inf:
                sent_bytes = group.sent_bytes()
                queue = _queue(sent_bytes)
                if queue == len(_LIMITS_BYTES):
                    continue
                missing_bytes = _LIMITS_BYTES[queue] - sent_bytes
                # not before the clock moves: at 1e9 s, microseconds are the last digits
                after_s = max(missing_bytes / rate, math.ulp(traffic.now_s))
                next_s = min(next_s, traffic.now_s + after_s)
        return next_s


def _queue(sent_bytes: float) -> int:
    return bisect_right(_LIMITS_BYTES, sent_bytes + _ROUNDING_BYTES)
