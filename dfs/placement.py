"""Replica placement: HDFS's rule, which replica a reader reads, and the nodes' loads.

The default rule: survive the loss of a rack, but cross racks only once.

    1st replica   on the writer's node; on any node if the writer is outside the cluster
    2nd           on a node of another rack
    3rd           on another node of the second replica's rack
    4th and on    on a node of a rack that has the fewest of them

Sources: Shvachko et al., The Hadoop Distributed File System, MSST 2010, section III-B.  Of the
nodes that the rule allows, two different ones are drawn and the emptier one is taken, as in HDFS's
AvailableSpaceBlockPlacementPolicy: random placement alone fills a small cluster unevenly.
Left open there, chosen here: "emptier" counts the replicas of the same file before bytes, so that
a file's readers use many links; a scheduler's hints come before the rule, and its racks are filled
evenly, node by node.

Draws are keyed by (seed, file, block), so they do not depend on other placements or on time.  Never
here: clocks, files, and randomness without a seed.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from typing import TypeVar

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.dfs.messages import PlacementHint

T = TypeVar("T")
_WORDS = struct.Struct("<8Q")
NO_HINT = PlacementHint()
#: Rejected draws before the allowed nodes are listed and drawn from directly.
_DRAWS_MAX = 8
#: Nodes to draw from, and racks that are excluded.
_Pool = tuple[Sequence[NodeId], Collection[RackId]]


def draws_of(*key: object) -> Iterator[int]:
    """Endless uniform words of 64 bits, eight per step of a keyed hash; equal for equal keys."""
    packed = repr(key).encode()
    for step in count():
        yield from _WORDS.unpack(blake2b(packed, salt=step.to_bytes(16, "little")).digest())


def one_of(draws: Iterator[int], items: Sequence[T]) -> T:
    """The item that the next word draws."""
    return items[next(draws) % len(items)]


# Loads --------------------------------------------------------------------------------------------
class Loads(dict[NodeId, int]):
    """{alive node: stored bytes of its replicas, incoming ones included}."""

    def __init__(self, loads: Mapping[NodeId, int] | None = None) -> None:
        super().__init__(loads or {})
        self._nodes: list[NodeId] = []  #: sorted; emptied by each change and made again on demand
        self._racks: dict[RackId, list[NodeId]] = {}  #: the same, by rack

    @property
    def nodes(self) -> Sequence[NodeId]:
        if not self._nodes:
            self._nodes = sorted(self)
            for node in self._nodes:
                self._racks.setdefault(rack_of(node), []).append(node)
        return self._nodes

    def racks(self) -> Mapping[RackId, Sequence[NodeId]]:
        """{rack: its alive nodes, sorted}, without racks that have none."""
        return self._racks if self.nodes else {}

    def join(self, node: NodeId) -> None:
        self[node] = 0
        self._nodes, self._racks = [], {}

    def leave(self, node: NodeId) -> None:
        del self[node]
        self._nodes, self._racks = [], {}

    def add(self, stored_bytes: int, nodes: Collection[NodeId]) -> None:
        """Add bytes to each node's load (negative: subtract); ``KeyError`` if one is unknown."""
        for node in nodes:
            self[node] += stored_bytes


# Which replica a reader reads ---------------------------------------------------------------------
def distance(reader: NodeId | None, node: NodeId) -> int:
    """0 for the reader's own node, 1 for its rack, 2 for any other; None reads from outside."""
    if node == reader:
        return 0
    return 1 if reader is not None and rack_of(node) == rack_of(reader) else 2


def nearest(reader: NodeId, replicas: Sequence[NodeId]) -> NodeId | None:
    """The node that a reader reads from; None if there is no replica."""
    if reader in replicas:
        return reader
    return min(replicas, key=lambda node: _preference(reader, node, replicas), default=None)


def nearest_first(
    reader: NodeId | None, replicas: Sequence[NodeId], is_lost: Callable[[NodeId], bool]
) -> list[NodeId]:
    """All nodes in the order in which a reader tries them; those that are lost come last."""
    return sorted(replicas, key=lambda node: (is_lost(node), *_preference(reader, node, replicas)))


def _preference(reader: NodeId | None, node: NodeId, replicas: Sequence[NodeId]) -> tuple[int, int]:
    """The distance; equally near replicas are sorted for each reader in another way.

    Not by the block's id: those of blocks that are written at the same time differ between the two
    clocks.
    """
    turn = zlib.crc32(f"{reader} {' '.join(sorted(replicas))} {node}".encode())
    return distance(reader, node), turn


# The rule -----------------------------------------------------------------------------------------
#: {node: replicas of the same file placed on it}
Uses = Mapping[NodeId, int]


class RackAware:
    """Chooses nodes by the rule above.  Equal seeds give equal choices."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def choose(
        self,
        block: tuple[object, ...],
        count: int,
        loads: Loads,
        uses: Uses,
        present: Sequence[NodeId] = (),
        writer: NodeId | None = None,
        exclude: Collection[NodeId] = (),
        hint: PlacementHint = NO_HINT,
    ) -> list[NodeId]:
        """Choose ``count`` nodes for new replicas of a block that ``present`` has already.

        The writer sends to the first.  Fewer are returned if not enough nodes are alive; all are
        distinct and none is in ``present`` or ``exclude``.  ``block`` is the key of the draws.
        """
        draws = draws_of(self._seed, *block)
        chosen: list[NodeId] = []
        racks = [rack_of(node) for node in present]
        barred = {*present, *exclude}
        for _ in range(count):
            node = _next_node(racks, loads, uses, barred, writer, hint, draws)
            if node is None:
                break
            chosen.append(node)
            racks.append(rack_of(node))
            barred.add(node)
        return chosen

    def surplus(self, nodes: Sequence[NodeId], wanted: int, loads: Loads) -> list[NodeId]:
        """Choose who deletes a replica: in the rack with the most, the fullest node first."""
        remaining = sorted(nodes)
        removed: list[NodeId] = []
        while len(remaining) > max(wanted, 0):
            in_rack = Counter(map(rack_of, remaining))
            victim = max(
                remaining, key=lambda node: (in_rack[rack_of(node)], loads.get(node, 0), node)
            )
            remaining.remove(victim)
            removed.append(victim)
        return removed


def _next_node(
    racks: Sequence[RackId],
    loads: Loads,
    uses: Uses,
    barred: Collection[NodeId],
    writer: NodeId | None,
    hint: PlacementHint,
    draws: Iterator[int],
) -> NodeId | None:
    """Choose the node of the next replica; None if none is left.  ``racks``: those used so far."""
    hinted = _hinted(hint, len(racks), loads, uses, barred)
    if not racks and writer in (hinted or loads) and writer not in barred:
        return writer
    if hinted:
        fullness = {node: (uses.get(node, 0), loads[node]) for node in hinted}
        least = min(fullness.values())
        return one_of(draws, [node for node in hinted if fullness[node] == least])
    for nodes, avoided in _by_rule(racks, loads):
        node = _emptier(nodes, avoided, loads, uses, barred, draws)
        if node is not None:
            return node
    return None


def _by_rule(racks: Sequence[RackId], loads: Loads) -> Iterator[_Pool]:
    """Yield the pools for the next replica: the rule's own, then fallbacks if it is empty."""
    if racks and len(set(racks)) == 1:
        yield loads.nodes, racks[:1]
    elif len(racks) == 2:
        yield loads.racks().get(racks[1], ()), ()
    elif racks:
        replicas = Counter(racks)
        fewest = min((replicas[rack] for rack in loads.racks()), default=0)
        yield loads.nodes, [rack for rack in replicas if replicas[rack] > fewest]
    yield loads.nodes, ()


def _emptier(
    nodes: Sequence[NodeId],
    avoided: Collection[RackId],
    loads: Loads,
    uses: Uses,
    barred: Collection[NodeId],
    draws: Iterator[int],
) -> NodeId | None:
    """Draw two different allowed nodes and return the emptier; None if none is allowed."""
    one = _drawn(nodes, avoided, barred, draws)
    if one is None:
        return None
    other = _drawn(nodes, avoided, {*barred, one}, draws)
    if other is None:
        return one
    other_is_emptier = (uses.get(other, 0), loads[other]) < (uses.get(one, 0), loads[one])
    return other if other_is_emptier else one


def _drawn(
    nodes: Sequence[NodeId],
    avoided: Collection[RackId],
    barred: Collection[NodeId],
    draws: Iterator[int],
) -> NodeId | None:
    """Draw one of the allowed nodes, uniformly."""
    for _ in range(_DRAWS_MAX if nodes else 0):
        node = one_of(draws, nodes)
        if node not in barred and rack_of(node) not in avoided:
            return node
    allowed = [node for node in nodes if node not in barred and rack_of(node) not in avoided]
    return one_of(draws, allowed) if allowed else None


def _hinted(
    hint: PlacementHint, replica: int, loads: Loads, uses: Uses, barred: Collection[NodeId]
) -> Sequence[NodeId]:
    """The free nodes that a hint prefers for a block's replica of that number.

    Of the hint's racks, the one with the fewest replicas of the file, then the fewest bytes per
    node: so a file, and the files of a folder, are spread evenly over the hint's racks.
    """
    if replica == 0:
        for node in hint.first:
            if node in loads and node not in barred:
                return [node]
    racks = hint.racks[replica] if replica < len(hint.racks) else ()
    if not racks:
        return ()
    free = {rack: [n for n in loads.racks().get(rack, ()) if n not in barred] for rack in racks}

    def fullness(nodes: Sequence[NodeId]) -> tuple[int, float]:
        of_file = sum([uses.get(node, 0) for node in nodes])
        return of_file, sum([loads[node] for node in nodes]) / len(nodes)

    return min(filter(None, free.values()), key=fullness, default=())
