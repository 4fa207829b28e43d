"""State that all groups of flows of one network share: the time, its links, changed rates."""

from __future__ import annotations

from dataclasses import dataclass, field

from railyard.netemu.model.links import Path, Route, pack
from railyard.netemu.model.openflows import Carrier


@dataclass(slots=True)
class GroupContext:
    """The network as its groups of flows see it."""

    links: int  #: how many there are, the last one standing for no link
    unlimited: set[int]  #: those of them without a limit, but for the last
    rows_stay: bool  #: whether rows that end stay for a while, see ``FlowScheduler``
    now_s: float = 0.0
    #: groups that have got other rates, which the fabric has not seen yet
    retimed: list[Carrier] = field(default_factory=list)

    def path(self, route: Route) -> Path:
        """The links of a route that are limited."""
        if not self.unlimited:
            return route.path
        return pack([link for link in route.links if link not in self.unlimited])
