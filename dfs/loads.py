"""How full the nodes are, in order: so that the emptiest of thousands are found quickly.

Never here: which of them is taken; see ``placement.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.dfs.order import Order, Span

#: Up to so many used nodes are passed over one by one; more are taken out of the order.
_FEW = 16
#: Nodes are put into the order of a file, unless they are more than one of so many.
_SORT_SHARE = 8
#: Of so many sets of racks it is kept which nodes are outside of them.
_KEPT = 1000


class Uses(dict[NodeId, int]):
    """{node: how often a file uses it}.  They change as ``Loads.add`` says, and only so."""

    __slots__ = ()


_NO_USES = Uses()


class Loads(Mapping[NodeId, int]):
    """{node: stored bytes that it holds or will hold}, of the nodes that are alive."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        self._bytes: dict[NodeId, int] = dict(loads or {})
        self._known = False  #: whether what follows is of the nodes that there are
        self.names: list[NodeId] = []  #: sorted: rack by rack
        self.places: dict[NodeId, int] = {}  #: of the names
        self.spans: list[Span] = []  #: by place, that of its rack
        self.are_wide = False  #: whether there are several racks, and several nodes in each
        self._racks: dict[RackId, Span] = {}
        self._all_racks: tuple[RackId, ...] = ()
        #: {racks: where the nodes of all others are}
        self._others: dict[tuple[RackId, ...], Sequence[Span]] = {}
        self._sizes = Counter[RackId]()
        self._least_size = 0  #: of a rack, in nodes
        #: nodes that may not be in order; the values mean nothing
        self._late: dict[NodeId, int] = {}
        #: the nodes that a file uses least, by load; see ``order``
        self._order = Order[NodeId]([], [], [], self._late)
        self._uses = _NO_USES  #: those of the file
        self._level = 0  #: how often it uses its least used nodes

    def __getitem__(self, node: NodeId) -> int:
        return self._bytes[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def __contains__(self, node: object) -> bool:
        return node in self._bytes

    def has_any(self, nodes: Collection[NodeId]) -> bool:
        """Whether one of some nodes is alive."""
        return not self._bytes.keys().isdisjoint(nodes)

    # What happens to it --------------------------------------------------------------------------
    def join(self, node: NodeId) -> None:
        """Know an empty node."""
        self._bytes[node] = 0
        self._known = False

    def leave(self, node: NodeId) -> None:
        """Forget a node; fine if it is not known."""
        self._bytes.pop(node, None)
        self._known = False

    def add(self, stored_bytes: int, nodes: Collection[NodeId], uses: Uses | None = None) -> None:
        """Nodes get so many bytes more (or fewer, if below 0); ``KeyError`` if one is not known.

        ``uses``: those of the file for which they get them, which are counted.
        """
        held, late = self._bytes, self._late
        for node in nodes:
            held[node] += stored_bytes
            late[node] = 0
        if uses is not None:
            for node in nodes:
                uses[node] = uses.get(node, 0) + 1

    # What is asked -------------------------------------------------------------------------------
    def racks(self, barred: Collection[NodeId]) -> tuple[RackId, ...]:
        """The racks that have nodes other than those."""
        self._look()
        if len(barred) < self._least_size:
            return self._all_racks
        lacking = Counter(rack_of(node) for node in dict.fromkeys(barred) if node in self.places)
        full = [rack for rack, count in lacking.items() if count == self._sizes[rack]]
        return tuple(rack for rack in self._racks if rack not in full)

    def order(self, used: Mapping[NodeId, int]) -> Order[NodeId] | None:
        """The nodes that are least ``used``, by load; None if it is not kept for these uses.

        It is while there are no uses, or so many that not all of them are passed over.  The
        places in it are those of ``names``; it is right until anything changes.
        """
        if not self._known:
            self._look()
        if not used:
            return self._order_for(_NO_USES)
        if len(used) > _FEW and isinstance(used, Uses):
            return self._order_for(used)
        return None

    def emptiest(
        self, racks: tuple[RackId, ...], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> Sequence[NodeId]:
        """Of the nodes of these racks, those with least ``used``, and then the emptiest; by name.

        One of the nodes must not be barred.  O(racks), or O(nodes of the racks) if they are few or
        all used more often than others.  To be looked at before anything changes.
        """
        self._look()
        if 2 * len(racks) < len(self._racks) or len(racks) == 1:
            return self._look_at_each(racks, barred, used)
        passed = dict.fromkeys(barred)
        order = self.order(used)
        if order is None:
            passed.update(dict.fromkeys(used))
            order = self._order_for(_NO_USES)
        places = [self.places[node] for node in passed if node in self.places]
        found = order.smallest(self._all_but(racks), places)
        return found or self._look_at_each(racks, barred, used)

    # Inside --------------------------------------------------------------------------------------
    def _look_at_each(
        self, racks: tuple[RackId, ...], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> list[NodeId]:
        """The same, by a look at each node."""
        spans = sorted([self._racks[rack] for rack in racks])
        free = [n for begin, end in spans for n in self.names[begin:end] if n not in barred]
        fullness = [(used.get(node, 0), self._bytes[node]) for node in free]
        least = min(fullness)
        return [node for node, each in zip(free, fullness, strict=True) if each == least]

    def _all_but(self, racks: tuple[RackId, ...]) -> Sequence[Span]:
        """Where the nodes of all other racks are."""
        spans = self._others.get(racks)
        if spans is None:
            spans = [self._racks[rack] for rack in self._racks if rack not in racks]
            if len(self._others) < _KEPT:
                self._others[racks] = spans
        return spans

    def _order_for(self, uses: Uses) -> Order[NodeId]:
        """The order for a file that has these uses; block after block of it, little is to do."""
        late, order, names = self._late, self._order, self.names
        if uses is not self._uses:
            late.update(self._uses)
            late.update(uses)
            for node in late.keys() - self.places.keys():  # which a file uses, but which is gone
                del late[node]
            self._uses, self._level = uses, 0
        if not uses:
            order.put(late, self.places, self._bytes)
            late.clear()
            return order
        if len(late) * _SORT_SHARE > len(names):
            self._level = self._least_use() if len(uses) >= len(names) else 0
            self._sort()
        elif late:
            held, level = self._bytes, self._level
            values = {node: None if uses.get(node, 0) > level else held[node] for node in late}
            order.put(late, self.places, values)
            late.clear()
        if self._order.is_empty:
            self._level = self._least_use()
            self._sort()
        return self._order

    def _least_use(self) -> int:
        """How often the file uses the nodes that it uses least."""
        return min(map(self._uses.get, self.names, repeat(0)), default=0)

    def _sort(self) -> None:
        """Put all nodes in order."""
        held, uses, level = self._bytes, self._uses, self._level
        values: Sequence[int | None] = list(map(held.__getitem__, self.names))
        if uses:
            uses_of = map(uses.get, self.names, repeat(0))
            values = [None if u > level else v for u, v in zip(uses_of, values, strict=True)]
        self._late.clear()
        self._order = Order(self.names, values, self.spans, self._late)

    def _look(self) -> None:
        """Know the nodes that there are."""
        if self._known:
            return
        self._known = True
        self.names = sorted(self._bytes)
        self.places = {node: place for place, node in enumerate(self.names)}
        self._racks = {}
        for place, node in enumerate(self.names):  # those of a rack are together
            rack = rack_of(node)
            self._racks[rack] = self._racks.get(rack, (place, place))[0], place + 1
        self.spans = [self._racks[rack_of(node)] for node in self.names]
        self._all_racks = tuple(self._racks)
        self._others = {}
        self._sizes = Counter(map(rack_of, self.names))
        self._least_size = min(self._sizes.values(), default=0)
        self.are_wide = len(self._racks) > 1 and self._least_size > 1
        self._uses, self._level = _NO_USES, 0
        self._sort()
