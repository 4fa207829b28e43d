"""What the network has carried: bytes by category and by link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from netemu.flowclasses import Flow
from netemu.routes import Route

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")


class Carried:
    """Counts the bytes of flows that are closed, or have changed their ways."""

    def __init__(self, links: int) -> None:
        self._links = links
        self._by_route: defaultdict[Route, float] = defaultdict(float)

    def book(self, flow: Flow) -> None:
        """Count what a flow, which is in no group, has sent on its present route."""
        sent = flow.sent_bytes - flow.booked_bytes
        if sent:
            flow.booked_bytes = flow.sent_bytes
            self._by_route[flow.route] += sent

    def by_category(self, under_way: Iterable[tuple[Route, float]]) -> dict[str, int]:
        """local, rack, cross_rack, and the last's eps, ocs and wan.

        ``under_way`` are bytes, with their routes, that have not been counted yet.
        """
        totals = dict.fromkeys(_CATEGORIES, 0.0)
        for route, sent in chain(self._by_route.items(), under_way):
            for category in route.counted_as:
                totals[category] += sent
        return {category: round(total) for category, total in totals.items()}

    def by_link(self, under_way: Iterable[tuple[Route, float]]) -> list[int]:
        """By the links' numbers; as above."""
        totals = [0.0] * self._links
        for route, sent in chain(self._by_route.items(), under_way):
            for link in route.links:
                totals[link] += sent
        return [round(total) for total in totals]
