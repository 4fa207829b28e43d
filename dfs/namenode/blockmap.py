"""Maps each block to the nodes that hold it, as far as the DataNodes have reported.

A replica is in one of these states:

    incoming ──► sound ──► leaving ──► (gone)      leaving: commanded to be deleted
        │          │▲         ▲
        └─► (gone) ▼│         │                    suspect: to be verified by its DataNode
                 suspect ──► corrupt               corrupt: found damaged or missing by it
                   │▲ └────► unreadable            unreadable: not readable by it for now
                   └┴──────────┘

It has only nodes that are alive: a lost node's replicas are dropped, and reported again if the node
comes back.  Never here: decisions about where replicas go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from railyard.cluster.ids import NodeId
from railyard.dfs.messages import BlockId, BlockReport, HeldBlock
from railyard.dfs.placement import Loads

State = Literal["incoming", "sound", "suspect", "unreadable", "corrupt", "leaving"]
#: The states of doubtful replicas, the most promising first.
IN_DOUBT: tuple[State, ...] = ("suspect", "unreadable", "corrupt")


class Block(msgspec.Struct, gc=False):
    """A block and its replicas.  Sound ones, the most, are one tuple: there are many blocks."""

    stored_length: int
    wanted: int  #: replicas that the block should have
    complete: bool  #: False while its file is being written
    sound: tuple[NodeId, ...] = ()  #: nodes with a sound replica, sorted
    others: dict[NodeId, State] | None = None  #: {node: state if not sound}; None if empty
    #: the write pipeline's nodes, as long as no replica of them was acknowledged or reported
    begun: tuple[NodeId, ...] = ()

    @property
    def holders(self) -> tuple[NodeId, ...]:
        return (*self.sound, *self.begun, *(self.others or ()))

    @property
    def doubtful(self) -> tuple[NodeId, ...]:
        if self.others is None:
            return ()
        return tuple(node for state in IN_DOUBT for node in self.nodes(state))

    def state(self, node: NodeId) -> State | None:
        if node in self.sound:
            return "sound"
        if node in self.begun:
            return "incoming"
        return self.others.get(node) if self.others else None

    def nodes(self, *states: State) -> tuple[NodeId, ...]:
        if self.others is None and not self.begun:
            return self.sound if "sound" in states else ()
        nodes = [node for node, state in self._others().items() if state in states]
        return tuple(sorted([*self.sound, *nodes] if "sound" in states else nodes))

    def set(self, node: NodeId, state: State | None) -> None:
        """Set the state of a node's replica; None removes the replica."""
        others, self.begun = self._others(), ()
        if node in self.sound:
            self.sound = tuple(other for other in self.sound if other != node)
        others.pop(node, None)
        if state == "sound":
            self.sound = tuple(sorted((*self.sound, node)))
        elif state is not None:
            others[node] = state
        self.others = others or None

    def _others(self) -> dict[NodeId, State]:
        """{node: state of its replica}, without sound ones."""
        incoming: dict[NodeId, State] = dict.fromkeys(self.begun, "incoming")
        return {**incoming, **(self.others or {})}


class BlockMap:
    """All blocks with their replicas, and the load of each node that is alive."""

    def __init__(self) -> None:
        self.blocks: dict[BlockId, Block] = {}
        self.load = Loads()
        #: complete blocks that replication has to look at again, in the order of their changes
        self.touched: dict[BlockId, None] = {}
        #: nodes that are to have no replicas; theirs do not count
        self.draining: frozenset[NodeId] = frozenset()

    # Blocks ----------------------------------------------------------------------------------
    def add(self, block: BlockId, stored_length: int, wanted: int) -> None:
        """Add a complete block; its nodes will report their replicas."""
        self.blocks[block] = Block(stored_length, wanted, True)

    def begin(
        self, block: BlockId, stored_length: int, wanted: int, nodes: tuple[NodeId, ...]
    ) -> None:
        """Add a block that is being written to these nodes, all of them alive."""
        self.blocks[block] = Block(stored_length, wanted, False, (), None, nodes)
        self.load.add(stored_length, nodes)

    def put(
        self, block: BlockId, stored_length: int, wanted: int, nodes: Collection[NodeId]
    ) -> None:
        """Add a complete block without a writer."""
        self.blocks[block] = Block(stored_length, wanted, True, tuple(sorted(nodes)))
        self.load.add(stored_length, nodes)
        if len(nodes) != wanted:
            self.touched[block] = None

    def complete(
        self, block: BlockId, nodes: tuple[NodeId, ...]
    ) -> tuple[list[NodeId], list[NodeId]]:
        """Mark a block complete on ``nodes``, which have acknowledged it.

        Returns those of its pipeline that have not, and those that have, and registered without it
        since it was begun: it may be gone.
        """
        known = self.blocks[block]
        known.complete = True
        late: list[NodeId] = []
        unsure: list[NodeId] = []
        if nodes and known.begun == nodes:  # the fast path
            known.sound, known.begun = tuple(sorted(nodes)), ()
        else:
            late = [node for node in known.nodes("incoming") if node not in nodes]
            for node in late:
                self.drop_replica(block, node)
            states = {node: known.state(node) for node in nodes if node in self.load}
            unsure = [node for node, state in states.items() if state is None]
            for node in [node for node, state in states.items() if state == "incoming"]:
                self.set_replica(block, node, "sound")
        if len(known.sound) == known.wanted and not known.others:
            self.touched.pop(block, None)
        else:
            self.touched[block] = None
        return late, unsure

    def want(self, block: BlockId, wanted: int) -> None:
        known = self.blocks[block]
        if known.wanted != wanted:
            known.wanted = wanted
            if known.complete:
                self.touched[block] = None

    def forget(self, block: BlockId) -> tuple[NodeId, ...]:
        """Remove a block; return the nodes that have a replica in any state."""
        known = self.blocks.pop(block, None)
        if known is None:
            return ()
        nodes = tuple(sorted(known.holders))
        self.load.add(-known.stored_length, nodes)
        self.touched.pop(block, None)
        return nodes

    # Replicas --------------------------------------------------------------------------------
    def set_replica(self, block: BlockId, node: NodeId, state: State) -> None:
        known = self.blocks[block]
        if known.state(node) is None:
            self.load.add(known.stored_length, (node,))
        known.set(node, state)
        if known.complete:
            self.touched[block] = None

    def drop_replica(self, block: BlockId, node: NodeId) -> None:
        known = self.blocks.get(block)
        if known is None or known.state(node) is None:
            return
        known.set(node, None)
        self.load.add(-known.stored_length, (node,))
        if known.complete:
            self.touched[block] = None

    # Nodes -----------------------------------------------------------------------------------
    def node_joined(
        self, node: NodeId, held: Iterable[HeldBlock]
    ) -> tuple[list[BlockId], list[BlockId]]:
        """Add a node with all its replicas; return blocks as ``compare`` does."""
        self.node_lost(node)
        self.load.join(node)
        unknown: list[BlockId] = []
        doubtful: list[BlockId] = []
        for replica in held:
            known = self.blocks.get(replica.block)
            if known is None:
                unknown.append(replica.block)
                continue
            self.set_replica(replica.block, node, "sound")
            if replica.stored_length != known.stored_length:
                doubtful.append(replica.block)
        for block, known in self.blocks.items():  # replication can go on with those that lack some
            if known.others or len(known.holders) < known.wanted:
                self.touched[block] = None
        return unknown, doubtful

    def compare(self, report: BlockReport) -> tuple[list[BlockId], list[BlockId]]:
        """Compare a node's report with the block map.

        Returns blocks of no file, and those that are missing, of another length, or new on that
        node.  Incoming and leaving replicas may be there or not, so they never differ.  O(blocks).
        """
        node, first, last = report.node, report.first, report.last
        lengths = {replica.block: replica.stored_length for replica in report.held}
        doubtful = [
            block
            for block, known in self.blocks.items()
            if node in known.sound
            and first <= block <= last
            and lengths.get(block) != known.stored_length
        ]
        unknown: list[BlockId] = []
        for block in lengths:
            known_block = self.blocks.get(block)
            if known_block is None:
                unknown.append(block)
            elif known_block.complete and known_block.state(node) is None:
                doubtful.append(block)
        return unknown, doubtful

    def node_lost(self, node: NodeId) -> None:
        """Remove a node, if it is known, and its replicas.  O(blocks), as it is rare."""
        if node not in self.load:
            return
        held = [
            block
            for block, known in self.blocks.items()
            if node in known.sound or node in known.begun or (known.others and node in known.others)
        ]
        for block in held:
            self.drop_replica(block, node)
        self.load.leave(node)

    def is_alive(self, node: NodeId) -> bool:
        return node in self.load
