"""What the page says of a run as a whole."""

from __future__ import annotations

import math
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.netemu.model.network import Network


def head_of(config: ClusterConfig, **more: Any) -> dict[str, Any]:
    """The cluster's figures; ``more`` goes in, too."""
    topology = config.topology
    network = Network(topology)
    links = (*network.cross_rack, *network.ports)
    capacities = {name: float(network.capacities[network.number[name]]) for name in links}
    return {
        "scheduler": config.scheduler,
        "flow_scheduler": config.flow_scheduler,
        "topology": topology.name,
        "about": topology.description,
        "scale": topology.scale,
        "racks": [rack.id for rack in topology.rack_list()],
        "slots": topology.slots,
        "capacities": {
            name: rate if math.isfinite(rate) else None for name, rate in capacities.items()
        },
        **more,
    }
