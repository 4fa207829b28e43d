"""On which nodes the replicas of a block go, and which of them go when there are too many.

Pure: what is alive and how full it is comes in as a view, chance as a ``random.Random``.
"""

from __future__ import annotations

import functools
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.ids import NodeId, RackId, rack_of
from dfs.messages import PlacementHint

NO_HINT = PlacementHint()


@dataclass(frozen=True, kw_only=True)
class StorageView:
    """What a policy may know."""

    #: {alive node: stored bytes that it holds or will hold}
    load: Mapping[NodeId, int]
    #: {node: replicas of the same file that it has been given}
    of_file: Mapping[NodeId, int] = field(default_factory=dict)


class PlacementPolicy(ABC):
    """Answers where replicas go; a policy is a subclass that says which nodes it likes best.

    Of several that it likes equally, the one with the fewest replicas of the same file is taken,
    so that its readers and its writer use many links; then the emptiest; then chance.
    """

    name: str

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
        chosen: list[NodeId] = []
        taken = list(present)
        barred = {*present, *exclude}
        free = [n for n in view.load if n not in barred] if barred else list(view.load)
        # A few passes over the nodes for each replica: 2,000 nodes, ~0.3 ms.
        while free and len(chosen) < count:
            racks = hint.racks[len(taken)] if len(taken) < len(hint.racks) else ()
            hinted = [n for n in free if _rack(n) in racks] if racks else []
            hinted = _in_emptiest_rack(hinted, view) or free
            if not taken:
                hinted = next(([n] for n in hint.first if n in free), hinted)
            node = self._emptiest(self._preferred(hinted, taken, writer), view)
            chosen.append(node)
            taken.append(node)
            free.remove(node)
        return chosen

    def surplus(self, nodes: Sequence[NodeId], wanted: int, view: StorageView) -> list[NodeId]:
        """Which of ``nodes`` should give up their replica so that ``wanted`` are left.

        The racks with most replicas give up first; in a rack, the fullest node.
        """
        left = sorted(nodes)
        gone: list[NodeId] = []
        while len(left) > max(wanted, 0):
            fullness = {n: (_in_rack(left, _rack(n)), view.load.get(n, 0), n) for n in left}
            victim = max(left, key=fullness.__getitem__)
            left.remove(victim)
            gone.append(victim)
        return gone

    @abstractmethod
    def _preferred(
        self, free: list[NodeId], taken: list[NodeId], writer: NodeId | None
    ) -> list[NodeId]:
        """Those of ``free`` that the policy likes best; never none."""

    def _emptiest(self, nodes: list[NodeId], view: StorageView) -> NodeId:
        of_file, load = view.of_file, view.load
        if of_file:
            without = [n for n in nodes if n not in of_file]
            if not without:
                fewest = min(of_file[n] for n in nodes)
                without = [n for n in nodes if of_file[n] == fewest]
            nodes = without
        least = min(map(load.__getitem__, nodes))
        return self._rng.choice(sorted([n for n in nodes if load[n] == least]))


class RackAware(PlacementPolicy):
    """HDFS's default: survive the loss of a rack while crossing racks once.

    First replica on the writer's node, second on another rack, third on the second's rack; from
    the fourth on wherever the fewest are in one rack.
    Source: Shvachko et al., The Hadoop Distributed File System, MSST 2010, section III-B.
    Left open there, chosen here: no chance among equals where one is better (see above),
    since a small cluster filled at random is far from even.
    """

    name = "rack-aware"

    def _preferred(
        self, free: list[NodeId], taken: list[NodeId], writer: NodeId | None
    ) -> list[NodeId]:
        if not taken:
            return [writer] if writer in free and writer is not None else free
        racks = {_rack(n) for n in taken}
        if len(racks) == 1:
            return [n for n in free if _rack(n) not in racks] or free
        if len(taken) == 2:
            second = _rack(taken[1])
            return [n for n in free if _rack(n) == second] or free
        return _in_emptiest_racks(free, taken)


class Spread(PlacementPolicy):
    """Even: each replica on the rack with the fewest of them, wherever the writer is."""

    name = "spread"

    def _preferred(
        self, free: list[NodeId], taken: list[NodeId], writer: NodeId | None
    ) -> list[NodeId]:
        del writer
        return _in_emptiest_racks(free, taken)


#: Remembered, since placing a block asks for every node's rack several times.
_rack = functools.lru_cache(maxsize=2**16)(rack_of)


def _in_rack(nodes: Sequence[NodeId], rack: RackId) -> int:
    return sum(_rack(n) == rack for n in nodes)


def _in_emptiest_rack(nodes: list[NodeId], view: StorageView) -> list[NodeId]:
    """Those in the rack that has the fewest replicas of the file, then the least on each node.

    So a file, and the files of a folder, are spread evenly over the racks that a hint names.
    """
    by_rack: dict[RackId, list[NodeId]] = {}
    for node in nodes:
        by_rack.setdefault(_rack(node), []).append(node)

    def fullness(there: list[NodeId]) -> tuple[int, float]:
        of_file = sum(view.of_file.get(node, 0) for node in there)
        return of_file, sum(view.load[node] for node in there) / len(there)

    return min(by_rack.values(), key=fullness, default=[])


def _in_emptiest_racks(free: list[NodeId], taken: Sequence[NodeId]) -> list[NodeId]:
    """Those of ``free`` whose rack has the fewest of ``taken``."""
    fewest = min(_in_rack(taken, _rack(n)) for n in free)
    return [n for n in free if _in_rack(taken, _rack(n)) == fewest]
