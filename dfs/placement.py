"""On which nodes the replicas of a block go, and which of them go when there are too many.

Pure: what is alive and how full it is comes in as a view, chance as a ``random.Random``.
"""

from __future__ import annotations

import functools
import random
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

import msgspec

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.dfs.loads import Loads, Uses
from railyard.dfs.messages import PlacementHint
from railyard.dfs.order import Order

Racks = tuple[RackId, ...]

NO_HINT = PlacementHint()


def reading_rank(reader: NodeId | None, node: NodeId, replicas: Sequence[NodeId]) -> int:
    """Of nodes equally near, a reader tries the replica on the one with the smallest rank first.

    It differs from reader to reader, and follows from where the replicas are alone: numbers of
    blocks that were written at the same time are chance, and differ on the two clocks.
    """
    return zlib.crc32(f"{reader} {' '.join(sorted(replicas))} {node}".encode())


class StorageView(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy may know."""

    #: {alive node: stored bytes that it holds or will hold}
    load: Mapping[NodeId, int]
    #: {node: replicas of the same file that it has been given}
    of_file: Mapping[NodeId, int] = msgspec.field(default_factory=dict)


class PlacementPolicy(ABC):
    """Answers where replicas go; a policy is a subclass that says which racks it likes best.

    Of several that it likes equally, the one with the fewest replicas of the same file is taken,
    so that its readers and its writer use many links; then the emptiest; then chance.
    """

    name: str
    beside_writer = False  #: whether the first replica goes on the writer's node

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(
        self,
        count: int,
        view: StorageView,
        present: Sequence[NodeId] = (),
        writer: NodeId | None = None,
        exclude: Collection[NodeId] = (),
        hint: PlacementHint = NO_HINT,
    ) -> list[NodeId]:
        """``count`` nodes for new replicas of a block that ``present`` have already.

        The first of them is the one that the writer sends to.  Fewer if there are not so many
        alive; never one twice, one of ``present`` or one of ``exclude``.
        """
        loads = view.load if isinstance(view.load, Loads) else Loads(view.load)
        chosen: list[NodeId] = []
        there, is_hinted = [rack_of(node) for node in present], bool(hint.first or hint.racks)
        barred = {node for node in (*present, *exclude) if node in loads}
        nodes = len(loads)
        while len(chosen) < count and len(barred) < nodes:
            hinted = _hinted(hint, len(there), view, barred) if is_hinted else []
            best: Sequence[NodeId]
            if (
                not there
                and self.beside_writer
                and writer is not None
                and writer in (hinted or loads)
                and writer not in barred
            ):
                best = [writer]
            elif hinted:
                best = _emptiest(hinted, view)
            else:
                best = loads.emptiest(self._liked(loads.racks(barred), there), barred, view.of_file)
            node = self._rng.choice(best)
            chosen.append(node)
            there.append(rack_of(node))
            barred.add(node)
        return chosen

    def choose_all(
        self, stored_lengths: Sequence[int], count: int, loads: Loads, hint: PlacementHint = NO_HINT
    ) -> list[list[NodeId]]:
        """The nodes of all blocks of a new file, of ``count`` replicas; ``loads`` get them."""
        uses, placed = Uses(), list[list[NodeId]]()
        view = StorageView(load=loads, of_file=uses)
        for stored_length in stored_lengths:
            nodes = self.choose(count, view, hint=hint)
            loads.add(stored_length, nodes, uses)
            placed.append(nodes)
        return placed

    def surplus(self, nodes: Sequence[NodeId], wanted: int, view: StorageView) -> list[NodeId]:
        """Which of ``nodes`` should give up their replica so that ``wanted`` are left.

        The racks with most replicas give up first; in a rack, the fullest node.
        """
        left = sorted(nodes)
        gone: list[NodeId] = []
        while len(left) > max(wanted, 0):
            fullness = {n: (_in_rack(left, rack_of(n)), view.load.get(n, 0), n) for n in left}
            victim = max(left, key=fullness.__getitem__)
            left.remove(victim)
            gone.append(victim)
        return gone

    @abstractmethod
    def _liked(self, racks: Racks, taken: Sequence[RackId]) -> Racks:
        """Those of ``racks`` that the policy likes best; never none.

        ``taken``: the racks of the replicas that there are, in order.
        """


class RackAware(PlacementPolicy):
    """HDFS's default: survive the loss of a rack while crossing racks once.

    First replica on the writer's node, second on another rack, third on the second's rack; from
    the fourth on wherever the fewest are in one rack.
    Source: Shvachko et al., The Hadoop Distributed File System, MSST 2010, section III-B.
    Left open there, chosen here: no chance among equals where one is better (see above),
    since a small cluster filled at random is far from even.
    """

    name = "rack-aware"
    beside_writer = True

    def choose(
        self,
        count: int,
        view: StorageView,
        present: Sequence[NodeId] = (),
        writer: NodeId | None = None,
        exclude: Collection[NodeId] = (),
        hint: PlacementHint = NO_HINT,
    ) -> list[NodeId]:
        """See ``PlacementPolicy``.  Most blocks are new, without wishes: those go a short way."""
        loads, has_wishes = view.load, present or exclude or hint.first or hint.racks
        if isinstance(loads, Loads) and 0 < count <= 3 and not has_wishes:
            order = loads.order(view.of_file)
            if order is not None and loads.are_wide:
                chosen = self._pipeline(count, loads, order, writer)
                if len(chosen) == count:
                    return chosen
                return self._finish(chosen, count, view, writer)
        return super().choose(count, view, present, writer, exclude, hint)

    def choose_all(
        self, stored_lengths: Sequence[int], count: int, loads: Loads, hint: PlacementHint = NO_HINT
    ) -> list[list[NodeId]]:
        """See ``PlacementPolicy``.  What a file has not used yet is the same for many blocks."""
        if hint.first or hint.racks or not 0 < count <= 3:
            return super().choose_all(stored_lengths, count, loads, hint)
        uses, placed = Uses(), list[list[NodeId]]()
        view = StorageView(load=loads, of_file=uses)
        order = loads.order(uses)  # which lacks whatever blocks take, so it stays right for more
        for stored_length in stored_lengths:
            if order is not None and loads.are_wide:
                chosen = self._pipeline(count, loads, order, None)
            else:
                chosen = []
            is_short = len(chosen) < count
            if is_short:
                chosen = self._finish(chosen, count, view, None)
            loads.add(stored_length, chosen, uses)
            if is_short:
                order = loads.order(uses)
            placed.append(chosen)
        return placed

    def _pipeline(
        self, count: int, loads: Loads, order: Order[NodeId], writer: NodeId | None
    ) -> list[NodeId]:
        """The nodes of a new block, as ``choose`` finds them, and by the same chance.

        Only those that are in the order, and none twice: so there may be too few.
        """
        names, roll = loads.names, self._rng.getrandbits
        place = None if writer is None else loads.places.get(writer)
        if place is None:
            place = order.take(roll)
            if place is None:
                return []
        else:
            while roll(1):  # as for the choice of one among one
                pass
        nodes = [names[place]]
        if count > 1:
            place = order.take_elsewhere(place, roll)
            if place is None:
                return nodes
            nodes.append(names[place])
        if count > 2:
            place = order.take_beside(place, roll)
            if place is not None:
                nodes.append(names[place])
        return nodes

    def _finish(
        self, chosen: list[NodeId], count: int, view: StorageView, writer: NodeId | None
    ) -> list[NodeId]:
        """A block's nodes, of which the file uses those more often that its pipeline lacks."""
        return chosen + super().choose(count - len(chosen), view, chosen, writer)

    def _liked(self, racks: Racks, taken: Sequence[RackId]) -> Racks:
        if not taken:
            return racks
        if taken.count(taken[0]) == len(taken):
            return _others(racks, taken[0])
        if len(taken) == 2:
            return (taken[1],) if taken[1] in racks else racks
        return _least_taken(racks, taken)


class Spread(PlacementPolicy):
    """Even: each replica on the rack with the fewest of them, wherever the writer is."""

    name = "spread"

    def _liked(self, racks: Racks, taken: Sequence[RackId]) -> Racks:
        return _least_taken(racks, taken)


def _in_rack(nodes: Sequence[NodeId], rack: RackId) -> int:
    return sum(rack_of(n) == rack for n in nodes)


def _hinted(
    hint: PlacementHint, replica: int, view: StorageView, barred: Collection[NodeId]
) -> list[NodeId]:
    """Nodes that are hinted at for a block's replica of that number, and free; perhaps none."""
    if replica == 0:
        for node in hint.first:
            if node in view.load and node not in barred:
                return [node]
    racks = hint.racks[replica] if replica < len(hint.racks) else ()
    if not racks:
        return []
    free = [n for n in view.load if rack_of(n) in racks and n not in barred]
    return _in_emptiest_rack(free, view)


def _emptiest(nodes: list[NodeId], view: StorageView) -> list[NodeId]:
    """The least used by the file, and of those the emptiest; by name."""
    fullness = {n: (view.of_file.get(n, 0), view.load[n]) for n in nodes}
    least = min(fullness.values())
    return sorted(n for n in nodes if fullness[n] == least)


def _in_emptiest_rack(nodes: list[NodeId], view: StorageView) -> list[NodeId]:
    """Those in the rack that has the fewest replicas of the file, then the least on each node.

    So a file, and the files of a folder, are spread evenly over the racks that a hint names.
    """
    by_rack: dict[RackId, list[NodeId]] = {}
    for node in nodes:
        by_rack.setdefault(rack_of(node), []).append(node)

    def fullness(there: list[NodeId]) -> tuple[int, float]:
        of_file = sum(view.of_file.get(node, 0) for node in there)
        return of_file, sum(view.load[node] for node in there) / len(there)

    return min(by_rack.values(), key=fullness, default=[])


def _least_taken(racks: Racks, taken: Sequence[RackId]) -> Racks:
    """The racks that have the fewest of what is taken."""
    fewest = min(map(taken.count, racks))
    return tuple(rack for rack in racks if taken.count(rack) == fewest)


@functools.lru_cache(maxsize=2**10)
def _others(racks: Racks, taken: RackId) -> Racks:
    """All racks but that one, or that one if there is no other."""
    return tuple(rack for rack in racks if rack != taken) or racks
