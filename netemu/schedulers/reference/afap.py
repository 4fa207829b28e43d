"""As fast as possible: a flow gets all that is free on its path, keeps it, and gains what is freed.

Source: the joint scheduling of tasks and network flows ("Joint").  Bandwidth is not shared: a new
flow gets the least free bandwidth of the links (or switches) on its path (section IV-C.3).  When
bandwidth is released, it is handed out by priority, to each flow as much as its path then allows
(section IV-C.5, Algorithm 2).

Left open there, chosen here: nobody loses bandwidth to a flow of higher priority that comes later;
flows that come at one time are served by priority, too; equal priorities go by name; flows without
any, such as reads and writes of blocks, come last, so that they starve no shuffle.  Where a
capacity drops below what is in use, the flows of lowest priority give way.  A flow that grows keeps
its place but asks for its bandwidth anew.  The paper's virtual flows (lines 9 and 10) hold no
bandwidth, so the network never sees them: moving a task starts a flow.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.links import load_of
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler

#: The priority of a flow that has none: after all that have one.
_LAST = (np.inf,)
#: Of a link that carries so much, this share is rounding.
ROUNDING = 1e-9


class AsFastAsPossible(FlowScheduler):
    """Hands out what is free, by priority."""

    name = "afap"
    source = "Joint scheduling of tasks and network flows (SDN), IV-C"
    by_priority = True

    def class_key(self, flow: FlowSpec) -> Hashable:
        """Every flow is a row of its own; rows are served in the order of this."""
        return (flow.priority or _LAST, flow.flow)

    def decide(self, traffic: Traffic) -> float:
        """Hand out what is free, by priority (Algorithm 2)."""
        for group in traffic.groups:  # at most one
            hand_out(group, traffic)
        return np.inf


def hand_out(group: Group, traffic: Traffic) -> None:
    """Take back what links no longer have, then hand out what is free (lines 3 to 8)."""
    # O(rows) in numpy, and O(log) in Python for each row that has something left on its whole path
    paths, weights = group.paths, group.weights
    rates = group.rates * weights
    rates[np.isinf(rates)] = 0.0  # where no link was a limit, one may be now
    over = free_of(traffic.capacities, paths, rates)
    left = over.tolist()
    if min(left) < 0:
        rows = np.flatnonzero((over.take(paths) < 0).any(axis=0) & (rates > 0))
        for row in _by_priority(group, rows)[::-1]:
            links = paths[:, row].tolist()
            less = min(float(rates[row]), -min(left[link] for link in links))
            if less > 0:
                rates[row] -= less
                for link in links:
                    left[link] += less
    can_gain = (np.array(left).take(paths).min(axis=0) > 0) & (weights > 0)
    for row in _by_priority(group, np.flatnonzero(can_gain)):
        links = paths[:, row].tolist()
        more = min(left[link] for link in links)
        if more > 0:
            rates[row] += more
            for link in links:
                left[link] = rest_of(left[link], more)
    group.set_rates(np.divide(rates, weights, out=rates, where=weights > 0))


def free_of(capacities: Floats, paths: Numbers, bytes_per_s: Floats) -> Floats:
    """[link]: bytes/s that rows at these rates leave; below 0 where a link carries too much."""
    used = load_of(paths, bytes_per_s, len(capacities))
    free: Floats = capacities - used
    # rounding must neither look like free bandwidth nor like a link that carries too much
    free[np.abs(free) <= ROUNDING * used] = 0.0
    return free


def rest_of(left: float, taken: float) -> float:
    """Bytes/s that are left of a link, never below 0; an unlimited one stays so."""
    return left if left == np.inf else max(left - taken, 0.0)


def _by_priority(group: Group, rows: np.ndarray) -> list[int]:
    return sorted(rows.tolist(), key=group.class_key)
