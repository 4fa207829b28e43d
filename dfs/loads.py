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
        self.total = sum(self._counts.values())
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
        self.total += 1
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
        self._known = False  #: whether what follows is of the nodes that there are
        self._names: NDArray[np.object_] = np.empty(0, dtype=object)  #: sorted: rack by rack
        self._place: dict[NodeId, int] = {}
        self._loads: list[int] = []  #: by place
        self._rack_of: dict[NodeId, RackId] = {}
        self._racks: dict[RackId, slice] = {}
        self._least: dict[RackId, int] = {}  #: what the emptiest of its nodes holds
        self._sizes = Counter[RackId]()
        self._least_size = 0  #: of a rack, in nodes
        self._above = 1  #: more than any node holds
        self._array: Numbers = np.empty(0, dtype=np.int64)  #: ``_loads``
        self._keys: Numbers = self._array  #: what nodes are compared by, with uses
        self._keys_of: Uses | None = None  #: those uses; None: nothing is known of them
        self._keys_total = 0  #: of the uses then
        self._never = 1  #: a number above all of them

    def __getitem__(self, node: NodeId) -> int:
        return self._bytes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def __contains__(self, node: object) -> bool:
        return node in self._bytes

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
        before = self._bytes[node]
        self._bytes[node] = now_bytes = before + stored_bytes
        if not self._known:
            return
        place, rack = self._place[node], self._rack_of[node]
        self._loads[place] = self._array[place] = now_bytes
        self._above = max(self._above, now_bytes + 1)
        self._keys_of = None
        least = self._least[rack]
        if now_bytes < least:
            self._least[rack] = now_bytes
        elif before == least:
            self._least[rack] = min(self._loads[self._racks[rack]])

    # What is asked -------------------------------------------------------------------------------
    def racks(self, barred: Collection[NodeId]) -> Sequence[RackId]:
        """The racks that have nodes other than those."""
        self._look()
        if len(barred) < self._least_size:
            return list(self._racks)
        lacking = Counter(self._rack_of[n] for n in dict.fromkeys(barred) if n in self._rack_of)
        full = [rack for rack, count in lacking.items() if count == self._sizes[rack]]
        return [rack for rack in self._racks if rack not in full]

    def emptiest(
        self, racks: Sequence[RackId], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> Sequence[NodeId]:
        """Of the nodes of these racks, those with least ``used``, and then the emptiest; by name.

        One of the nodes must not be barred.  O(racks) if that leaves one rack, otherwise O(nodes)
        in numpy.
        """
        self._look()
        if used:
            keys, never = self._fullness(used if isinstance(used, Uses) else Uses(used))
        else:
            keys, never = self._array, self._above
            racks = self._with_emptiest(racks, barred)
            if len(racks) == 1:
                return self._emptiest_of(racks[0], barred)
        places = (self._place[node] for node in barred if node in self._place)
        hidden = [slice(place, place + 1) for place in places]
        if len(racks) == 1:
            among = self._racks[racks[0]]
        else:
            among = slice(0, len(keys))
            if len(racks) < len(self._racks):
                hidden += [self._racks[other] for other in self._racks.keys() - racks]
        kept = [keys[span].copy() for span in hidden]
        for span in hidden:
            keys[span] = never
        (best,) = (keys[among] == np.minimum.reduce(keys[among])).nonzero()
        for span, values in zip(hidden[::-1], kept[::-1], strict=True):
            keys[span] = values
        found: Sequence[NodeId] = self._names[among][best]
        return found

    # Inside --------------------------------------------------------------------------------------
    def _with_emptiest(
        self, racks: Sequence[RackId], barred: Collection[NodeId]
    ) -> Sequence[RackId]:
        """Those of the racks that have one of the emptiest nodes, if that is easily seen."""
        if len(racks) == 1 or not {self._rack_of.get(node) for node in barred}.isdisjoint(racks):
            return racks
        least = [self._least[rack] for rack in racks]
        best = min(least)
        if least.count(best) > 1:
            return racks
        return [racks[least.index(best)]]

    def _emptiest_of(self, rack: RackId, barred: Collection[NodeId]) -> list[NodeId]:
        """The emptiest nodes of a rack: few enough to be quicker without numpy."""
        begin, loads = self._racks[rack].start, self._loads[self._racks[rack]]
        for node in barred:
            if self._rack_of.get(node) == rack:
                loads[self._place[node] - begin] = self._above
        least = min(loads)
        return [self._names[begin + at] for at, load in enumerate(loads) if load == least]

    def _fullness(self, uses: Uses) -> tuple[Numbers, int]:
        """What the nodes are compared by, and a number above all of it.

        Computed once for all replicas of a block.
        """
        if self._keys_of is not uses or self._keys_total != uses.total:
            self._keys_of, self._keys_total = uses, uses.total
            counts, self._never = uses.by_place(self._place), (uses.most + 1) * self._above
            if self._never > _INT64_MAX:
                counts = counts.astype(object)
            self._keys = counts * self._above
            self._keys += self._array
        return self._keys, self._never

    def _look(self) -> None:
        """Know the nodes that there are."""
        if self._known:
            return
        self._known = True
        names = sorted(self._bytes)
        self._names = np.array(names, dtype=object)
        self._loads = [self._bytes[node] for node in names]
        self._array = np.array(self._loads, dtype=np.int64)
        self._keys_of = None
        self._place = {node: place for place, node in enumerate(names)}
        self._rack_of = {node: rack_of(node) for node in names}
        self._racks = {}
        for place, rack in enumerate(self._rack_of.values()):  # those of a rack are together
            begin = self._racks[rack].start if rack in self._racks else place
            self._racks[rack] = slice(begin, place + 1)
        self._least = {rack: min(self._loads[span]) for rack, span in self._racks.items()}
        self._sizes = Counter(self._rack_of.values())
        self._least_size = min(self._sizes.values(), default=0)
        self._above = max(self._loads, default=0) + 1
