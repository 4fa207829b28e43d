"""The bandwidth that a duplicate reads its input with (section 5.2, Fig. 9).

"We first find the most critical link", its transfers share it equally, what they use of other links
is taken off, and so on: max-min fair shares, as ``netemu.schedulers.filling`` computes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.cluster.ids import NodeId
from railyard.netemu.model.filling import fill
from railyard.netemu.model.links import stack
from railyard.netemu.model.network import Network

#: (The node that sends, the node that reads)
Transfer = tuple[NodeId, NodeId]


def available_bytes_per_s(transfers: Sequence[Transfer], network: Network) -> list[float]:
    """B of each transfer, bytes/s, if all are under way together; inf within a node."""
    if not transfers:
        return []
    unlimited = len(network.capacities)  # fills up short paths
    left = np.append(network.capacities, np.inf)
    paths = stack([network.route(src, dst).path for src, dst in transfers], unlimited)
    rates: list[float] = fill(paths.T, np.ones(len(transfers)), left).tolist()
    return rates


def uplinks_bytes_per_s(network: Network, racks: Sequence[str]) -> list[float]:
    """B_i of each rack's uplink, bytes/s, or of its switch in a tree of switches; [racks]."""
    number = network.number
    up = (number.get(f"{rack}.up", number.get(f"{rack}.tor")) for rack in racks)
    return [float(network.capacities[link]) for link in up if link is not None]
