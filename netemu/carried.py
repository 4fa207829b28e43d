"""What the network has carried: bytes by category and by link."""

from __future__ import annotations

from collections.abc import Iterable

from netemu.flowclasses import Flow
from netemu.routes import Route


class Carried:
    """Counts the bytes of flows that are closed, or have changed their ways."""

    def __init__(self, links: int) -> None:
        self._by_link = [0.0] * links
        self._by_category = dict.fromkeys(("local", "rack", "cross_rack", "eps", "ocs", "wan"), 0.0)

    def book(self, flow: Flow) -> None:
        """Count what a flow, which is in no group, has sent on its present route."""
        sent = flow.sent_bytes - flow.booked_bytes
        if not sent:
            return
        flow.booked_bytes = flow.sent_bytes
        for category in flow.route.counted_as:
            self._by_category[category] += sent
        for link in flow.route.links:
            self._by_link[link] += sent

    def by_category(self, under_way: Iterable[tuple[Route, float]]) -> dict[str, int]:
        """local, rack, cross_rack, and the last's eps, ocs and wan.

        ``under_way`` are bytes, with their routes, that have not been counted yet.
        """
        totals = dict(self._by_category)
        for route, sent in under_way:
            for category in route.counted_as:
                totals[category] += sent
        return {category: round(total) for category, total in totals.items()}

    def by_link(self, under_way: Iterable[tuple[Route, float]]) -> list[int]:
        """By the links' numbers; as above."""
        totals = list(self._by_link)
        for route, sent in under_way:
            for link in route.links:
                totals[link] += sent
        return [round(total) for total in totals]
