"""The map output on simulated nodes' disks, of which some may be damaged."""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.ids import AttemptId, NodeId


class MapOutputs:
    """Which attempts' output for readers is on which node."""

    def __init__(self) -> None:
        self._nodes: dict[AttemptId, NodeId] = {}  #: {attempt: where its output is}
        self._damaged: set[AttemptId] = set()

    def keep(self, attempt: AttemptId, node: NodeId) -> None:
        """What an attempt has made is on its node's disk."""
        self._nodes[attempt] = node

    def lose(self, node: NodeId) -> None:
        """All on a node is gone."""
        self._nodes = {name: at for name, at in self._nodes.items() if at != node}

    def damage(self, node: NodeId, many: int) -> None:
        """The last outputs on a node are damaged, so ``many`` at most."""
        here = self.on(node)
        for name in here[max(0, len(here) - many) :]:
            del self._nodes[name]
            self._damaged.add(name)

    def on(self, node: NodeId) -> list[AttemptId]:
        """The attempts whose output is whole on a node."""
        return [name for name, at in self._nodes.items() if at == node]

    @property
    def any_damaged(self) -> bool:
        """Whether any is damaged."""
        return bool(self._damaged)

    def damaged_among(self, attempts: Sequence[AttemptId]) -> tuple[AttemptId, ...]:
        """Those of these attempts whose output is damaged."""
        return tuple([name for name in attempts if name in self._damaged])
