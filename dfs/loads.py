"""How full the nodes are, as arrays: so that the emptiest of thousands are found quickly.

Never here: which of them is taken; see ``placement.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cluster.ids import NodeId, RackId, rack_of

Numbers = NDArray[np.int64]
_INT64_MAX = int(np.iinfo(np.int64).max)


class Uses(Mapping[NodeId, int]):
    """{node: how often it is used}, also as an array that follows what is added."""

    def __init__(self, counts: Mapping[NodeId, int] | None = None) -> None:
        self._counts: dict[NodeId, int] = dict(counts or {})
        self.most = max(self._counts.values(), default=0)  #: the largest of them
        self._place: Mapping[NodeId, int] = {}  #: where nodes are in the array
        self._array: Numbers = np.empty(0, dtype=np.int64)

    def __getitem__(self, node: NodeId) -> int:
        return self._counts[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, node: NodeId) -> None:
        """Use a node once more."""
        count = self._counts[node] = self._counts.get(node, 0) + 1
        self.most = max(self.most, count)
        if node in self._place:
            self._array[self._place[node]] += 1

    def by_place(self, place: Mapping[NodeId, int]) -> Numbers:
        """The counts in that order of nodes; to be read only."""
        if self._place is not place:
            self._place = place
            self._array = np.zeros(len(place), dtype=np.int64)
            for node, count in self._counts.items():
                if node in place:
                    self._array[place[node]] = count
        return self._array


class Loads(Mapping[NodeId, int]):
    """{node: stored bytes that it holds or will hold}, of the nodes that are alive."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        self._bytes: dict[NodeId, int] = dict(loads or {})
        self._known = False  #: whether the arrays are those of the nodes that there are
        self._names: NDArray[np.object_] = np.empty(0, dtype=object)  #: sorted: rack by rack
        self._loads: Numbers = np.empty(0, dtype=np.int64)
        self._place: dict[NodeId, int] = {}
        self._rack_of: dict[NodeId, RackId] = {}
        self._racks: dict[RackId, slice] = {}
        self._all_racks: list[RackId] = []
        self._sizes = Counter[RackId]()
        self._least_size = 0  #: of a rack, in nodes
        self._above = 1  #: more than any node holds

    def __getitem__(self, node: NodeId) -> int:
        return self._bytes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    # What happens to it --------------------------------------------------------------------------
    def join(self, node: NodeId) -> None:
        """Know an empty node."""
        self._bytes[node] = 0
        self._known = False

    def leave(self, node: NodeId) -> None:
        """Forget a node; fine if it is not known."""
        self._bytes.pop(node, None)
        self._known = False

    def add(self, node: NodeId, stored_bytes: int) -> None:
        """A node gets so many bytes more (or fewer, if below 0); ``KeyError`` if not known."""
        self._bytes[node] = now_bytes = self._bytes[node] + stored_bytes
        if self._known:
            self._loads[self._place[node]] = now_bytes
            self._above = max(self._above, now_bytes + 1)

    # What is asked -------------------------------------------------------------------------------
    def racks(self, barred: Collection[NodeId]) -> Sequence[RackId]:
        """The racks that have nodes other than those."""
        self._look()
        if len(barred) < self._least_size:
            return self._all_racks
        lacking = Counter(self._rack_of[n] for n in dict.fromkeys(barred) if n in self._rack_of)
        full = [rack for rack, count in lacking.items() if count == self._sizes[rack]]
        return [rack for rack in self._all_racks if rack not in full]

    def emptiest(
        self, racks: Sequence[RackId], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> Sequence[NodeId]:
        """Of the nodes of these racks, those with least ``used``, and then the emptiest; by name.

        One of the nodes must not be barred.  O(nodes of the cluster, or of the only rack) in numpy.
        """
        self._look()
        among = self._racks[racks[0]] if len(racks) == 1 else slice(0, len(self._loads))
        keys, never = self._fullness(used, among)
        if 1 < len(racks) < len(self._all_racks):
            for other in self._racks.keys() - racks:
                keys[self._racks[other]] = never
        for node in barred:
            place = self._place.get(node, -1) - among.start
            if 0 <= place < len(keys):
                keys[place] = never
        (best,) = (keys == np.minimum.reduce(keys)).nonzero()
        found: Sequence[NodeId] = self._names[among][best]
        return found

    # Inside --------------------------------------------------------------------------------------
    def _fullness(self, used: Mapping[NodeId, int], among: slice) -> tuple[Numbers, int]:
        """What the nodes at these places are compared by, and a number above all of it."""
        if not used:
            return self._loads[among].copy(), self._above
        uses = used if isinstance(used, Uses) else Uses(used)
        counts, never = uses.by_place(self._place)[among], (uses.most + 1) * self._above
        if never > _INT64_MAX:
            counts = counts.astype(object)
        keys: Numbers = counts * self._above
        keys += self._loads[among]
        return keys, never

    def _look(self) -> None:
        """Know the nodes that there are."""
        if self._known:
            return
        names = sorted(self._bytes)
        self._known = True
        self._names = np.array(names, dtype=object)
        self._loads = np.array([self._bytes[node] for node in names], dtype=np.int64)
        self._place = {node: place for place, node in enumerate(names)}
        self._racks = {}
        for place, node in enumerate(names):  # those of a rack are next to each other
            rack = rack_of(node)
            begin = self._racks[rack].start if rack in self._racks else place
            self._racks[rack] = slice(begin, place + 1)
        self._rack_of = {node: rack_of(node) for node in names}
        self._all_racks = list(self._racks)
        self._sizes = Counter(self._rack_of.values())
        self._least_size = min(self._sizes.values(), default=0)
        self._above = max(self._bytes.values(), default=0) + 1
