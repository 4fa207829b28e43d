"""The network's links, and which of them a flow takes.

A link is one direction: "r0n1.up" and "r0n1.down" are a node's NIC, "r0.up" and "r0.down" its
rack's links to the packet-switched core, which itself is not a bottleneck.  Other ways between
racks (an OCS, a wide area, a tree of switches) are links and routes of their own, made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cluster.ids import NodeId, RackId, rack_of
from cluster.topology import Topology

#: How far a flow's ends are apart.
Reach = Literal["local", "rack", "cross_rack"]
#: What carries bytes between racks.
Way = Literal["eps", "ocs", "wan"]


@dataclass(frozen=True, slots=True)
class Route:
    """The links that a flow takes, as their numbers; none within a node."""

    links: tuple[int, ...]
    reach: Reach
    way: Way | None = None  #: None unless it crosses racks

    @property
    def counted_as(self) -> tuple[str, ...]:
        """The categories of the results' "bytes" in which its bytes are counted."""
        return (self.reach,) if self.way is None else (self.reach, self.way)


class Network:
    """A topology's links, numbered, and the routes over them."""

    def __init__(self, topology: Topology) -> None:
        links = dict(_links(topology))
        #: a link's name and number
        self.number: dict[str, int] = {name: number for number, name in enumerate(links)}
        #: bytes/s of each link, by number
        self.capacities: NDArray[np.float64] = np.array(list(links.values()), dtype=np.float64)
        self.longest = 4  #: links of the longest route
        #: the racks' links
        self.cross_rack = tuple(
            f"{rack.id}.{direction}"
            for rack in topology.rack_list()
            for direction in ("up", "down")
        )
        self._nodes = frozenset(node.id for node in topology.nodes())

    def route(self, src: NodeId, dst: NodeId) -> Route:
        """The way from one node to another; ``ValueError`` if there is no such node."""
        for node in (src, dst):
            if node not in self._nodes:
                raise ValueError(f'"{node}" is no node of this topology')
        if src == dst:
            return Route((), "local")
        near, far = rack_of(src), rack_of(dst)
        if near == far:
            return Route(self._numbers(f"{src}.up", f"{dst}.down"), "rack")
        return Route(
            self._numbers(f"{src}.up", f"{near}.up", f"{far}.down", f"{dst}.down"),
            "cross_rack",
            "eps",
        )

    def _numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(self.number[name] for name in names)


def _links(topology: Topology) -> Iterator[tuple[str, float]]:
    for rack in topology.rack_list():
        yield from _both_ways(rack.id, rack.uplink_bytes_per_s, rack.downlink_bytes_per_s)
        for node in rack.nodes:
            yield from _both_ways(node.id, node.nic_bytes_per_s, node.nic_bytes_per_s)


def _both_ways(
    of: RackId | NodeId, up_bytes_per_s: float, down_bytes_per_s: float
) -> Iterator[tuple[str, float]]:
    yield f"{of}.up", up_bytes_per_s
    yield f"{of}.down", down_bytes_per_s
