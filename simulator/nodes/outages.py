"""Which nodes are down, where several faults may keep one down at the same time.

Not here: what that means.
"""

from __future__ import annotations

from railyard.cluster.ids import NodeId


class Outages(dict[NodeId, int]):
    """{node that is down: how many faults keep it down}."""

    def begin(self, node: NodeId) -> None:
        """One more fault keeps the node down."""
        self[node] = self.get(node, 0) + 1

    def end(self, node: NodeId) -> bool:
        """One fault less does; returns whether the node is up now."""
        self[node] -= 1
        if self[node]:
            return False
        del self[node]
        return True
