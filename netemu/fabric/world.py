"""What all groups of flows of one network share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.netemu.model.links import Path, Route, pack

if TYPE_CHECKING:
    from railyard.netemu.circuits.group import CircuitGroup
    from railyard.netemu.circuits.pipe import Pipe
    from railyard.netemu.fabric.groups import FlowGroup


@dataclass(slots=True)
class World:
    """The time, the links, and which groups the fabric has to look at."""

    links: int  #: how many there are, the last one standing for no link
    unlimited: set[int]  #: those of them without a limit, but for the last
    rows_stay: bool  #: whether rows that end stay for a while, see ``FlowScheduler``
    now_s: float = 0.0
    retimed: list[FlowGroup | CircuitGroup | Pipe] = field(
        default_factory=list
    )  #: groups whose rates have been set

    def path(self, route: Route) -> Path:
        """The links of a route that are limited."""
        if not self.unlimited:
            return route.path
        return pack([link for link in route.links if link not in self.unlimited])
