"""The nodes that are alive, by rack, and the stored bytes of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from railyard.cluster.ids import NodeId, RackId, rack_of


class Loads(Mapping[NodeId, int]):
    """{alive node: stored bytes of its replicas, incoming ones included}."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        self._bytes: dict[NodeId, int] = dict(loads or {})
        self._nodes: list[NodeId] = []  #: sorted; emptied by each change and made again on demand
        self._racks: dict[RackId, list[NodeId]] = {}  #: the same, by rack

    def __getitem__(self, node: NodeId) -> int:
        return self._bytes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def __contains__(self, node: object) -> bool:
        return node in self._bytes

    @property
    def nodes(self) -> Sequence[NodeId]:
        """All alive nodes, sorted."""
        if not self._nodes:
            self._nodes = sorted(self._bytes)
            for node in self._nodes:
                self._racks.setdefault(rack_of(node), []).append(node)
        return self._nodes

    def racks(self) -> Mapping[RackId, Sequence[NodeId]]:
        """{rack: its alive nodes, sorted}, without racks that have none."""
        return self._racks if self.nodes else {}

    def join(self, node: NodeId) -> None:
        """Add a node with 0 bytes."""
        self._bytes[node] = 0
        self._forget_order()

    def leave(self, node: NodeId) -> None:
        """Remove a node; does nothing if it is not there."""
        self._bytes.pop(node, None)
        self._forget_order()

    def add(self, stored_bytes: int, nodes: Collection[NodeId]) -> None:
        """Add bytes to each node's load (negative: subtract); ``KeyError`` if one is unknown."""
        for node in nodes:
            self._bytes[node] += stored_bytes

    def _forget_order(self) -> None:
        self._nodes, self._racks = [], {}
