"""State that all groups of flows of one network share: the time, its links, changed rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from railyard.netemu.model.links import Path, Route, pack, unpack
from railyard.netemu.model.openflows import Carrier

#: Paths of millions of pairs of nodes would take a gigabyte.
_PATHS_KEPT = 2**15


@dataclass(slots=True)
class GroupContext:
    """The network as its groups of flows see it."""

    links: int  #: how many there are, the last one standing for no link
    unlimited: set[int]  #: those of them without a limit, but for the last
    rows_stay: bool  #: whether rows that end stay for a while, see ``FlowScheduler``
    now_s: float = 0.0
    #: groups that have got other rates, which the fabric has not seen yet
    retimed: list[Carrier] = field(default_factory=list)
    #: {path: its limited links}, of those that were asked for last: kept, one takes 0.1 us instead
    #: of 3, which was 6 % of a trace of coflows with unlimited NICs under ``fifo``
    _limited: dict[Path, Path] = field(default_factory=dict)

    def path(self, route: Route) -> Path:
        """The links of a route that are limited."""
        if not self.unlimited:
            return route.path
        found = self._limited.get(route.path)
        if found is None:
            if len(self._limited) >= _PATHS_KEPT:
                self._limited.clear()
            found = pack([link for link in unpack(route.path) if link not in self.unlimited])
            self._limited[route.path] = found
        return found

    def paths(self, routes: Collection[Route]) -> list[Path]:
        """``path`` of each."""
        if not self.unlimited:
            return [route.path for route in routes]
        known, path = self._limited, self.path
        return [known.get(route.path) or path(route) for route in routes]

    def set_limited(self, link: int, limited: bool) -> None:
        """Note whether there is a limit to what a link can carry."""
        (self.unlimited.discard if limited else self.unlimited.add)(link)
        self._limited.clear()
