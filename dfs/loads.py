"""How full the nodes are, in order: so that the emptiest of thousands are found quickly.

Never here: which of them is taken; see ``placement.py``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cluster.ids import NodeId, RackId, rack_of

#: What a use counts for where nodes are compared by uses first: more bytes than any node holds.
_USE = 1 << 100
#: More than anything that nodes are compared by.
_NEVER = 1 << 200
#: Up to so many used nodes are passed over one by one; with more, all nodes are put in order.
_FEW = 16
#: Of so many sets of racks it is kept which nodes are outside of them.
_KEPT = 1000

#: From a node's place up to another's, which is not one of them.
Span = tuple[int, int]


class Uses(dict[NodeId, int]):
    """{node: how often it is used}."""

    __slots__ = ("added",)

    def __init__(self, counts: Mapping[NodeId, int] | Iterable[tuple[NodeId, int]] = ()) -> None:
        super().__init__(counts)
        self.added: list[NodeId] = []  #: in this order, since it was made

    def add(self, node: NodeId) -> None:
        """Use a node once more."""
        self[node] = self.get(node, 0) + 1
        self.added.append(node)


class _Order:
    """Places in the order of a number that each of them has."""

    def __init__(self, values: list[int]) -> None:
        self.values = values  #: by place
        self._places: dict[int, list[int]] = {}  #: {value: the places that have it, ascending}
        for place, value in enumerate(values):
            self._places.setdefault(value, []).append(place)
        self._ascending = sorted(self._places)

    def change(self, place: int, value: int) -> None:
        """Give a place another number, in O(places) steps of a memory move."""
        before, self.values[place] = self.values[place], value
        places = self._places[before]
        if len(places) > 1:
            del places[bisect_left(places, place)]
        else:
            del self._places[before]
            del self._ascending[bisect_left(self._ascending, before)]
        others = self._places.get(value)
        if others is None:
            self._places[value] = [place]
            insort(self._ascending, value)
        else:
            insort(others, place)

    def smallest(
        self, names: Sequence[NodeId], hidden: Sequence[Span], barred: Iterable[int]
    ) -> Sequence[NodeId]:
        """Those with the smallest number, but for hidden spans and barred places, each given once.

        To be looked at before anything changes.
        """
        for value in self._ascending:
            places, gaps = self._places[value], []
            left = len(places)
            for begin, end in hidden:
                first = bisect_left(places, begin)
                last = bisect_left(places, end, first)
                if first < last:
                    gaps.append((first, last))
                    left -= last - first
            for place in barred:
                if self.values[place] == value and not any(b <= place < e for b, e in hidden):
                    first = bisect_left(places, place)
                    gaps.append((first, first + 1))
                    left -= 1
            if left:
                gaps.sort()
                return _Found(names, places, gaps, left)
        return ()


class _Found(Sequence[NodeId]):
    """Nodes, of which one will be asked for: thousands may be equally empty."""

    __slots__ = ("_count", "_gaps", "_names", "_places")

    def __init__(
        self, names: Sequence[NodeId], places: list[int], gaps: list[Span], count: int
    ) -> None:
        self._names = names
        self._places = places
        self._gaps = gaps  #: what of ``places`` does not count, ascending
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if at >= self._count:
            raise IndexError(f"{at} of {self._count} nodes")
        for first, last in self._gaps:
            if at < first:
                break
            at += last - first
        return self._names[self._places[at]]


class Loads(Mapping[NodeId, int]):
    """{node: stored bytes that it holds or will hold}, of the nodes that are alive."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        self._bytes: dict[NodeId, int] = dict(loads or {})
        self._known = False  #: whether what follows is of the nodes that there are
        self._names: list[NodeId] = []  #: sorted: rack by rack
        self._place: dict[NodeId, int] = {}
        self._racks: dict[RackId, Span] = {}
        self._all_racks: tuple[RackId, ...] = ()
        #: {racks: where the nodes of all others are}
        self._others: dict[tuple[RackId, ...], Sequence[Span]] = {}
        self._sizes = Counter[RackId]()
        self._least_size = 0  #: of a rack, in nodes
        self._by_load = _Order([])
        self._by_use: _Order | None = None  #: by a file's uses, and then by load
        self._uses = Uses()  #: those uses
        self._seen = 0  #: how much of what was added to them is known

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
        now_bytes = self._bytes[node] + stored_bytes
        self._bytes[node] = now_bytes
        if self._known:
            place = self._place[node]
            self._by_load.change(place, now_bytes)
            if self._by_use is not None:
                self._by_use.change(place, self._by_use.values[place] + stored_bytes)

    # What is asked -------------------------------------------------------------------------------
    def racks(self, barred: Collection[NodeId]) -> tuple[RackId, ...]:
        """The racks that have nodes other than those."""
        self._look()
        if len(barred) < self._least_size:
            return self._all_racks
        lacking = Counter(rack_of(node) for node in dict.fromkeys(barred) if node in self._place)
        full = [rack for rack, count in lacking.items() if count == self._sizes[rack]]
        return tuple(rack for rack in self._racks if rack not in full)

    def emptiest(
        self, racks: tuple[RackId, ...], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> Sequence[NodeId]:
        """Of the nodes of these racks, those with least ``used``, and then the emptiest; by name.

        One of the nodes must not be barred.  O(racks), or O(nodes of the racks) if they are few;
        O(nodes) the first time that it is asked of a file with many uses.  To be looked at before
        anything changes.
        """
        self._look()
        uses = used if isinstance(used, Uses) else Uses(used)
        by_use = self._order_by(uses) if len(uses) > _FEW else None
        if by_use is None:
            self._by_use = None  # what was asked last was of another file
        if 2 * len(racks) < len(self._racks) or len(racks) == 1:
            return self._among(racks, barred, uses, by_use)
        hidden, place = self._all_but(racks), self._place
        if by_use is None:
            passed = {*barred, *uses} if uses else barred
            places = [place[node] for node in passed if node in place]
            found = self._by_load.smallest(self._names, hidden, places)
            if found or not uses:
                return found
            by_use = self._order_by(uses)
        places = [place[node] for node in barred if node in place]
        return by_use.smallest(self._names, hidden, places)

    # Inside --------------------------------------------------------------------------------------
    def _among(
        self,
        racks: tuple[RackId, ...],
        barred: Collection[NodeId],
        uses: Uses,
        by_use: _Order | None,
    ) -> Sequence[NodeId]:
        """The least used and then emptiest nodes of few racks, by a look at each."""
        best: list[NodeId] = []
        least, names, place = _NEVER, self._names, self._place
        for begin, end in sorted([self._racks[rack] for rack in racks]):
            values = (by_use or self._by_load).values[begin:end]
            for node, count in uses.items() if by_use is None else ():
                if node in place and begin <= place[node] < end:
                    values[place[node] - begin] += _USE * count
            for node in barred:
                if node in place and begin <= place[node] < end:
                    values[place[node] - begin] = _NEVER
            lowest = min(values)
            if lowest < least:
                best, least = [], lowest
            if lowest == least:
                best += [names[at] for at, value in enumerate(values, begin) if value == least]
        return best

    def _all_but(self, racks: tuple[RackId, ...]) -> Sequence[Span]:
        """Where the nodes of all other racks are."""
        spans = self._others.get(racks)
        if spans is None:
            spans = [self._racks[rack] for rack in self._racks if rack not in racks]
            if len(self._others) < _KEPT:
                self._others[racks] = spans
        return spans

    def _order_by(self, uses: Uses) -> _Order:
        """All nodes by these uses, and then by load; block after block of a file it is kept."""
        order, place = self._by_use, self._place
        if order is None or self._uses is not uses:
            values = self._by_load.values.copy()
            for node, count in uses.items():
                if node in place:
                    values[place[node]] += _USE * count
            order = self._by_use = _Order(values)
            self._uses = uses
        else:
            for node in uses.added[self._seen :]:
                if node in place:
                    order.change(place[node], order.values[place[node]] + _USE)
        self._seen = len(uses.added)
        return order

    def _look(self) -> None:
        """Know the nodes that there are."""
        if self._known:
            return
        self._known = True
        self._names = sorted(self._bytes)
        self._place = {node: place for place, node in enumerate(self._names)}
        self._racks = {}
        for place, node in enumerate(self._names):  # those of a rack are together
            rack = rack_of(node)
            self._racks[rack] = self._racks.get(rack, (place, place))[0], place + 1
        self._all_racks = tuple(self._racks)
        self._others = {}
        self._sizes = Counter(map(rack_of, self._names))
        self._least_size = min(self._sizes.values(), default=0)
        self._by_load = _Order([self._bytes[node] for node in self._names])
        self._by_use = None
