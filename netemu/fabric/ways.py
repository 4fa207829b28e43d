"""What is between two racks: routes, and which of their links have limits."""

from __future__ import annotations

import numpy as np

from railyard.netemu.kernel.state import NONE, State, views
from railyard.netemu.kernel.ways import Ways
from railyard.netemu.model.arrays import Bools, Numbers
from railyard.netemu.model.links import Route, unpack
from railyard.netemu.model.network import Network

#: For each node; a node sends to many others.
_BUCKETS = 64
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


class WayTable:
    """The arrays of ways, while the same links have limits; see ``kernel.ways``."""

    def __init__(self, network: Network, routes: Routes, is_limited: Bools, s: State) -> None:
        self._routes, self._is_limited = routes, is_limited
        self._shift, self._none = s.shift, s.none
        self._number_of: dict[tuple[int, ...], int] = {}
        up, down = network.up, network.down
        self.table = Ways(
            rack=np.array(network.racks, np.int32),
            up=np.where(is_limited[up], up, s.none).astype(np.int32),
            down=np.where(is_limited[down], down, s.none).astype(np.int32),
            middle=np.full(routes.local + 1, NONE, np.int32),
            middle_link=np.zeros(routes.local + 1 << s.shift, np.int32),
            bucket=np.full(_BUCKETS * len(up) + 1, NONE, np.int32),
        )
        self.view = views(self.table)

    def know(self, routes: Numbers) -> None:
        """Know what is limited on routes."""
        middle = self.table.middle
        for route in routes[middle[routes] == NONE].tolist():
            links = unpack(self._routes.between(route).path)
            limited = tuple(link for link in links if self._is_limited[link])
            middle[route] = number = self._number_of.setdefault(limited, len(self._number_of))
            entries = self.table.middle_link[number << self._shift :][: 1 << self._shift]
            entries[:], entries[: len(limited)] = self._none, limited
