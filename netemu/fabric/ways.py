"""Which links limit a flow, by the nodes between which it goes.

A *route* is what is between two racks, and how; it has a number.  A *way* is the links with limits
on a route, and among the nodes' own links: flows of one way are alike to the loops.
"""

from __future__ import annotations

from array import array

from railyard.netemu.kernel.state import NONE
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

    def find(self, src: int, dst: int, route: int) -> int:
        """The way from node to node by a route; ``NONE`` if no link limits it."""
        nodes, middle = len(self._up), self._middle.get(route)
        if middle is None:
            links = unpack(self._routes.between(route).path)
            limited = tuple(link for link in links if self._is_limited[link])
            middle = self._number_of.setdefault(limited, len(self._middles))
            if middle == len(self._middles):
                self._middles.append(limited)
            self._middle[route] = middle
        up = src if self._limits_up[src] and src != dst else nodes
        down = dst if self._limits_down[dst] and src != dst else nodes
        key = (middle * (nodes + 1) + up) * (nodes + 1) + down
        way = self._known.get(key)
        return self._add(key, middle, up, down) if way is None else way

    def _add(self, key: int, middle: int, up: int, down: int) -> int:
        links = [self._up[up]] if up < len(self._up) else []
        links += self._middles[middle]
        links += [self._down[down]] if down < len(self._down) else []
        way = len(self.links) if links else NONE
        if links:
            self.links.append(array("i", links + [self._none] * (self._longest - len(links))))
        self._known[key] = way
        return way
