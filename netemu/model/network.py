"""The network's links, which of them a flow takes, and their state as it is reported.

A link is one direction: "r0n1.up" and "r0n1.down" are a node's NIC, "r0.up" and "r0.down" its
rack's links to the packet-switched core, which itself is not a bottleneck, "r0.ocs.up" and
"r0.ocs.down" its rack's optical port.  "client.up" and "client.down" are the link by which clients
outside the racks reach the core, if the topology has one.  In a tree of switches, "r0.tor", "agg0"
and "root" are the switches, since those are what has a limit there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from railyard.cluster.errors import unknown_name
from railyard.cluster.ids import OUTSIDE, NodeId
from railyard.cluster.messaging.wire import BytesPerSOrInf
from railyard.cluster.topology import Rack, Topology
from railyard.cluster.topologyfile import SwitchTree, link_name, names_of_links
from railyard.netemu.model.links import Categories, Path, Route, pack

#: Of so many pairs of racks, what is between them is kept.
_BETWEEN_KEPT = 2**16

_LOCAL: Categories = ("local",)
_RACK: Categories = ("rack",)
_CLIENT: Categories = ("client",)
_BY_CIRCUIT: Categories = ("cross_rack", "ocs")
#: Less than this share of a capacity is rounding.
_ROUNDING = 1e-9


class Network:
    """A topology's links, numbered, and the routes over them."""

    def __init__(self, topology: Topology) -> None:
        racks = topology.rack_list()
        tree, usable = topology.tree, topology.usable
        ways, ocs, client = ("up", "down"), topology.ocs, topology.client_link
        core = dict(_core_links(racks) if tree is None else _switches(racks, tree, usable))
        nics = {f"{node.id}.{w}": node.nic_bytes_per_s for node in topology.nodes() for w in ways}
        ports, clients = dict[str, float](), dict[str, float]()
        if ocs is not None:
            port_bytes_per_s = ocs.port_bytes_per_s * ocs.wavelengths
            ports = {f"{rack.id}.ocs.{w}": port_bytes_per_s for rack in racks for w in ways}
        if client is not None:
            down = client.uplink if client.downlink is None else client.downlink
            clients = {"client.up": client.uplink, "client.down": down}
        links = core | nics | ports | clients
        #: a link's name and number
        self.number: dict[str, int] = {name: number for number, name in enumerate(links)}
        #: bytes/s of each link, by number
        self.capacities: NDArray[np.float64] = np.array(list(links.values()), dtype=np.float64)
        #: links of the longest route
        self.longest = 4 if tree is None else 7
        #: what is between the racks, apart from circuits
        self.cross_rack = tuple(core)
        self._cross_rack = np.array([self.number[name] for name in core], np.int64)
        #: {"tor", "aggregation", "root": switches of that layer}; {} without a tree
        self.layers = {} if tree is None else _layers(tuple(core))
        #: numbers of the nodes' links
        self.nics = tuple(self.number[name] for name in nics)
        #: the racks' optical ports
        self.ports = tuple(ports)
        #: the link of clients outside the racks
        self.clients = tuple(clients)
        #: {node: its number}; clients outside the racks come last, if they have a link
        self.node_number: dict[NodeId, int] = {}
        self.outside = len(racks)  #: the number of the rack, so to speak, of clients outside
        self.racks: list[int] = []  #: [node]: the number of its rack
        self._out: list[Path] = []  #: [node]: its link up
        self._into: list[Path] = []  #: [node]: its link down
        self._racks = tuple(rack.id for rack in racks)
        self._places = topology.places()
        self._core: Categories = ("cross_rack", topology.links.way)
        self._tree, self._racks_per_aggregation = tree, tree.racks_per_aggregation if tree else 0
        for number, rack in enumerate(racks):
            for node in rack.nodes:
                self._add_node(node.id, number, node.id)
        if clients:
            self._add_node(OUTSIDE, len(racks), "client")
        #: [node]: the numbers of its links
        self.up = np.frombuffer(b"".join(self._out), np.int64)
        self.down = np.frombuffer(b"".join(self._into), np.int64)
        #: what is between nodes of two racks, apart from their own links
        self.between: Callable[[int, int], Route] = lru_cache(_BETWEEN_KEPT)(self._new_between)
        #: the same by circuit; ``ValueError`` where there is none
        self.circuit_between: Callable[[int, int], Route] = lru_cache(_BETWEEN_KEPT)(
            self._new_circuit_between
        )

    def ends(self, src: NodeId, dst: NodeId) -> tuple[int, int]:
        near, far = self.node_number.get(src), self.node_number.get(dst)
        if near is None or far is None or src == dst == OUTSIDE:
            missing = dst if near is not None else src
            raise ValueError(f'"{missing}" is no node of this topology')
        return near, far

    def route(self, src: NodeId, dst: NodeId) -> Route:
        """The packet-switched way from one node to another; ``ValueError`` without such a node."""
        near, far = self.ends(src, dst)
        if near == far:
            return Route(b"", _LOCAL)
        return self._whole(near, far, self.between(self.racks[near], self.racks[far]))

    def circuit(self, src: NodeId, dst: NodeId) -> Route:
        """The way by circuit; ``ValueError`` without such nodes, or where there are no circuits."""
        near, far = self.ends(src, dst)
        return self._whole(near, far, self.circuit_between(self.racks[near], self.racks[far]))

    def link_named(self, text: str) -> str:
        """The link that "r3.up" or, with a site's name, "Tokyo.up" is; or ``UsageError``."""
        name = link_name(text, self._places)
        if name in self.number:
            return name
        known = [*self.cross_rack, *self.ports, *self.clients]
        raise unknown_name("link", text.strip(), names_of_links(known, self._places))

    def cross_rack_bytes_per_s(self, capacities: NDArray[np.float64]) -> float:
        """What the links between racks can carry in all, of these capacities by number."""
        return float(capacities[self._cross_rack].sum())

    # Inside --------------------------------------------------------------------------------------
    def _add_node(self, node: NodeId, rack: int, link: str) -> None:
        self.node_number[node] = len(self.racks)
        self.racks.append(rack)
        self._out.append(self._numbers(f"{link}.up"))
        self._into.append(self._numbers(f"{link}.down"))

    def _whole(self, near: int, far: int, between: Route) -> Route:
        return Route(self._out[near] + between.path + self._into[far], between.counted_as)

    def _new_between(self, near: int, far: int) -> Route:
        if self.outside in (near, far):
            rack, is_down = min(near, far), near == self.outside
            name = self._racks[rack]
            if self._tree is None:
                return Route(self._numbers(f"{name}.{'down' if is_down else 'up'}"), _CLIENT)
            names = [f"{name}.tor", f"agg{rack // self._racks_per_aggregation}", "root"]
            return Route(self._numbers(*(names[::-1] if is_down else names)), _CLIENT)
        if self._tree is not None:
            names = [f"{self._racks[near]}.tor"]
            if near != far:
                first, last = (rack // self._racks_per_aggregation for rack in (near, far))
                names += [f"agg{first}"] if first == last else [f"agg{first}", "root", f"agg{last}"]
                names.append(f"{self._racks[far]}.tor")
        else:
            names = [] if near == far else [f"{self._racks[near]}.up", f"{self._racks[far]}.down"]
        return Route(self._numbers(*names), _RACK if near == far else self._core)

    def _new_circuit_between(self, near: int, far: int) -> Route:
        if near == far or not self.ports or self.outside in (near, far):
            raise ValueError(f"racks {near} to {far}: need two racks with optical ports")
        ports = self._numbers(f"{self._racks[near]}.ocs.up", f"{self._racks[far]}.ocs.down")
        return Route(ports, _BY_CIRCUIT)

    def _numbers(self, *names: str) -> Path:
        return pack(self.number[name] for name in names)


def _core_links(racks: tuple[Rack, ...]) -> Iterator[tuple[str, float]]:
    for rack in racks:
        yield f"{rack.id}.up", rack.uplink_bytes_per_s
        yield f"{rack.id}.down", rack.downlink_bytes_per_s


def _switches(
    racks: tuple[Rack, ...], tree: SwitchTree, usable: float
) -> Iterator[tuple[str, float]]:
    for rack in racks:
        yield f"{rack.id}.tor", tree.tor
    for number in range(-(-len(racks) // tree.racks_per_aggregation)):
        yield f"agg{number}", tree.aggregation * usable
    yield "root", tree.root * usable


def _layers(switches: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    tors = sum(name.endswith(".tor") for name in switches)
    return {"tor": switches[:tors], "aggregation": switches[tors:-1], "root": switches[-1:]}


def check_capacity(link: str, bytes_per_s: float) -> None:
    """Raise ``ValueError`` for a capacity that rates could not be computed with."""
    least, most = 1e-3, 1e18
    if not (bytes_per_s in (0, math.inf) or least <= bytes_per_s <= most):
        right = f"0 (stopped), inf (no limit), or {least:g} to {most:g}"
        raise ValueError(f"{link} = {bytes_per_s} bytes/s: need {right}")


# The links between racks, as an observer is sent them ---------------------------------------------
class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """A link now."""

    capacity_bytes_per_s: BytesPerSOrInf
    free_bytes_per_s: BytesPerSOrInf  #: what no flow uses


def links_as_stated(network: Network) -> dict[str, LinkState]:
    """{link: its state with the topology's capacity, and without flows}"""
    capacities = {name: float(network.capacities[n]) for name, n in network.number.items()}
    return {
        name: _state(capacities[name], capacities[name])
        for name in (*network.cross_rack, *network.ports)
    }


class Observable(Protocol):
    """The fabric, as far as its links are looked at."""

    def capacities_bytes_per_s(self) -> Mapping[str, float]:
        """What each link can carry now."""

    def free_bytes_per_s(self) -> Mapping[str, float]:
        """What of each link's capacity no flow uses now."""


class ObservedLinks:
    """The states last reported to an observer, and which links have changed by enough since.

    A link has changed if its capacity has, if what is free of it has by more than ``change`` of
    the capacity, or if it has become idle or full.
    """

    def __init__(self, network: Network, change: float) -> None:
        self._change = change
        self._reported = links_as_stated(network)

    def look(self, network: Observable) -> dict[str, LinkState]:
        """The links that have changed by now, which count as reported from then on."""
        capacities, free = network.capacities_bytes_per_s(), network.free_bytes_per_s()
        changed = {}
        for name, reported in self._reported.items():
            now = _state(capacities[name], free[name])
            if self._differs(now, reported):
                changed[name] = now
        self._reported |= changed
        return changed

    def all(self) -> dict[str, LinkState]:
        return dict(self._reported)

    def _differs(self, now: LinkState, reported: LinkState) -> bool:
        capacity, free = now.capacity_bytes_per_s, now.free_bytes_per_s
        if capacity != reported.capacity_bytes_per_s:
            return True
        if free == reported.free_bytes_per_s:
            return False
        return free in (0.0, capacity) or (
            abs(free - reported.free_bytes_per_s) > self._change * capacity
        )


def _state(capacity: float, free: float) -> LinkState:
    """A link's state, idle or full where only rounding is missing."""
    if math.isinf(capacity):
        free = capacity
    elif free <= _ROUNDING * capacity:
        free = 0.0
    elif free >= capacity * (1 - _ROUNDING):
        free = capacity
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)
