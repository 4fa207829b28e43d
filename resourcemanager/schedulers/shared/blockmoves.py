"""Moves of blocks to sites where somebody wants them, a few from each node at once.

The block store would take any number of moves, and make them in the order in which they come: then
those of one slow site hold up all others.  Whoever wants moves has a ``BlockMoves`` as a part.

Never here: where a block should be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

from railyard.cluster.ids import NodeId, RackId
from railyard.resourcemanager.interface.decisions import MoveInput
from railyard.resourcemanager.interface.policies import FOR_GOOD, NoConfig, Policy
from railyard.resourcemanager.interface.views import BlockView, ClusterView, SlotView, StageView
from railyard.resourcemanager.schedulers.shared.sites import nodes_alive

#: A block of a file: the path, and its number.
BlockKey = tuple[str, int]

#: Moves from one node at once: as many copies as the block store lets a node send.
_AT_ONCE = 4
#: How often a move is tried, and the seconds before it is tried again for the first time.
_TRIES, _RETRY_S = 4, 1.0


class BlockMoves(Policy):
    """Has blocks moved; a block is pending until it is there, or can't be moved.

    ``in_turn``: jobs take turns at each node that sends; otherwise first come, first served.
    """

    def __init__(self, cluster: ClusterView, *, in_turn: bool = True) -> None:
        super().__init__(NoConfig(), cluster)
        self.steady_until_s = FOR_GOOD
        self._in_turn = in_turn
        self._moved = 0  #: blocks that were moved
        self._moved_bytes = 0
        self._wanted: dict[BlockKey, RackId] = {}  #: where blocks are to come
        self._under_way: dict[BlockKey, NodeId] = {}  #: and the node that each leaves
        self._sending: Counter[NodeId] = Counter()  #: how many blocks leave a node now
        #: {node: {job: its blocks there}}, the job that is next first
        self._queues: dict[NodeId, dict[str, deque[BlockKey]]] = {}
        self._tries: Counter[BlockKey] = Counter()
        self._retries: dict[BlockKey, float] = {}  #: when to try them again
        self._placed: Counter[NodeId] = Counter()  #: blocks that were sent to a node

    # What is wanted ------------------------------------------------------------------------------
    def want(self, key: BlockKey, site: RackId, job: str) -> None:
        """Have a block at a site, for a job; it stays where it is if it can't be moved."""
        block = self.block(key)
        if block is None or self.is_at(block, site) or self._holder(block) is None:
            self._wanted.pop(key, None)
            return
        known = key in self._wanted
        self._wanted[key] = site
        if not known and key not in self._under_way:
            self._enqueue(key, job)

    def forget(self) -> None:
        """Want nothing any more; moves under way end as they will."""
        self._wanted.clear()
        self._queues.clear()
        self._retries.clear()
        self._tries.clear()

    def drop(self, keys: Iterable[BlockKey]) -> None:
        for key in keys:
            self._settle(key)

    def is_pending(self, key: BlockKey) -> bool:
        return key in self._wanted

    def totals(self) -> Mapping[str, float]:
        return {"blocks_moved": self._moved, "blocks_moved_bytes": self._moved_bytes}

    # What is known of blocks ---------------------------------------------------------------------
    def block(self, key: BlockKey) -> BlockView | None:
        """A block; None if its file is unknown, or shorter by now."""
        path, number = key
        blocks = self.cluster.data.get(path, ())
        return blocks[number] if number < len(blocks) else None

    def is_at(self, block: BlockView, site: RackId) -> bool:
        return any(node.rack == site for node in nodes_alive(self.cluster, block.nodes))

    def _holder(self, block: BlockView) -> NodeId | None:
        return next((node.id for node in nodes_alive(self.cluster, block.nodes)), None)

    def _target(self, site: RackId) -> NodeId | None:
        """The living node of a site that was sent the fewest blocks for its slots."""

        def load(node: SlotView) -> tuple[bool, float]:
            return not node.slots, (self._placed[node.id] + 1) / max(1, node.slots)

        nodes = [n for n in self.cluster.nodes.values() if n.rack == site and n.alive]
        return min(nodes, key=load).id if nodes else None

    # Proposals -----------------------------------------------------------------------------------
    def propose(self) -> Iterator[MoveInput]:
        for key, at_s in list(self._retries.items()):
            if at_s <= self.cluster.now_s:
                del self._retries[key]
                if key in self._wanted:
                    self._enqueue(key, "")
        for node in list(self._queues):
            while self._sending[node] < _AT_ONCE and (first := self._next(node)) is not None:
                yield from self._move(first, node)

    def wake_s(self) -> float | None:
        times_s = (at_s for at_s in self._retries.values() if at_s > self.cluster.now_s)
        return min(times_s, default=None)

    def _move(self, key: BlockKey, node: NodeId) -> Iterator[MoveInput]:
        site, block = self._wanted.get(key), self.block(key)
        if site is None or key in self._under_way:
            return
        target = None if block is None or self.is_at(block, site) else self._target(site)
        if block is None or target is None or self._holder(block) is None:
            self._settle(key)
            return
        self._under_way[key] = node
        self._sending[node] += 1
        self._placed[target] += 1
        yield MoveInput(*key, target, why=f"wanted in {site}")

    def _next(self, node: NodeId) -> BlockKey | None:
        """The next block to leave a node: of the job that is next."""
        jobs = self._queues.get(node)
        if not jobs:
            self._queues.pop(node, None)
            return None
        job, blocks = next(iter(jobs.items()))
        key = blocks.popleft()
        if self._in_turn or not blocks:
            del jobs[job]
        if self._in_turn and blocks:
            jobs[job] = blocks
        return key

    def _enqueue(self, key: BlockKey, job: str) -> None:
        block = self.block(key)
        node = None if block is None else self._holder(block)
        if node is None:
            self._settle(key)
        else:
            self._queues.setdefault(node, {}).setdefault(job, deque()).append(key)

    def _settle(self, key: BlockKey) -> None:
        self._wanted.pop(key, None)
        self._retries.pop(key, None)
        self._tries.pop(key, None)

    # What happens --------------------------------------------------------------------------------
    def input_moved(self, path: str, block: int) -> None:
        key, moved = (path, block), self.block((path, block))
        self._ended(key)
        if moved is not None:
            self._moved += 1
            self._moved_bytes += moved.size_bytes
        site = self._wanted.get(key)
        if moved is None or site is None or self.is_at(moved, site):
            self._settle(key)
        else:  # it was sent elsewhere before
            self._enqueue(key, "")

    def input_not_moved(self, path: str, block: int) -> None:
        key = (path, block)
        self._ended(key)
        if key in self._wanted:
            self._tries[key] += 1
            if self._tries[key] == _TRIES:
                self._settle(key)
            else:
                wait_s = _RETRY_S * 2.0 ** (self._tries[key] - 1)
                self._retries[key] = self.cluster.now_s + wait_s

    def _ended(self, key: BlockKey) -> None:
        node = self._under_way.pop(key, None)
        if node is not None:
            self._sending[node] -= 1


def blocks_read(cluster: ClusterView, stage: StageView) -> dict[BlockKey, None]:
    """The blocks that pending tasks of a stage read, in their order."""
    found: dict[BlockKey, None] = {}
    offsets: dict[str, list[int]] = {}
    for task in () if stage.reads else stage.tasks:
        for split in task.input.splits if task.state == "pending" else ():
            if split.path not in offsets:
                blocks = cluster.data.get(split.path, ())
                offsets[split.path] = [block.stored_offset for block in blocks]
            of_file = offsets[split.path]
            last_byte = split.stored_offset + max(0, split.stored_length - 1)
            first = max(0, bisect_right(of_file, split.stored_offset) - 1)
            for number in range(first, bisect_right(of_file, last_byte)):
                found[split.path, number] = None
    return found
