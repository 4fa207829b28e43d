"""Small networks for tests, and when their flows end."""

from __future__ import annotations

import math

from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fabric import Fabric


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


def ends_by(fabric: Fabric, now_s: float) -> dict[str, float]:
    """{flow: its end}, of those that end by then."""
    return {ended.flow: ended.finished_s for ended in fabric.handle(None, now_s)}


def ends_of_all(fabric: Fabric) -> dict[str, float]:
    """{flow: its end}, of all that are open."""
    ends: dict[str, float] = {}
    while fabric.open_flows:
        due_s = fabric.next_event_s()
        assert due_s < math.inf, "flows are stuck"
        ends |= ends_by(fabric, due_s)
    return ends
