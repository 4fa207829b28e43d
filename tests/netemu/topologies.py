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
