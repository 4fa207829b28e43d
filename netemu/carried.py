"""What the network has carried: bytes by category and by link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

import numpy as np

from netemu.flowclasses import Flow
from netemu.routes import Categories, Route
from netemu.schedulers.base import Floats

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")
#: So many flows are noted before they are summed up, all at once.
_NOTED = 2**13


class Carried:
    """Counts the bytes of flows that are closed, or have changed their ways."""

    def __init__(self, links: int) -> None:
        self._by_link: Floats = np.zeros(links)
        #: {the categories that count some bytes: those bytes}
        self._by_kind: defaultdict[Categories, float] = defaultdict(float)
        #: what is in neither of these yet: bytes, and their routes
        self._sent: list[float] = []
        self._routes: list[Route] = []

    def book(self, flows: Iterable[Flow]) -> None:
        """Count what flows, which are in no group, have sent on their present routes."""
        sent, routes = self._sent, self._routes
        for flow in flows:
            more = flow.sent_bytes - flow.booked_bytes
            if more:
                flow.booked_bytes = flow.sent_bytes
                sent.append(more)
                routes.append(flow.route)
        if len(sent) > _NOTED:
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
        totals: list[float] = self._by_link.tolist()
        for route, sent in under_way:
            for link in route.links:
                totals[link] += sent
        return [round(total) for total in totals]

    # Inside --------------------------------------------------------------------------------------
    def _sum_up(self) -> None:
        sent, links = np.array(self._sent), [route.links for route in self._routes]
        crossed = np.fromiter(chain.from_iterable(links), np.int64)
        each = np.repeat(sent, np.fromiter(map(len, links), np.int64, len(links)))
        self._by_link += np.bincount(crossed, each, len(self._by_link))
        for route, more in zip(self._routes, self._sent, strict=True):
            self._by_kind[route.counted_as] += more
        self._sent.clear()
        self._routes.clear()
