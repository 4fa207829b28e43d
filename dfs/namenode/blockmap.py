"""Which nodes hold which blocks, as far as the DataNodes have said.

A replica is in one of these states:

    incoming ──► sound ──► leaving ──► (gone)      leaving: its deletion was ordered
        │          │▲         ▲
        └─► (gone) ▼│         │                    suspect: its DataNode is to look at it
                 suspect ──► corrupt               corrupt: its DataNode found it damaged or gone
                   │▲ └────► unreadable            unreadable: it could not find out just now
                   └┴──────────┘

Only nodes that are alive are in here: a lost node's replicas are forgotten, and reported anew if
it comes back.  Never here: decisions about where replicas go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import NodeId
from railyard.dfs.messages import BlockId, HeldBlock
from railyard.dfs.placement.loads import Loads

State = Literal["incoming", "sound", "suspect", "unreadable", "corrupt", "leaving"]
#: The states that a replica's DataNode is asked to look into, the most hopeful first.
IN_DOUBT: tuple[State, ...] = ("suspect", "unreadable", "corrupt")


class Block(msgspec.Struct, gc=False):
    """A block and its replicas.  Most are sound: those are but a tuple, since blocks are many."""

    stored_length: int
    wanted: int  #: replicas that it should have
    complete: bool  #: False while its file is being written
    sound: tuple[NodeId, ...] = ()  #: nodes with a sound replica, in order of their name
    others: dict[NodeId, State] | None = None  #: nodes with another; None if there are none
    #: nodes to which its writer sends it, as long as that is all that is known of any of them
    begun: tuple[NodeId, ...] = ()

    @property
    def replicas(self) -> int:
        """How many there are, in whatever state."""
        return len(self.holders)

    @property
    def holders(self) -> tuple[NodeId, ...]:
        """The nodes that have a replica, in whatever state."""
        return (*self.sound, *self.begun, *(self.others or ()))

    def state(self, node: NodeId) -> State | None:
        """The state of a node's replica, if it has one."""
        if node in self.sound:
            return "sound"
        if node in self.begun:
            return "incoming"
        return self.others.get(node) if self.others else None

    def nodes(self, *states: State) -> tuple[NodeId, ...]:
        """Nodes whose replica is in one of ``states``, in order of their name."""
        if self.others is None and not self.begun:
            return self.sound if "sound" in states else ()
        nodes = [node for node, state in self._others().items() if state in states]
        return tuple(sorted([*self.sound, *nodes] if "sound" in states else nodes))

    def set(self, node: NodeId, state: State | None) -> None:
        """Let a node's replica be in a state; None: let it have none."""
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
        """The state of each replica that is not sound."""
        incoming: dict[NodeId, State] = dict.fromkeys(self.begun, "incoming")
        return {**incoming, **(self.others or {})}


class Differences(NamedTuple):
    """What a node holds otherwise than is known."""

    unknown: list[BlockId]  #: that no file has
    doubtful: list[BlockId]  #: missing, of another length, or never heard of at that node


class BlockMap:
    """Blocks by id, and what each node that is alive holds."""

    def __init__(self) -> None:
        self.blocks: dict[BlockId, Block] = {}
        #: {alive node: stored bytes that it holds or will hold}
        self.load = Loads()
        #: complete blocks whose replicas or wishes have changed, in that order
        self.touched: dict[BlockId, None] = {}

    # Blocks ----------------------------------------------------------------------------------
    def add(self, block: BlockId, stored_length: int, wanted: int) -> None:
        """Know a complete block from now on; its nodes will report it."""
        self.blocks[block] = Block(stored_length, wanted, True)

    def begin(
        self,
        block: BlockId,
        stored_length: int,
        wanted: int,
        nodes: tuple[NodeId, ...],
    ) -> None:
        """Know a block that is being written to these nodes, all of them alive."""
        self.blocks[block] = Block(stored_length, wanted, False, (), None, nodes)
        self.load.add(stored_length, nodes)

    def put(
        self, block: BlockId, stored_length: int, wanted: int, nodes: Collection[NodeId]
    ) -> None:
        """Know a block that nobody writes, of which these nodes have their load already."""
        self.blocks[block] = Block(stored_length, wanted, True, tuple(sorted(nodes)))
        if len(nodes) != wanted:
            self.touched[block] = None

    def complete(self, block: BlockId, nodes: tuple[NodeId, ...]) -> list[NodeId]:
        """Note that ``nodes`` have acknowledged the block; others that should have it have not.

        Those others are returned.
        """
        known = self.blocks[block]
        known.complete = True
        late: list[NodeId] = []
        if nodes and known.begun == nodes:  # as with most
            known.sound, known.begun = tuple(sorted(nodes)), ()
        else:
            late = [node for node in known.nodes("incoming") if node not in nodes]
            for node in late:
                self.drop_replica(block, node)
            for node in nodes:
                if node in self.load:
                    self.set_replica(block, node, "sound")
        if len(known.sound) == known.wanted and not known.others:
            self.touched.pop(block, None)
        else:
            self.touched[block] = None
        return late

    def forget(self, block: BlockId) -> tuple[NodeId, ...]:
        """Know a block no longer; the nodes that have it, or will."""
        known = self.blocks.pop(block, None)
        if known is None:
            return ()
        nodes = tuple(sorted(known.holders))
        self.load.add(-known.stored_length, nodes)
        self.touched.pop(block, None)
        return nodes

    def sound(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes that can serve a block."""
        known = self.blocks.get(block)
        return known.sound if known else ()

    def doubtful(self, block: BlockId) -> tuple[NodeId, ...]:
        """The nodes that may be able to serve a block, or a part of it; the most hopeful first."""
        known = self.blocks.get(block)
        if known is None or known.others is None:
            return ()
        return tuple(node for state in IN_DOUBT for node in known.nodes(state))

    # Replicas --------------------------------------------------------------------------------
    def set_replica(self, block: BlockId, node: NodeId, state: State) -> None:
        """Note the state of a replica at a node that is alive."""
        known = self.blocks[block]
        if known.state(node) is None:
            self.load.add(known.stored_length, (node,))
        known.set(node, state)
        if known.complete:
            self.touched[block] = None

    def drop_replica(self, block: BlockId, node: NodeId) -> None:
        """Note that a node does not have a block; fine if it never did."""
        known = self.blocks.get(block)
        if known is None or known.state(node) is None:
            return
        known.set(node, None)
        self.load.add(-known.stored_length, (node,))
        if known.complete:
            self.touched[block] = None

    # Nodes -----------------------------------------------------------------------------------
    def node_joined(self, node: NodeId, held: Iterable[HeldBlock]) -> Differences:
        """Note a node and all that it holds; what of that is not as it should be."""
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
        self._touch_needy()
        return Differences(unknown, doubtful)

    def compare(
        self, node: NodeId, first: BlockId, last: BlockId, held: Iterable[HeldBlock]
    ) -> Differences:
        """How what a node that is alive holds, of the blocks ``first`` to ``last``, differs.

        Only from what was settled: a replica that comes or goes may be there or not.  O(blocks).
        """
        lengths = {replica.block: replica.stored_length for replica in held}
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
        return Differences(unknown, doubtful)

    def node_lost(self, node: NodeId) -> None:
        """Forget a node and its replicas; fine if it is not known.

        O(blocks): it is seldom, and a list of what each node holds would cost every block.
        """
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
        """Whether a node can be used."""
        return node in self.load

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` unless loads are those of the replicas, each once, in order."""
        loads = dict.fromkeys(self.load, 0)
        for block, known in self.blocks.items():
            nodes = known.holders
            if len(set(nodes)) < len(nodes) or list(known.sound) != sorted(known.sound):
                raise InvariantError(f"block {block} is on {nodes}: need each once, and in order")
            for node in nodes:
                if node not in loads:
                    raise InvariantError(f"block {block} is on {node}, which is not alive")
                loads[node] += known.stored_length
        for node, stored_bytes in loads.items():
            if stored_bytes != self.load[node]:
                raise InvariantError(
                    f"{node} holds {stored_bytes} bytes, but {self.load[node]} are counted"
                )

    def _touch_needy(self) -> None:
        """A new node may be what some blocks have waited for."""
        for block, known in self.blocks.items():
            if known.others or known.replicas < known.wanted:
                self.touched[block] = None
