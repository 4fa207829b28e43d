"""The network's links, and which of them a flow takes.

A link is one direction: "r0n1.up" and "r0n1.down" are a node's NIC, "r0.up" and "r0.down" its
rack's links to the packet-switched core, which itself is not a bottleneck, "r0.ocs.up" and
"r0.ocs.down" its rack's optical port.  "client.up" and "client.down" are the link by which clients
outside the racks reach the core, if the topology has one.  In a tree of switches, "r0.tor", "agg0"
and "root" are the switches, since those are what has a limit there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.errors import unknown_name
from railyard.cluster.ids import OUTSIDE, NodeId
from railyard.cluster.topologies.linknames import link_name, names_of_links
from railyard.cluster.topologies.tables import Client, Ocs, SwitchTree
from railyard.cluster.topology import Rack, Topology
from railyard.netemu.model.links import Categories, Path, Route, pack

#: Those of millions of pairs of nodes would take a gigabyte, and are seldom asked for twice.
_ROUTES_KEPT = 2**15

_LOCAL: Categories = ("local",)
_RACK: Categories = ("rack",)
_CLIENT: Categories = ("client",)
_BY_CIRCUIT: Categories = ("cross_rack", "ocs")


class Network:
    """A topology's links, numbered, and the routes over them."""

    def __init__(self, topology: Topology) -> None:
        racks = topology.rack_list()
        tree, usable = topology.tree, topology.usable
        core = dict(_core_links(racks) if tree is None else _switches(racks, tree, usable))
        nics = dict(_nics(racks))
        ports = dict(_ports(racks, topology.ocs))
        clients = dict(_client_links(topology.client_link))
        links = core | nics | ports | clients
        #: a link's name and number
        self.number: dict[str, int] = {name: number for number, name in enumerate(links)}
        #: bytes/s of each link, by number
        self.capacities: NDArray[np.float64] = np.array(list(links.values()), dtype=np.float64)
        #: links of the longest route
        self.longest = 4 if tree is None else 7
        #: what is between the racks, apart from circuits
        self.cross_rack = tuple(core)
        #: {"tor", "aggregation", "root": switches of that layer}; {} without a tree
        self.layers = {} if tree is None else _layers(core)
        #: numbers of the nodes' links
        self.nics = tuple(self.number[name] for name in nics)
        #: the racks' optical ports
        self.ports = tuple(ports)
        #: the link of clients outside the racks
        self.clients = tuple(clients)
        #: {node: number of its rack}
        self.rack_number = {node.id: r for r, rack in enumerate(racks) for node in rack.nodes}
        self._racks = tuple(rack.id for rack in racks)
        self._places = topology.places()
        self._core: Categories = ("cross_rack", topology.links.way)
        self._racks_per_aggregation = tree.racks_per_aggregation if tree else 0
        self._ends: dict[NodeId, _End] = {}
        for near, rack in enumerate(racks):
            between = None if tree is None else _Between(self, near)
            for node in rack.nodes:
                up, down = self._numbers(f"{node.id}.up"), self._numbers(f"{node.id}.down")
                out, into = up, down
                if tree is None:
                    out += self._numbers(f"{rack.id}.up")
                    into = self._numbers(f"{rack.id}.down") + into
                self._ends[node.id] = near, up, down, out, into, between
        #: the packet-switched way from one node to another; ``ValueError`` without such a node
        self.route: Callable[[NodeId, NodeId], Route] = self._new_route
        if len(self.rack_number) ** 2 <= _ROUTES_KEPT:
            self.route = lru_cache(None)(self._new_route)
        #: the way through the optical circuit switch; ``ValueError`` without such a node, within a
        #: rack, and where there are no circuits
        self.circuit: Callable[[NodeId, NodeId], Route] = lru_cache(_ROUTES_KEPT)(self._new_circuit)

    def link_named(self, text: str) -> str:
        """The link that a person means by "r3.up", or by "Tokyo.up" where sites have names.

        Raises ``UsageError`` with the nearest name if there is none.
        """
        name = link_name(text, self._places)
        if name in self.number:
            return name
        known = [*self.cross_rack, *self.ports, *self.clients]
        raise unknown_name("link", text.strip(), names_of_links(known, self._places))

    def cross_rack_bytes_per_s(self, capacities: NDArray[np.float64]) -> float:
        """What the links between racks can carry in all, of these capacities by number."""
        return float(capacities[[self.number[name] for name in self.cross_rack]].sum())

    def between(self, near: int, far: int) -> Path:
        """The switches between two racks of a tree, or what all within one rack cross."""
        return self._numbers(*self._names_between(near, far))

    # Inside --------------------------------------------------------------------------------------
    def _new_route(self, src: NodeId, dst: NodeId) -> Route:
        ends = self._ends
        if OUTSIDE in (src, dst) and self.clients:
            return self._new_client_route(src, dst)
        try:
            near, up, _, out, _, between = ends[src]
            far, _, down, _, into, _ = ends[dst]
        except KeyError as missing:
            raise ValueError(f'"{missing.args[0]}" is no node of this topology') from None
        if near != far:
            path = out + into if between is None else up + between[far] + down
            return Route(path, self._core)
        if src == dst:
            return Route(b"", _LOCAL)
        path = up + down if between is None else up + between[far] + down
        return Route(path, _RACK)

    def _new_circuit(self, src: NodeId, dst: NodeId) -> Route:
        near, far = self._rack(src), self._rack(dst)
        if near == far or not self.ports:
            raise ValueError(f"{src} to {dst}: need two racks with optical ports")
        ports = self._numbers(f"{self._racks[near]}.ocs.up", f"{self._racks[far]}.ocs.down")
        return Route(self._ends[src][1] + ports + self._ends[dst][2], _BY_CIRCUIT)

    def _new_client_route(self, src: NodeId, dst: NodeId) -> Route:
        """Between a node and the clients outside the racks, over their link to the core."""
        node = dst if src == OUTSIDE else src
        near = self._rack(node)
        _, up, down, out, into, between = self._ends[node]
        if between is not None:
            aggregation = f"agg{near // self._racks_per_aggregation}"
            switches = self._numbers(f"{self._racks[near]}.tor", aggregation, "root")
            out, into = up + switches, switches + down
        if src == OUTSIDE:
            return Route(self._numbers("client.up") + into, _CLIENT)
        return Route(out + self._numbers("client.down"), _CLIENT)

    def _rack(self, node: NodeId) -> int:
        number = self.rack_number.get(node)
        if number is None:
            raise ValueError(f'"{node}" is no node of this topology')
        return number

    def _names_between(self, near: int, far: int) -> Iterator[str]:
        yield f"{self._racks[near]}.tor"
        if near != far:
            first, last = near // self._racks_per_aggregation, far // self._racks_per_aggregation
            yield from [f"agg{first}"] if first == last else [f"agg{first}", "root", f"agg{last}"]
            yield f"{self._racks[far]}.tor"

    def _numbers(self, *names: str) -> Path:
        return pack(self.number[name] for name in names)


class _Between(dict[int, Path]):
    """{rack: switches on the way} from one rack; each is found when it is first asked for."""

    def __init__(self, network: Network, near: int) -> None:
        self._network = network
        self._near = near

    def __missing__(self, far: int) -> Path:
        links = self[far] = self._network.between(self._near, far)
        return links


#: Of a node: the number of its rack, its links up, and down, those up to the core of a topology
#: without a tree, and down from there, and in a tree what is between its rack and others.
_End = tuple[int, Path, Path, Path, Path, _Between | None]


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


def _layers(switches: Iterable[str]) -> dict[str, tuple[str, ...]]:
    layers: dict[str, tuple[str, ...]] = {"tor": (), "aggregation": (), "root": ()}
    for name in switches:
        layer = "tor" if name.endswith(".tor") else "root" if name == "root" else "aggregation"
        layers[layer] += (name,)
    return layers


def _nics(racks: tuple[Rack, ...]) -> Iterator[tuple[str, float]]:
    for rack in racks:
        for node in rack.nodes:
            yield f"{node.id}.up", node.nic_bytes_per_s
            yield f"{node.id}.down", node.nic_bytes_per_s


def _ports(racks: tuple[Rack, ...], ocs: Ocs | None) -> Iterator[tuple[str, float]]:
    for rack in racks if ocs is not None else ():
        assert ocs is not None
        yield f"{rack.id}.ocs.up", ocs.port_bytes_per_s * ocs.wavelengths
        yield f"{rack.id}.ocs.down", ocs.port_bytes_per_s * ocs.wavelengths


def _client_links(client: Client | None) -> Iterator[tuple[str, float]]:
    if client is not None:
        yield "client.up", client.uplink
        yield "client.down", client.uplink if client.downlink is None else client.downlink


def check_capacity(link: str, bytes_per_s: float) -> None:
    """Raise ``ValueError`` for a capacity that rates could not be computed with."""
    least, most = 1e-3, 1e18
    if not (bytes_per_s in (0, math.inf) or least <= bytes_per_s <= most):
        right = f"0 (stopped), inf (no limit), or {least:g} to {most:g}"
        raise ValueError(f"{link} = {bytes_per_s} bytes/s: need {right}")
