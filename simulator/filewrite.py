"""Writes an attempt's output file, block by block, each through a pipeline of nodes.

As in ``dfs.writer`` and ``dfs.datanode.transfers``, each node forwards a block while it
receives it.  If a node fails, so do the nodes behind it in the pipeline, but not those before it.
A block that no node has is written again, to other nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId, NodeId
from railyard.cluster.messages import TaskSpec
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    BlockAdded,
    BlockId,
    CompleteFile,
    CreateFile,
    FileCreated,
    StoredBlock,
)
from railyard.simulator.blockstore import BlockStore


class FileWrite:
    """The write of a task's file.

    Ends with one call of ``on_end`` with the reason of a failure, or "" on success.
    """

    TRIES = 4  #: as ``dfs.writer.TRIES``

    def __init__(
        self,
        store: BlockStore,
        task: TaskSpec,
        size_bytes: int,
        block_bytes: int,
        writer: NodeId,
        on_end: Callable[[str], None],
    ) -> None:
        self._store = store
        self._task = task
        self._left_bytes = size_bytes
        self._block_bytes = block_bytes
        self._writer = writer
        self._on_end = on_end
        self._is_over = False  #: whether its writer has ended
        self._file = 0  #: the NameNode's number of the file, once the write has begun
        self._stored: tuple[StoredBlock, ...] = ()
        self._failed: tuple[NodeId, ...] = ()
        self._tries = 1
        self._added: BlockAdded | None = None
        self._length = min(size_bytes, block_bytes)  #: bytes of the current block
        self._hops: dict[int, FlowId] = {}  #: {position in the pipeline: open flow to its node}
        self._reached = 0  #: how many nodes of the pipeline will have the current block

    def begin(self) -> None:
        """Create the file and write its first block."""
        create = CreateFile(
            path=self._task.output_path,
            writer=self._writer,
            replication=self._task.output_replication,
            unless=self._task.success_path,
            first_stored_length=self._length,
        )
        self._store.ask(create, self._created)

    def _created(self, created: Message | Refusal | None) -> None:
        if self._is_over:
            return
        if isinstance(created, Refusal):
            self._on_end(f"a block could not be written: {created.reason}")
            return
        assert isinstance(created, FileCreated)
        self._file = created.file
        if created.first is None:
            self._complete()
        else:
            self._send(created.first)

    @property
    def flows(self) -> tuple[FlowId, ...]:
        """The open flows of the current block, by hop of the pipeline."""
        return tuple(self._hops.values())

    def abort(self) -> None:
        """Abandon the file, because its writer has ended."""
        self._is_over = True
        for flow in self._hops.values():
            self._store.network.cancel(flow)
        self._hops.clear()
        with contextlib.suppress(PeerError):  # already abandoned, or removed with its folder
            self._store.send(AbandonFile(file=self._file))

    def _complete(self) -> None:
        complete = CompleteFile(file=self._file, blocks=self._stored)
        self._store.ask(complete, self._completed)

    def _completed(self, answer: Message | Refusal | None) -> None:
        if self._is_over:
            return
        if isinstance(answer, Refusal):  # all nodes with one of its blocks may have been lost
            self._on_end(f"the file could not be completed: {answer.reason}")
        else:
            self._on_end("")

    def _ask(self, instead_of: BlockId | None) -> None:
        add = AddBlock(
            file=self._file,
            stored_length=self._length,
            instead_of=instead_of,
            exclude=self._failed,
        )
        self._store.ask(add, self._block_added)

    def _block_added(self, added: Message | Refusal | None) -> None:
        if self._is_over:
            return
        if isinstance(added, Refusal):
            self._on_end(f"a block could not be written: {added.reason}")
            return
        assert isinstance(added, BlockAdded)
        self._send(added)

    def _send(self, added: BlockAdded) -> None:
        """Start the flows of all hops at once, since each node forwards what it receives."""
        store, nodes = self._store, added.nodes
        self._added, reached = added, len(nodes)
        if store.down:
            is_up = [node not in store.down for node in nodes]
            reached = is_up.index(False) if False in is_up else reached
        self._reached = reached
        if reached == 0:
            store.heap.after(0.0, self._block_ended)
            return
        begin = 0
        if nodes[0] == self._writer and reached > 1:
            begin = 1  # the flow within the writer's node would always end first
        hops = range(begin, reached)
        self._hops = {hop: store.new_name("copy" if hop else "write") for hop in hops}
        self._start(self._hops.copy())

    def _start(self, hops: dict[int, FlowId]) -> None:
        """Start the flows of these hops of the pipeline."""
        assert self._added is not None
        nodes = self._added.nodes
        for hop, flow in hops.items():
            source = nodes[hop - 1] if hop else self._writer
            ended = partial(self._hop_ended, hop)
            self._store.network.carry(flow, source, nodes[hop], self._length, ended)

    def _hop_ended(self, hop: int, _: int, reason: str) -> None:
        hops = self._hops
        hops.pop(hop, None)
        if reason:  # the nodes further down receive their bytes from this one
            self._reached = min(self._reached, hop)
            for later in [other for other in hops if other > hop]:
                self._store.network.cancel(hops.pop(later))
        if not hops:
            self._block_ended()

    def _block_ended(self) -> None:
        store, added = self._store, self._added
        assert added is not None
        nodes = added.nodes[: self._reached]
        if store.down:
            nodes = tuple([node for node in nodes if node not in store.down])
        if nodes:
            store.disks.put(added.block, self._length, nodes)
            self._stored += (StoredBlock(block=added.block, nodes=nodes),)
            self._left_bytes -= self._length
            if not self._left_bytes:
                self._complete()
                return
            self._length = min(self._left_bytes, self._block_bytes)
            self._tries, self._failed = 1, ()
            self._ask(None)
        elif self._tries < self.TRIES:
            self._tries += 1
            self._failed += added.nodes[:1]
            self._ask(added.block)
        else:
            self._on_end(f"a block could not be written in {self._tries} tries")
