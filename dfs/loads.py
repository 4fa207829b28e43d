"""How full the nodes are, in order: so that the emptiest of thousands are found quickly.

Never here: which of them is taken; see ``placement.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cluster.ids import NodeId, RackId, rack_of
from dfs.order import Order, Span

#: What a use counts for where nodes are compared by uses first: more bytes than any node holds.
_USE = 1 << 100
#: More than anything that nodes are compared by.
_NEVER = 1 << 200
#: Up to so many used nodes are passed over one by one; with more, all nodes are put in order.
_FEW = 16
#: Of so many sets of racks it is kept which nodes are outside of them.
_KEPT = 1000


class Uses(dict[NodeId, int]):
    """{node: how often a file uses it}.  They change as ``Loads.add`` says, and only so."""

    __slots__ = ()


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
        self._by_load = Order([])
        self._by_use: Order | None = None  #: by a file's uses, and then by load
        self._uses = Uses()  #: those uses
        #: nodes that have another load than in the order that was asked for last
        self._late: dict[NodeId, None] = {}
        #: if that is one by use, nodes that have another load than in that by load as well
        self._later: dict[NodeId, None] = {}

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

    def add(self, stored_bytes: int, nodes: Iterable[NodeId], uses: Uses | None = None) -> None:
        """Nodes get so many bytes more (or fewer, if below 0); ``KeyError`` if one is not known.

        ``uses``: those of the file for which they get them, which are counted.
        """
        held, late = self._bytes, self._late
        for node in nodes:
            held[node] += stored_bytes
            late[node] = None
            if uses is not None:
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

    def order(self, used: Mapping[NodeId, int]) -> Order | None:
        """All nodes by how often they are ``used``, and then by load; None if that is not kept.

        It is while there are no uses, or so many that not all of them are passed over.  The
        places in it are those of ``names``; it is right until anything changes, or another is
        asked for.
        """
        if not self._known:
            self._look()
        if not used:
            return self._order_by_load()
        if len(used) > _FEW and isinstance(used, Uses):
            return self._order_by_use(used)
        return None

    def emptiest(
        self, racks: tuple[RackId, ...], barred: Collection[NodeId], used: Mapping[NodeId, int]
    ) -> Sequence[NodeId]:
        """Of the nodes of these racks, those with least ``used``, and then the emptiest; by name.

        One of the nodes must not be barred.  O(racks), or O(nodes of the racks) if they are few;
        O(nodes) the first time that it is asked of a file with many uses.  To be looked at before
        anything changes.
        """
        uses = used if isinstance(used, Uses) else Uses(used)
        order = self.order(uses)
        if 2 * len(racks) < len(self._racks) or len(racks) == 1:
            return self._among(racks, barred, uses, order)
        hidden, places = self._all_but(racks), self.places
        if order is None:
            passed = [places[node] for node in {*barred, *uses} if node in places]
            found = self._order_by_load().smallest(self.names, hidden, passed)
            if found:
                return found
            order = self._order_by_use(uses)
        passed = [places[node] for node in barred if node in places]
        return order.smallest(self.names, hidden, passed)

    # Inside --------------------------------------------------------------------------------------
    def _among(
        self,
        racks: tuple[RackId, ...],
        barred: Collection[NodeId],
        uses: Uses,
        order: Order | None,
    ) -> Sequence[NodeId]:
        """The least used and then emptiest nodes of few racks, by a look at each."""
        more: dict[int, int] = {}
        if order is None:
            order = self._order_by_load()
            more = {self.places[n]: _USE * count for n, count in uses.items() if n in self.places}
        more.update((self.places[node], _NEVER) for node in barred if node in self.places)
        found = order.smallest_inside([self._racks[rack] for rack in racks], more)
        return [self.names[place] for place in found]

    def _all_but(self, racks: tuple[RackId, ...]) -> Sequence[Span]:
        """Where the nodes of all other racks are."""
        spans = self._others.get(racks)
        if spans is None:
            spans = [self._racks[rack] for rack in self._racks if rack not in racks]
            if len(self._others) < _KEPT:
                self._others[racks] = spans
        return spans

    def _order_by_load(self) -> Order:
        """All nodes by load."""
        self._by_use = None  # what was asked last was of another file
        late = self._late
        if self._later:
            late.update(self._later)
            self._later.clear()
        if late:
            held, places = self._bytes, self.places
            self._by_load.change([(places[node], held[node]) for node in late])
            late.clear()
        return self._by_load

    def _order_by_use(self, uses: Uses) -> Order:
        """All nodes by these uses, and then by load; block after block of a file it is kept."""
        order = self._by_use
        if order is None or self._uses is not uses:
            order = self._order_by_load().copy()
            self._by_use, self._uses = order, uses
            late = dict.fromkeys(uses)
        else:
            late = self._late
            self._later.update(late)
        held, places = self._bytes, self.places
        order.change([(places[n], uses.get(n, 0) * _USE + held[n]) for n in late if n in places])
        late.clear()
        return order

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
        self._by_load = Order([self._bytes[node] for node in self.names])
        self.are_wide = len(self._racks) > 1 and self._least_size > 1
        self._by_use = None
        self._late.clear()
        self._later.clear()
