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

import math
from bisect import bisect_right

import numpy as np

from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import by_arrival, fill, rounding_of, serve_in_order

QUEUES = 10
FIRST_LIMIT_BYTES = 10e6
NEXT_LIMIT_FACTOR = 10.0
_SOURCE = "Chowdhury and Stoica, Aalo, SIGCOMM 2015"
#: What a coflow has sent when it leaves each of the queues but the last.
LIMITS_BYTES = tuple(FIRST_LIMIT_BYTES * NEXT_LIMIT_FACTOR**n for n in range(QUEUES - 1))
#: A limit is reached if no more than this many bytes are missing: rounding.
ROUNDING_BYTES = 1e-3


class Aalo(FlowScheduler):
    """Queues by what coflows have sent so far; FIFO in each."""

    name = "aalo"
    source = _SOURCE
    by_coflow = True

    def decide(self, traffic: Traffic) -> float:
        """Serve coflows by queue, then by arrival."""
        serve_in_order(_in_order(traffic), traffic.capacities, lambda coflow: coflow.weights)
        return _next_move_s(traffic)


class WeightedAalo(FlowScheduler):
    """The same queues, which share links by their weights."""

    name = "aalo+weighted"
    source = _SOURCE
    by_coflow = True

    def decide(self, traffic: Traffic) -> float:
        """Serve each queue from its part of the links, then all from what is left."""
        order = _in_order(traffic)
        if not order:
            return np.inf
        queues = {group: queue_of(group) for group in order}
        weights = {queue: QUEUES - queue for queue in queues.values()}
        unit = traffic.capacities / sum(weights.values())
        parts = {queue: unit * weight for queue, weight in weights.items()}
        rates = {group: fill(group.paths, group.weights, parts[queues[group]]) for group in order}
        left = np.add.reduce(list(parts.values()))
        left[left <= rounding_of(traffic.capacities)] = 0.0
        for group in order:
            group.set_rates(rates[group] + fill(group.paths, group.weights, left))
        return _next_move_s(traffic)


def _in_order(traffic: Traffic) -> list[Group]:
    """Coflows by queue, then by arrival."""
    return sorted(traffic.groups, key=lambda group: (queue_of(group), by_arrival(group)))


def _next_move_s(traffic: Traffic) -> float:
    """When the first coflow moves to its next queue, in seconds."""
    now_s = traffic.now_s
    moves_s = (move_s(group, queue_of(group), now_s) for group in traffic.groups)
    return min(moves_s, default=np.inf)


def queue_of(group: Group) -> int:
    """The queue that a coflow is in by now; 0 is served first."""
    return bisect_right(LIMITS_BYTES, group.sent_bytes() + ROUNDING_BYTES)


def move_s(group: Group, queue: int, now_s: float) -> float:
    """When a coflow that is served in this queue leaves it if its rate stays; inf if never."""
    # later than now by the clock's last digit at least: at 1e9 s that is .1 microseconds
    return max(_limit_s(group, queue, now_s, 0.0), now_s + math.ulp(now_s))


def reach_s(group: Group, queue: int, now_s: float) -> float:
    """When it lacks no more than rounding to its queue's limit: from then on it is in the next."""
    return _limit_s(group, queue, now_s, ROUNDING_BYTES)


def _limit_s(group: Group, queue: int, now_s: float, lacks_bytes: float) -> float:
    """When it lacks this many bytes to its queue's limit, in seconds; inf if never."""
    rate = group.rate_bytes_per_s
    if not 0 < rate < np.inf or queue == len(LIMITS_BYTES):
        return np.inf
    return now_s + (LIMITS_BYTES[queue] - lacks_bytes - group.sent_bytes()) / rate
