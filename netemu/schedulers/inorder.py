"""Coflows in a strict order: each takes what it can of what those before it have left.

A coflow's rates depend on its own flows and on what is left of the links that it uses.  Where
neither has changed since they were set, they are still right (its shares stay in proportion while
it sends), and neither it nor any of its rows is touched: an event costs what it changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netemu.schedulers.base import Floats, FlowScheduler, Group, Numbers, Traffic
from netemu.schedulers.filling import fill


@dataclass(slots=True)
class _Served:
    """What a coflow found left of its links, and what it left, when its rates were set."""

    links: Numbers
    found: Floats
    left: Floats


class InOrder(FlowScheduler):
    """Serves coflows one after the other; subclasses say in which order, and by which shares."""

    by_coflow = True

    def __init__(self) -> None:
        self._served: dict[Group, _Served] = {}

    @abstractmethod
    def order(self, traffic: Traffic) -> Sequence[Group]:
        """The coflows, the one that is served first first."""

    @abstractmethod
    def shares(self, group: Group) -> Floats:
        """In which proportion a coflow's rows are to be served."""

    def next_decision_s(self, traffic: Traffic) -> float:  # noqa: ARG002 (for subclasses)
        """When to decide again even if nothing happens."""
        return np.inf

    def decide(self, traffic: Traffic) -> float:
        """Serve in order."""
        left = traffic.capacities
        served: dict[Group, _Served] = {}
        for group in self.order(traffic):
            before = None if group in traffic.changed else self._served.get(group)
            if before is not None and np.array_equal(left[before.links], before.found):
                left[before.links] = before.left
                served[group] = before
            else:
                served[group] = self._serve(group, left)
        self._served = served
        return self.next_decision_s(traffic)

    def _serve(self, group: Group, left: Floats) -> _Served:
        used = np.zeros(len(left), dtype=bool)
        used[group.paths] = True
        links = np.flatnonzero(used)
        found = left[links]
        shares = self.shares(group)
        group.set_rates(fill(group.paths, shares, left) * (shares / group.weights))
        return _Served(links, found, left[links])


def by_arrival(group: Group) -> tuple[float, str]:
    """First come, first served; names decide between coflows that came at the same time."""
    return group.arrived_s, group.key
