"""Which nodes hold which blocks, as far as the DataNodes have said.

A replica is in one of these states:

    incoming ──► sound ──► leaving ──► (gone)      leaving: its deletion was ordered
        │          └─────► corrupt ──► leaving
        └──► (gone)

Only nodes that are alive are in here: a lost node's replicas are forgotten, and reported anew if
it comes back.  Never here: decisions about where replicas go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from cluster.errors import InvariantError
from cluster.ids import NodeId
from dfs.loads import Loads
from dfs.messages import BlockId, HeldBlock

State = Literal["incoming", "sound", "corrupt", "leaving"]
_SOUND = {"sound"}


@dataclass(slots=True)
class Block:
    """A block and its replicas."""

    stored_length: int
    wanted: int  #: replicas that it should have
    complete: bool  #: False while its file is being written
    replicas: dict[NodeId, State] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether it has all the replicas that it should have, and no others."""
        return len(self.replicas) == self.wanted and set(self.replicas.values()) == _SOUND

    def nodes(self, *states: State) -> tuple[NodeId, ...]:
        """Nodes whose replica is in one of ``states``, in order of their name."""
        return tuple(sorted([n for n, state in self.replicas.items() if state in states]))


class BlockMap:
    """Blocks by id, and what each node that is alive holds."""

    def __init__(self) -> None:
        self.blocks: dict[BlockId, Block] = {}
        #: {alive node: stored bytes that it holds or will hold}
        self.load = Loads()
        #: {alive node: its blocks, in whatever state}
        self._held: dict[NodeId, dict[BlockId, None]] = {}
        #: complete blocks whose replicas or wishes have changed, in that order
        self.touched: dict[BlockId, None] = {}

    # Blocks ----------------------------------------------------------------------------------
    def add(self, block: BlockId, stored_length: int, wanted: int, complete: bool) -> None:
        """Know a block from now on."""
        self.blocks[block] = Block(stored_length=stored_length, wanted=wanted, complete=complete)

    def put(
        self, block: BlockId, stored_length: int, wanted: int, nodes: Iterable[NodeId]
    ) -> tuple[NodeId, ...]:
        """Know a block that lies on these nodes already, and that nobody writes; those alive."""
        alive = tuple(node for node in nodes if node in self._held)
        self.blocks[block] = Block(stored_length, wanted, True, dict.fromkeys(alive, "sound"))
        for node in alive:
            self._held[node][block] = None
            self.load.add(node, stored_length)
        if len(alive) != wanted:
            self.touched[block] = None
        return alive

    def complete(self, block: BlockId, nodes: Collection[NodeId]) -> list[NodeId]:
        """Note that ``nodes`` have acknowledged the block; others that should have it have not.

        Those others are returned.
        """
        written = [n for n in nodes if n in self._held]
        known = self.blocks[block]
        known.complete = True
        late = [node for node in known.nodes("incoming") if node not in nodes]
        for node in late:
            self.drop_replica(block, node)
        for node in written:
            self.set_replica(block, node, "sound")
        if known.is_well:
            self.touched.pop(block, None)
        else:
            self.touched[block] = None
        return late

    def forget(self, block: BlockId) -> tuple[NodeId, ...]:
        """Know a block no longer; the nodes that have it, or will."""
        known = self.blocks.get(block)
        if known is None:
            return ()
        nodes = tuple(sorted(known.replicas))
        for node in nodes:
            self.drop_replica(block, node)
        del self.blocks[block]
        self.touched.pop(block, None)
        return nodes

    def sound(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes that can serve a block."""
        known = self.blocks.get(block)
        return known.nodes("sound") if known else ()

    # Replicas --------------------------------------------------------------------------------
    def set_replica(self, block: BlockId, node: NodeId, state: State) -> None:
        """Note the state of a replica at a node that is alive."""
        known = self.blocks[block]
        if node not in known.replicas:
            self._held[node][block] = None
            self.load.add(node, known.stored_length)
        known.replicas[node] = state
        if known.complete:
            self.touched[block] = None

    def drop_replica(self, block: BlockId, node: NodeId) -> None:
        """Note that a node does not have a block; fine if it never did."""
        known = self.blocks.get(block)
        if known is None or known.replicas.pop(node, None) is None:
            return
        del self._held[node][block]
        self.load.add(node, -known.stored_length)
        if known.complete:
            self.touched[block] = None

    # Nodes -----------------------------------------------------------------------------------
    def node_joined(self, node: NodeId, held: Iterable[HeldBlock]) -> list[BlockId]:
        """Note a node and all that it holds; those that it should not have are returned."""
        self.node_lost(node)
        self._held[node] = {}
        self.load.join(node)
        unknown: list[BlockId] = []
        for replica in held:
            known = self.blocks.get(replica.block)
            if known is None:
                unknown.append(replica.block)
            else:
                whole = replica.stored_length == known.stored_length
                self.set_replica(replica.block, node, "sound" if whole else "corrupt")
        self._touch_needy()
        return unknown

    def node_lost(self, node: NodeId) -> None:
        """Forget a node and its replicas; fine if it is not known."""
        for block in list(self._held.get(node, ())):
            self.drop_replica(block, node)
        self._held.pop(node, None)
        self.load.leave(node)

    def is_alive(self, node: NodeId) -> bool:
        """Whether a node can be used."""
        return node in self._held

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` unless both directions tell the same."""
        for node, held in self._held.items():
            load = sum(self.blocks[block].stored_length for block in held)
            if load != self.load[node]:
                raise InvariantError(
                    f"{node} holds {load} bytes, but {self.load[node]} are counted"
                )
        for block, known in self.blocks.items():
            for node in known.replicas:
                if block not in self._held.get(node, ()):
                    raise InvariantError(f"block {block} is on {node}, but {node} lacks it")

    def _touch_needy(self) -> None:
        """A new node may be what some blocks have waited for."""
        for block, known in self.blocks.items():
            if len(known.replicas) < known.wanted:
                self.touched[block] = None
