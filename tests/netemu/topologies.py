"""Small networks for tests."""

from __future__ import annotations

from railyard.cluster.tomlfile import build
from railyard.cluster.topology import Topology


def network_of(racks: int, nodes: int, nic: str, uplink: str, **tables: object) -> Topology:
    """Racks of so many nodes; ``tables`` are further ones of a topology's file."""
    data = {
        "name": "test",
        "racks": {"count": racks, "nodes": nodes},
        "links": {"nic": nic, "uplink": uplink},
        **tables,
    }
    return build(data, Topology, "test")


def three_racks(**tables: object) -> Topology:
    """Three racks of two nodes; 80 Gbps are 10 MB of real bytes a second."""
    return network_of(3, 2, "80Gbps", "80Gbps", scale=1000, **tables)
