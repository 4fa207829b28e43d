"""What the network has carried: bytes by category and by link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers, floats
from railyard.netemu.model.links import Categories, Route, stack
from railyard.netemu.model.openflows import ALONE, Carrier, Flow

if TYPE_CHECKING:  # importing it loads compiled loops
    from railyard.netemu.fabric.flowtable import FlowTable
    from railyard.netemu.fabric.pairlinks import PairLinks

_CATEGORIES = ("local", "rack", "cross_rack", "eps", "ocs", "wan")
#: Bytes are kept by route, for at most this many routes; then they are added to the links' totals.
_NOTED = 2**15


class Carried:
    """Counts the bytes of flows that are closed, or whose route has changed."""

    def __init__(self, links: int) -> None:
        self._by_link: Floats = np.zeros(links)
        #: {categories of a route: bytes carried on such routes}
        self._by_kind: defaultdict[Categories, float] = defaultdict(float)
        #: {route: bytes that are not in the two above yet}
        self._by_route: defaultdict[Route, float] = defaultdict(float)

    def book(self, flow: Flow) -> None:
        """Count what a flow that has no row has sent on its present route."""
        self._by_route[flow.route] += flow.sent_bytes - flow.booked_bytes
        flow.booked_bytes = flow.sent_bytes

    def book_ended(self, flows: Iterable[Flow]) -> int:
        """Count flows that have sent all their bytes; returns how many bytes these have."""
        by_route, sizes_bytes = self._by_route, 0
        for flow in flows:
            size_bytes = flow.size_bytes
            by_route[flow.route] += size_bytes - flow.booked_bytes
            sizes_bytes += size_bytes
        if len(by_route) > _NOTED:
            self._sum_up()
        return sizes_bytes

    def book_pairs(self, links: PairLinks, src: Numbers, dst: Numbers, size_bytes: Numbers) -> None:
        """Count flows between pairs of nodes, by packets, that have sent all their bytes."""
        self._by_link += links.carried(src, dst, size_bytes, len(self._by_link))
        crosses = links.crosses_racks(src, dst)
        for which in (crosses, ~crosses):
            places = which.nonzero()[0]
            if len(places):
                first = places[0]
                kind = links.route(int(src[first]), int(dst[first])).counted_as
                self._by_kind[kind] += float(size_bytes[places].sum())

    def by_category(self, under_way: Iterable[tuple[Route, float]]) -> dict[str, int]:
        """Bytes that were local, rack or cross_rack, and eps, ocs and wan, the parts of cross_rack.

        There is also "client" once clients outside the racks have sent or got bytes over a link.

        ``under_way``: (route, bytes) of open flows, which have not been counted yet.
        """
        self._sum_up()
        by_kind = self._by_kind.copy()
        for route, sent in under_way:
            by_kind[route.counted_as] += sent
        totals = dict.fromkeys(_CATEGORIES, 0.0)
        for categories, sent in by_kind.items():
            for category in categories:
                totals[category] = totals.get(category, 0.0) + sent
        return {category: round(total) for category, total in totals.items()}

    def by_link(self, under_way: Collection[tuple[Route, float]]) -> list[int]:
        """Bytes by link number; ``under_way`` as in ``by_category``."""
        self._sum_up()
        many, paths = len(self._by_link), [route.path for route, _ in under_way]
        links, counts = np.frombuffer(b"".join(paths), np.int64), [len(path) // 8 for path in paths]
        sent = np.repeat(floats([sent for _, sent in under_way]), counts)
        totals = np.bincount(
            np.concatenate((np.arange(many), links)), np.concatenate((self._by_link, sent)), many
        )
        return [round(total) for total in totals.tolist()]

    # Inside --------------------------------------------------------------------------------------
    def _sum_up(self) -> None:
        if not self._by_route:
            return
        routes, many = list(self._by_route), len(self._by_link)
        sent = floats(list(self._by_route.values()))
        links = stack([route.path for route in routes], filler=many - 1)
        self._by_link += np.bincount(links.ravel(), np.repeat(sent, links.shape[1]), many)
        for route, more in self._by_route.items():
            self._by_kind[route.counted_as] += more
        self._by_route.clear()


def sent_bytes(flows: Iterable[Flow]) -> list[float]:
    """Bytes that each flow has sent by now; one pass over the rows of each group."""
    service: dict[Carrier, list[float]] = {}
    sent: list[float] = []
    for flow in flows:
        flow_class, carrier = flow.flow_class, flow.group
        if flow_class is None:
            sent.append(flow.sent_bytes)
            continue
        served = service.get(carrier)
        if served is None:
            group = carrier.as_group
            if group is None:  # in a pipe: there are no rows to go over once
                sent.append(carrier.sent_bytes_of(flow))
                continue
            served = service[carrier] = group.service()
        sent.append(flow.sent_at(served[flow.row if flow_class is ALONE else flow_class.row]))
    return sent


def under_way(flows: Collection[Flow]) -> list[tuple[Route, float]]:
    """What open flows have sent on their present routes."""
    sent = sent_bytes(flows)
    return [(f.route, s - f.booked_bytes) for f, s in zip(flows, sent, strict=True)]


def all_under_way(flows: Collection[Flow], table: FlowTable | None) -> list[tuple[Route, float]]:
    """The same of these and of flows without objects, in the order in which they started."""
    if table is None or not table.without_objects:
        return under_way(flows)
    named = [(flow.sequence, *sent) for flow, sent in zip(flows, under_way(flows), strict=True)]
    others = [
        (sequence, table.links.route(src, dst), sent)
        for sequence, src, dst, sent in table.sent_without_objects()
    ]
    return [(route, sent) for _, route, sent in sorted(named + others, key=itemgetter(0))]
