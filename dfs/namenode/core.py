"""The NameNode: a state machine; it takes a message and the time, returns a reply and commands.

Only ``handle`` changes it.  Never here: sockets, files, clocks, and randomness but from the seed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Done, Event, Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.changes import (
    Concatenate,
    FileReopened,
    ReopenFile,
    SetAttributes,
    SetReplication,
)
from railyard.dfs.messages.datanodes import (
    BlockReplicated,
    BlockReport,
    DataNodeHeartbeat,
    RegisterDataNode,
    ReplicaFailed,
    ReplicasDeleted,
    ReplicationFailed,
    ReplicaVerified,
)
from railyard.dfs.messages.files import (
    AbandonFile,
    AddBlock,
    BlockAdded,
    CheckFiles,
    CompleteFile,
    CreateFile,
    FileCompleted,
    FileCreated,
    GetStatus,
    GetUsage,
    ListFolder,
    LocateBlocks,
    MakeFolder,
    MoveFiles,
    MoveReplica,
    PlacementHint,
    Remove,
    Removed,
    ReplicaMoved,
    StoredBlock,
)
from railyard.dfs.namenode.changes import Changes, check_replication
from railyard.dfs.namenode.commands import CommandQueue, DataNodeCommand
from railyard.dfs.namenode.datanodes import DataNodes
from railyard.dfs.namenode.journal import FileBlock, Inode, Journal
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.namenode.openfiles import OpenFile, OpenFiles
from railyard.dfs.namenode.replicas.blockmap import BlockMap
from railyard.dfs.namenode.replicas.doubts import Doubts
from railyard.dfs.namenode.replicas.moves import EndedMove, Moves
from railyard.dfs.namenode.replicas.replication import Replication
from railyard.dfs.namenode.reports import Reports, status_of
from railyard.dfs.paths import BUSY, IS_FOLDER, MISSING, parse_path
from railyard.dfs.placement.rule import NO_HINT, RackAware


class Ticked(Event, frozen=True):
    """Time has passed.  Comes from the NameNode's own driver, never from the wire."""


class FileStored(Event, frozen=True, kw_only=True):
    """A file exists from the start.  Comes from a simulation, never from the wire."""

    path: str
    stored_lengths: tuple[int, ...]  #: length of each block
    hint: PlacementHint = NO_HINT
    #: of each block, the rack for its first replica; empty = the hint decides
    first_racks: tuple[RackId, ...] = ()
    #: nodes of each block; empty = the placement rule decides
    nodes: tuple[tuple[NodeId, ...], ...] = ()


class BlocksStored(Message, frozen=True, kw_only=True):
    """The answer to ``FileStored``: the file's blocks."""

    blocks: tuple[StoredBlock, ...]


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The result of one message: the reply to its sender, and commands for DataNodes."""

    reply: Message | None
    commands: tuple[DataNodeCommand, ...]
    moved: tuple[EndedMove, ...] = ()  #: moves of blocks that have ended, to be answered


class NameNode:
    """The state machine.  A refused message raises ``PeerError`` and changes nothing.

    ``owner`` has the files of which nobody says whose they are.  ``epoch_s`` is the clock's zero in
    seconds since 1970, for the times of files.
    """

    def __init__(
        self,
        topology: Topology,
        journal: Journal,
        now_s: float,
        seed: int = 1,
        owner: str = "",
        epoch_s: float = 0.0,
    ) -> None:
        self._block_bytes = topology.stored_block_bytes
        self._replicas = topology.storage.replication  #: default replication
        self._nodes = {node.id: node.rack for node in topology.nodes()}
        self._placement = RackAware(seed)
        starts, inodes = journal.load()
        self._epoch_s = epoch_s
        self._namespace = Namespace(journal, inodes, owner, now_s + epoch_s)
        self.blocks = BlockMap()
        for inode in inodes:
            for block in inode.blocks:
                self.blocks.add(block.block, block.stored_length, inode.replication)
        patience_s = topology.liveness.expiry_s if inodes else 0.0
        self._replication = Replication(self.blocks, self._placement, now_s + patience_s)
        self._doubts = Doubts(self.blocks)
        self._reports = Reports(self._namespace, self.blocks, tuple(self._nodes))
        self._open = OpenFiles()
        changes = Changes(self._namespace, self.blocks, self._open, len(self._nodes))
        self._changes = changes
        #: the upper half is the number of starts, so that no id is ever used twice
        self._next_id = (starts << 32) + 1
        self._commands = CommandQueue(self._nodes)
        self._moves = Moves(self.blocks, self._replication, self._placement)
        self._datanodes = DataNodes(
            self._nodes,
            topology.liveness.expiry_s,
            self.blocks,
            self._replication,
            self._doubts,
            self._commands,
            self._moves,
        )
        self._handlers: dict[type[Message], Callable[[Any, float], Message | None]] = {
            GetStatus: lambda m, _: self._reports.status(m.path),
            ListFolder: lambda m, _: self._reports.listing(m.path),
            GetUsage: lambda m, _: self._reports.usage(m.path),
            CheckFiles: lambda m, _: self._reports.check(m.path),
            LocateBlocks: lambda m, _: self._reports.locations(m.path),
            MakeFolder: self._make_folder,
            Remove: self._remove,
            MoveFiles: self._move_files,
            SetAttributes: changes.set_attributes,
            SetReplication: changes.set_replication,
            Concatenate: changes.concatenate,
            CreateFile: self._create_file,
            ReopenFile: self._reopen_file,
            AddBlock: self._add_block,
            CompleteFile: self._complete_file,
            AbandonFile: self._abandon_file,
            MoveReplica: self._move_replica,
            FileStored: self._file_stored,
            RegisterDataNode: self._datanodes.register,
            DataNodeHeartbeat: self._datanodes.heartbeat,
            BlockReport: self._datanodes.report,
            BlockReplicated: self._datanodes.replicated,
            ReplicationFailed: self._datanodes.replication_failed,
            ReplicasDeleted: self._datanodes.deleted,
            ReplicaFailed: self._datanodes.failed,
            ReplicaVerified: self._datanodes.verified,
            Ticked: self._ticked,
        }

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """The classes of messages that may come from the wire."""
        return tuple(kind for kind in self._handlers if kind not in (Ticked, FileStored))

    def handle(self, message: Message, now_s: float) -> Outcome:
        """Handle a request or a fact that arrived at time ``now_s``."""
        self._namespace.now_s = now_s + self._epoch_s
        reply = self._handlers[type(message)](message, now_s)
        more = self._replication.decide(now_s)
        if not (more or self._commands or self._doubts or self._moves):  # the fast path
            return Outcome(reply, ())
        self._commands.extend(more)
        self._commands.extend(self._moves.decide(now_s))
        self._commands.extend(self._doubts.decide(now_s))
        return Outcome(reply, self._commands.take(), self._moves.take_ended())

    def is_being_written(self, file: int) -> bool:
        """Whether the file with that number is open."""
        return file in self._open

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` if the state contradicts itself."""
        self.blocks.check_invariants()

    # Namespace -------------------------------------------------------------------------------
    def _make_folder(self, message: MakeFolder, _now_s: float) -> Done:
        make = self._namespace.make_folder
        self._namespace.change(make, message.path, message.owner, message.permission)
        return Done()

    def _remove(self, message: Remove, _: float) -> Removed:
        (files, folders), freed = self._namespace.change(
            self._namespace.remove, message.path, message.recursive
        )
        self._forget(block.block for block in freed)
        self._give_up(self._open.below(message.path))
        return Removed(files=files, folders=folders)

    def _move_files(self, message: MoveFiles, _: float) -> Done:
        def act() -> None:
            for move in message.moves:
                self._namespace.move(move.source, move.target, message.overwrite)
            for each in message.gathers:
                self._namespace.gather(each.source, each.folders, each.target, message.overwrite)
            for marker in message.markers:
                names = parse_path(marker)
                self._namespace.put_file(names, self._replicas, (), message.overwrite)
            for path in message.remove:
                if self._namespace.find(path) is not None:
                    self._namespace.remove(path, recursive=True)

        freed = self._namespace.change(act)[1]
        self._forget(block.block for block in freed)
        for path in message.remove:
            self._give_up(self._open.below(path))
        return Done()

    def _move_replica(self, message: MoveReplica, _: float) -> ReplicaMoved | None:
        self._datanodes.check_node(message.target)
        inode = self._namespace.get(message.path)
        if message.number >= len(inode.blocks):
            right = f"a file with that block: it has {len(inode.blocks)}"
            raise PeerError(f"{message.path}: block {message.number}: need {right}")
        return self._moves.begin(inode.blocks[message.number].block, message)

    # Writing ---------------------------------------------------------------------------------
    def _create_file(self, message: CreateFile, now_s: float) -> FileCreated:
        names = parse_path(message.path)
        self._namespace.check_target(names, message.overwrite)
        replication = message.replication
        if message.writer is not None:
            self._datanodes.check_node(message.writer)
        check_replication(replication, len(self._nodes))
        file = OpenFile(
            number=self._new_id(),
            path=message.path.removesuffix("/"),
            names=names,
            replication=replication or self._replicas,
            writer=message.writer,
            overwrite=message.overwrite,
            hint=message.hint,
            touched_s=now_s,
            owner=message.owner,
            permission=message.permission,
        )
        length = message.first_stored_length
        first = self._new_block(file, length) if length else None
        self._open.add(file)
        return FileCreated(
            file=file.number,
            stored_block_bytes=self._block_bytes,
            replication=file.replication,
            first=first,
        )

    def _reopen_file(self, message: ReopenFile, now_s: float) -> FileReopened:
        inode, length = self._namespace.get(message.path), message.stored_length
        if inode.folder:
            raise PeerError(f"{message.path}: is a folder", IS_FOLDER)
        if self._open.is_reopened(inode.number):
            raise PeerError(f"{message.path}: is being written by another client", BUSY)
        if length is not None and length > inode.stored_length:
            why = f"need at most its length, {inode.stored_length} bytes"
            raise PeerError(f"{message.path}: cannot be cut to {length} bytes: {why}")
        kept = inode.blocks
        if length is None:
            if kept and kept[-1].stored_length < self._block_bytes:
                kept = kept[:-1]
        else:
            ends = itertools.accumulate(block.stored_length for block in kept)
            kept = kept[: sum(end <= length for end in ends)]
        file = OpenFile(
            number=self._new_id(),
            path=self._namespace.path_of(inode),
            names=parse_path(message.path),
            replication=inode.replication,
            writer=message.writer,
            overwrite=True,
            hint=PlacementHint(),
            touched_s=now_s,
            reopened=inode,
            kept=len(kept),
        )
        self._open.add(file)
        return FileReopened(
            file=file.number,
            stored_length=inode.stored_length,
            kept_stored_length=sum(block.stored_length for block in kept),
            stored_block_bytes=self._block_bytes,
        )

    def _add_block(self, message: AddBlock, now_s: float) -> BlockAdded:
        file = self._open.get(message.file, now_s)
        return self._new_block(file, message.stored_length, message.instead_of, message.exclude)

    def _new_block(
        self,
        file: OpenFile,
        stored_length: int,
        instead_of: BlockId | None = None,
        exclude: tuple[NodeId, ...] = (),
    ) -> BlockAdded:
        """Allocate a block of an open file and choose its nodes; may raise ``PeerError``."""
        if not 0 < stored_length <= self._block_bytes:
            right = f"1 to {self._block_bytes} bytes"
            raise PeerError(f"a block of {stored_length} bytes: need {right}")
        nodes = tuple(
            self._placement.choose(
                (file.path, len(file.blocks)),
                file.replication,
                self.blocks.load,
                file.uses,
                writer=file.writer,
                exclude=exclude,
                hint=file.hint,
            )
        )
        if not nodes:
            raise PeerError("no node is left to write a block to")
        if instead_of is not None and instead_of in file.blocks:
            del file.blocks[instead_of]
            self._forget([instead_of])
        block = BlockId(self._new_id())
        file.blocks[block] = stored_length
        self.blocks.begin(block, stored_length, file.replication, nodes)
        file.uses.update(nodes)
        return BlockAdded(block=block, nodes=nodes)

    def _complete_file(self, message: CompleteFile, now_s: float) -> FileCompleted:
        file = self._open.get(message.file, now_s)
        unused = file.blocks.copy()
        blocks: list[FileBlock] = []
        for stored in message.blocks:
            length = unused.pop(stored.block, None)
            if length is None:
                why = f"block {stored.block} is not one of its blocks, or given twice"
                raise PeerError(f"{file.path}: {why}")
            if not any(map(self.blocks.is_alive, stored.nodes)):
                why = f"block {stored.block} was written to no node that is alive"
                raise PeerError(f"{file.path}: {why}")
            blocks.append(FileBlock(stored.block, length))
        inode, freed = self._namespace.change(self._put, file, tuple(blocks))
        self._open.pop(file.number)
        for stored in message.blocks:
            late = self.blocks.complete(stored.block, stored.nodes)
            if late:
                self._commands.delete([(node, stored.block) for node in late])
        if freed or unused:
            self._forget([*(block.block for block in freed), *unused])
        return FileCompleted(status=status_of(self._namespace.path_of(inode), inode))

    def _put(self, file: OpenFile, blocks: tuple[FileBlock, ...]) -> Inode:
        if file.reopened is None:
            given = file.overwrite, file.owner, file.permission
            return self._namespace.put_file(file.names, file.replication, blocks, *given)
        inode = self._namespace.numbered(file.reopened.number)
        if inode is None or inode.blocks != file.reopened.blocks:
            raise PeerError(f"{file.path}: was removed or changed while it was written", MISSING)
        return self._changes.rewrite(inode, (*file.kept_blocks, *blocks))

    def _file_stored(self, message: FileStored, _: float) -> BlocksStored:
        lengths, known = message.stored_lengths, self.blocks
        names = parse_path(message.path)
        self._namespace.check_target(names, overwrite=False)
        if message.nodes:
            placed = [list(filter(known.is_alive, nodes)) for nodes in message.nodes]
            for nodes, length in zip(placed, lengths, strict=True):
                known.load.add(length, nodes)
        else:
            placed = self._place(message.path, lengths, message.hint, message.first_racks)
        first = self._next_id
        self._next_id += len(lengths)
        blocks = tuple([FileBlock(BlockId(first + at), each) for at, each in enumerate(lengths)])
        stored: list[StoredBlock] = []
        for block, nodes in zip(blocks, placed, strict=True):
            known.put(block.block, block.stored_length, self._replicas, nodes)
            stored.append(StoredBlock(block=block.block, nodes=tuple(nodes)))
        self._namespace.change(self._namespace.put_file, names, self._replicas, blocks, False)
        return BlocksStored(blocks=tuple(stored))

    def _place(
        self,
        path: str,
        stored_lengths: Sequence[int],
        hint: PlacementHint,
        first_racks: Sequence[RackId],
    ) -> list[list[NodeId]]:
        """Choose the nodes of all blocks of a file, and add the blocks to their loads."""
        loads, uses, placed = self.blocks.load, Counter[NodeId](), list[list[NodeId]]()
        for number, stored_length in enumerate(stored_lengths):
            block = (path, number)
            if first_racks:
                hint = PlacementHint(racks=((first_racks[number],),))
            nodes = self._placement.choose(block, self._replicas, loads, uses, hint=hint)
            loads.add(stored_length, nodes)
            uses.update(nodes)
            placed.append(nodes)
        return placed

    def _abandon_file(self, message: AbandonFile, now_s: float) -> Done:
        self._give_up([self._open.get(message.file, now_s)])
        return Done()

    def _give_up(self, files: Iterable[OpenFile]) -> None:
        for file in files:
            self._open.pop(file.number)
            self._forget(file.blocks)

    # Helpers ---------------------------------------------------------------------------------
    def _ticked(self, _: Ticked, now_s: float) -> None:
        self._datanodes.lose_silent(now_s)
        self._give_up(self._open.abandoned(now_s))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _forget(self, blocks: Iterable[BlockId]) -> None:
        """Remove blocks that no file has any more, and have their replicas deleted."""
        gone = list(blocks)
        self._moves.forget(gone)
        self._commands.delete(
            [(node, block) for block in gone for node in self.blocks.forget(block)]
        )
