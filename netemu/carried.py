"""What the network has carried: bytes by category and by link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from netemu.flowclasses import Flow
from netemu.routes import Route

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")
#: So many routes are counted one by one before they are summed up: there may be millions of them.
_ROUTES = 2**15


class Carried:
    """Counts the bytes of flows that are closed, or have changed their ways."""

    def __init__(self, links: int) -> None:
        self._by_link = [0.0] * links
        #: {the categories that count some bytes: those bytes}
        self._by_kind: defaultdict[tuple[str, ...], float] = defaultdict(float)
        #: what is in neither of these yet
        self._by_route: defaultdict[Route, float] = defaultdict(float)

    def book(self, flow: Flow) -> None:
        """Count what a flow, which is in no group, has sent on its present route."""
        sent = flow.sent_bytes - flow.booked_bytes
        if sent:
            flow.booked_bytes = flow.sent_bytes
            self._by_route[flow.route] += sent
            if len(self._by_route) > _ROUTES:
                self._sum_up()

    def by_category(self, under_way: Iterable[tuple[Route, float]]) -> dict[str, int]:
        """local, rack, cross_rack, and the last's eps, ocs and wan.

        ``under_way`` are bytes, with their routes, that have not been counted yet.
        """
        self._sum_up()
        by_kind = self._by_kind.copy()
        for route, sent in under_way:
            by_kind[route.counted_as] += sent
        totals = dict.fromkeys(_CATEGORIES, 0.0)
        for categories, sent in by_kind.items():
            for category in categories:
                totals[category] += sent
        return {category: round(total) for category, total in totals.items()}

    def by_link(self, under_way: Iterable[tuple[Route, float]]) -> list[int]:
        """By the links' numbers; as above."""
        self._sum_up()
        totals = self._by_link.copy()
        for route, sent in under_way:
            for link in route.links:
                totals[link] += sent
        return [round(total) for total in totals]

    # Inside --------------------------------------------------------------------------------------
    def _sum_up(self) -> None:
        for route, sent in self._by_route.items():
            self._by_kind[route.counted_as] += sent
            for link in route.links:
                self._by_link[link] += sent
        self._by_route.clear()
