"""The links between many pairs of nodes at once, which are numbers: places in the topology."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fast.tablerows import links_between, sum_by_link
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import Route, stack
from railyard.netemu.model.network import Network


class PairLinks:
    """The packet-switched ways between the nodes of a network; ``filler`` ends short ones."""

    def __init__(self, topology: Topology, network: Network, context: GroupContext) -> None:
        nodes = list(topology.nodes())
        self.filler = context.links - 1
        self._nodes = [node.id for node in nodes]
        self._rack = np.array([network.rack_number[node.id] for node in nodes], np.int64)
        self._network = network
        self._context = context
        self._is_plain = topology.tree is None  #: whether racks are linked to one switch
        number = network.number
        if self._is_plain:
            ways = [
                (f"{node.id}.up", f"{node.rack}.up", f"{node.rack}.down", f"{node.id}.down")
                for node in nodes
            ]
            #: [position on the way between two racks, node]
            self._ends = np.array([[number[link] for link in way] for way in ways]).T.copy()

    def route(self, src: int, dst: int) -> Route:
        """The way from one node to another."""
        return self._network.route(self._nodes[src], self._nodes[dst])

    def crosses_racks(self, src: Numbers, dst: Numbers) -> NDArray[np.bool_]:
        """[pair]: whether its nodes are in different racks."""
        crosses: NDArray[np.bool_] = self._rack[src] != self._rack[dst]
        return crosses

    def links(self, src: Numbers, dst: Numbers) -> Numbers:
        """[position, pair]: the links that pairs of different nodes cross."""
        if not self._is_plain:
            return stack([route.path for route in self._routes(src, dst)], self.filler).T
        return links_between(src, dst, self._ends, self._rack, self.filler)

    def limited(self, src: Numbers, dst: Numbers) -> Numbers:
        """[position, pair]: those of these links that have a limit."""
        if not self._context.unlimited:
            return self.links(src, dst)
        return stack(self._context.paths(self._routes(src, dst)), self.filler).T

    def carried(self, src: Numbers, dst: Numbers, size_bytes: Numbers, many: int) -> Floats:
        """Bytes of flows between pairs, by link: there are ``many``."""
        return sum_by_link(np.ascontiguousarray(self.links(src, dst)), size_bytes, many)

    def _routes(self, src: Numbers, dst: Numbers) -> list[Route]:
        pairs = zip(src.tolist(), dst.tolist(), strict=True)
        return [self.route(at, to) for at, to in pairs]
