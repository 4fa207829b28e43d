"""Which links limit a flow, by the nodes between which it goes.

A *route* is what is between two racks, and how; it has a number.  A *way* is the links with limits
on a route, and among the nodes' own links: flows of one way are alike to the loops.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from railyard.netemu.kernel.state import NONE, Flows
from railyard.netemu.model.arrays import Bools
from railyard.netemu.model.links import Route, unpack
from railyard.netemu.model.network import Network

_LOCAL = Route(b"", ("local",))


class Routes:
    """The numbers of routes.

    From rack to rack: near * (racks + 1) + far, as clients outside are one more; the same by
    circuit follows, and then, as ``local``, that within a node.
    """

    def __init__(self, network: Network) -> None:
        self.racks = network.outside + 1
        self.packets = self.racks**2  #: how many there are by packets
        self.local = 2 * self.packets
        self._network = network

    def between(self, route: int) -> Route:
        """What a route crosses, apart from the nodes' own links."""
        if route == self.local:
            return _LOCAL
        near, far = divmod(route % self.packets, self.racks)
        by_circuit = route >= self.packets
        network = self._network
        return (network.circuit_between if by_circuit else network.between)(near, far)


class Ways:
    """The numbers of ways, as they are first asked for, while the same links have limits."""

    def __init__(
        self, network: Network, routes: Routes, is_limited: Bools, longest: int, none: int
    ) -> None:
        self.links: list[array[int]] = []  #: [way]: numbers of links, then ``none``
        self._routes, self._is_limited, self._longest, self._none = (
            routes,
            is_limited,
            longest,
            none,
        )
        self._up, self._down = network.up.tolist(), network.down.tolist()
        self._limits_up: list[bool] = is_limited[network.up].tolist()
        self._limits_down: list[bool] = is_limited[network.down].tolist()
        self._middle: dict[int, int] = {}  #: {route: number of its links with limits}
        self._middles: list[tuple[int, ...]] = []
        self._number_of: dict[tuple[int, ...], int] = {}
        self._known: dict[int, int] = {}

    def of(self, going: Iterable[int], flows: Flows) -> list[int]:
        """[flow]: the way that it takes by packets; ``NONE`` if no link limits it."""
        src_of, dst_of, route_of = flows.src, flows.dst, flows.route
        limits_up, limits_down, nodes = self._limits_up, self._limits_down, len(self._up)
        middles, known = self._middle, self._known
        ways: list[int] = []
        for flow in going:
            src, dst, route = src_of[flow], dst_of[flow], route_of[flow]
            middle = middles[route] if route in middles else self._find_middle(route)
            up = src if limits_up[src] and src != dst else nodes
            down = dst if limits_down[dst] and src != dst else nodes
            key = (middle * (nodes + 1) + up) * (nodes + 1) + down
            ways.append(known[key] if key in known else self._add(key, middle, up, down))
        return ways

    def _find_middle(self, route: int) -> int:
        links = unpack(self._routes.between(route).path)
        limited = tuple(link for link in links if self._is_limited[link])
        middle = self._number_of.setdefault(limited, len(self._middles))
        if middle == len(self._middles):
            self._middles.append(limited)
        self._middle[route] = middle
        return middle

    def _add(self, key: int, middle: int, up: int, down: int) -> int:
        links = [self._up[up]] if up < len(self._up) else []
        links += self._middles[middle]
        links += [self._down[down]] if down < len(self._down) else []
        way = len(self.links) if links else NONE
        if links:
            self.links.append(array("i", links + [self._none] * (self._longest - len(links))))
        self._known[key] = way
        return way
