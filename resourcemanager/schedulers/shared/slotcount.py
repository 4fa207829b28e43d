"""How many slots the cluster has, for schedulers that plan with its size.

Those of lost nodes count, as they are expected back.

Never here: how many slots are free; views say that.
"""

from __future__ import annotations

from railyard.cluster.topology import Topology
from railyard.resourcemanager.interface.views import SlotView


class SlotCount:
    """The slots of all nodes: as the topology states them, then as they change."""

    def __init__(self, topology: Topology) -> None:
        self._of = {node.id: node.slots for node in topology.nodes()}
        self.total = topology.slots
        self.nodes = len(self._of)

    def take(self, node: SlotView) -> bool:
        """A node has joined, or its slots have changed; returns whether the total is another."""
        more = node.slots - self._of[node.id]
        self._of[node.id] = node.slots
        self.total += more
        return more != 0
