"""How full the nodes are, kept in order: so that the emptiest are found without a look at all.

Never here: which of them is taken; see ``placement.py``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping

from cluster.ids import NodeId, RackId, rack_of


class Loads(Mapping[NodeId, int]):
    """{node: stored bytes that it holds or will hold}, of the nodes that are alive."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        self._bytes: dict[NodeId, int] = {}
        #: {rack: its nodes, each with its bytes, the emptiest first}; of all racks ever seen
        self._by_rack: dict[RackId, list[tuple[int, NodeId]]] = {}
        self._rack_of: dict[NodeId, RackId] = {}
        for node, stored_bytes in (loads or {}).items():
            self.join(node)
            self.add(node, stored_bytes)

    def __getitem__(self, node: NodeId) -> int:
        return self._bytes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    # What happens to it --------------------------------------------------------------------------
    def join(self, node: NodeId) -> None:
        """Know an empty node, which is not known yet."""
        rack = self._rack_of[node] = rack_of(node)
        self._bytes[node] = 0
        insort(self._by_rack.setdefault(rack, []), (0, node))

    def leave(self, node: NodeId) -> None:
        """Forget a node; fine if it is not known."""
        stored_bytes = self._bytes.pop(node, None)
        if stored_bytes is not None:
            there = self._by_rack[self._rack_of.pop(node)]
            del there[bisect_left(there, (stored_bytes, node))]

    def add(self, node: NodeId, stored_bytes: int) -> None:
        """A node gets so many bytes more (or fewer, if below 0); ``KeyError`` if not known."""
        before = self._bytes[node]
        there = self._by_rack[self._rack_of[node]]
        del there[bisect_left(there, (before, node))]
        insort(there, (before + stored_bytes, node))
        self._bytes[node] = before + stored_bytes

    # What is asked -------------------------------------------------------------------------------
    def racks(self, barred: Collection[NodeId]) -> list[RackId]:
        """The racks that have nodes other than those."""
        lacking = dict.fromkeys(self._by_rack, 0)
        for node in barred:
            rack = self._rack_of.get(node)
            if rack is not None:
                lacking[rack] += 1
        return [rack for rack, there in self._by_rack.items() if len(there) > lacking[rack]]

    def emptiest(
        self, racks: Iterable[RackId], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> list[NodeId]:
        """Of the nodes of these racks, the least ``used``, and of those the emptiest; by name.

        O(racks), and the nodes in them that are barred, used or equally empty.
        There must be one that is not barred.
        """
        there = [self._by_rack[rack] for rack in racks]
        found = _emptiest(there, {*barred, *used})
        if not found:  # all are used
            free = [node for nodes in there for _, node in nodes if node not in barred]
            fewest = min(used[node] for node in free)
            found = _emptiest(there, {*barred, *(n for n in free if used[n] > fewest)})
        return sorted(found)


def _emptiest(racks: Iterable[list[tuple[int, NodeId]]], avoid: Collection[NodeId]) -> list[NodeId]:
    found: list[NodeId] = []
    least: float = math.inf
    for there in racks:
        for stored_bytes, node in there:
            if stored_bytes > least:
                break
            if node in avoid:
                continue
            if stored_bytes < least:
                least, found = stored_bytes, []
            found.append(node)
    return found
