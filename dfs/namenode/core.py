"""The NameNode: a state machine; it takes a message and the time, returns a reply and commands.

Only ``handle`` changes it.  Never here: sockets, files, clocks, and randomness but from the seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from railyard.cluster.errors import PeerError, PeerUnable
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messaging.wire import Done, Event, Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    BlockId,
    BlockReplicated,
    BlockReport,
    CheckFiles,
    CompleteFile,
    Concatenate,
    CreateFile,
    DataNodeHeartbeat,
    DrainNodes,
    GetSafeMode,
    GetStatus,
    GetStorageReport,
    GetUsage,
    ListFolder,
    LocateBlocks,
    MakeFolder,
    MoveFiles,
    MoveReplica,
    PlacementHint,
    RegisterDataNode,
    Remove,
    Removed,
    ReopenFile,
    ReplicaFailed,
    ReplicaMoved,
    ReplicasDeleted,
    ReplicationFailed,
    ReplicaVerified,
    SafeModeStatus,
    SetAttributes,
    SetReplication,
    SetSafeMode,
    StoredBlock,
)
from railyard.dfs.namenode.blockmap import BlockMap
from railyard.dfs.namenode.datanodes import DataNodeCommand, DataNodes
from railyard.dfs.namenode.journal import FileBlock, Journal
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.namenode.openfiles import OpenFile, OpenFiles, closing
from railyard.dfs.namenode.replication import EndedMove, Moves, Replication, drain_nodes
from railyard.dfs.namenode.reports import Reports
from railyard.dfs.namenode.restart import REFUSED, Answers, SafeMode
from railyard.dfs.paths import join_path, parse_path
from railyard.dfs.placement import NO_HINT, RackAware

Answer = TypeVar("Answer", bound=Message)


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
        self._replicas = topology.storage.replication  #: default replication
        self._nodes = {node.id: node.rack for node in topology.nodes()}
        placement = self._placement = RackAware(seed)
        loaded = journal.load()
        self._epoch_s = epoch_s
        namespace = self._namespace = Namespace(journal, loaded.inodes, owner, now_s + epoch_s)
        self.blocks = BlockMap()
        for inode in loaded.inodes:
            for block in inode.blocks:
                self.blocks.add(block.block, block.stored_length, inode.replication)
        self._replication = Replication(self.blocks, placement, now_s)
        self._moves = Moves(self.blocks, self._replication, placement)
        self._reports = Reports(namespace, self.blocks, tuple(self._nodes))
        datanodes = self._datanodes = DataNodes(
            self._nodes, topology.liveness.expiry_s, self.blocks, self._replication, self._moves
        )
        self.safe_mode = SafeMode(self.blocks, topology, now_s, on=loaded.starts > 0)
        if self.safe_mode.on:
            self._enter_safe_mode()
        answers = Answers(loaded.answers)
        namespace.notes_of = answers.changes
        files = self._open = OpenFiles(
            topology, journal, namespace, self.blocks, answers, datanodes, placement, self.safe_mode
        )
        files.resume(loaded, now_s)
        once = answers.wrap
        self._handlers: dict[type[Message], Callable[[Any, float], Message | None]] = {
            GetStatus: lambda m, _: self._reports.status(m.path),
            ListFolder: lambda m, _: self._reports.listing(m.path),
            GetUsage: lambda m, _: self._reports.usage(m.path),
            CheckFiles: lambda m, _: self._reports.check(m.path),
            LocateBlocks: lambda m, _: self._reports.locations(m.path),
            MakeFolder: self._make_folder,
            GetSafeMode: lambda *_: self.safe_mode.status(),
            SetSafeMode: self._set_safe_mode,
            GetStorageReport: lambda _, now_s: self._reports.storage(
                datanodes.contact_s, now_s, safe_mode=self.safe_mode.on
            ),
            Remove: once(self._remove),
            MoveFiles: once(self._move_files),
            SetAttributes: files.set_attributes,
            SetReplication: files.set_replication,
            Concatenate: once(files.concatenate),
            CreateFile: files.create,
            ReopenFile: once(files.reopen),
            AddBlock: files.add_block,
            CompleteFile: once(files.complete),
            AbandonFile: files.abandon,
            MoveReplica: self._move_replica,
            DrainNodes: lambda m, _: drain_nodes(self.blocks, self._nodes, m),
            FileStored: self._file_stored,
            RegisterDataNode: self._register,
            DataNodeHeartbeat: datanodes.heartbeat,
            BlockReport: datanodes.report,
            BlockReplicated: datanodes.replicated,
            ReplicationFailed: datanodes.replication_failed,
            ReplicasDeleted: datanodes.deleted,
            ReplicaFailed: datanodes.failed,
            ReplicaVerified: datanodes.verified,
            Ticked: self._ticked,
        }

    @property
    def messages(self) -> tuple[type[Message], ...]:
        return tuple(kind for kind in self._handlers if kind not in (Ticked, FileStored))

    def handle(self, message: Message, now_s: float) -> Outcome:
        self._namespace.now_s = now_s + self._epoch_s
        if self.safe_mode.on:
            self._check_safe(message)
        reply = self._handlers[type(message)](message, now_s)
        if self.safe_mode.on and self.safe_mode.may_end(now_s):
            self._leave_safe_mode(now_s)
        more = self._replication.decide(now_s)
        datanodes = self._datanodes
        if not (more or datanodes.is_busy or self._moves):  # the fast path
            return Outcome(reply, ())
        datanodes.send(more)
        datanodes.send(self._moves.decide(now_s))
        datanodes.decide(now_s)
        return Outcome(reply, datanodes.take_commands(), self._moves.take_ended())

    def is_being_written(self, file: int) -> bool:
        return file in self._open

    # Safe mode -------------------------------------------------------------------------------
    def _check_safe(self, message: Message) -> None:
        """Raise ``NotYet`` for a change, and for a file of which nobody has reported a block."""
        if type(message) not in REFUSED:
            return
        if isinstance(message, LocateBlocks):
            path = message.path
            files = self._reports.locations(path).files
            if all(block.nodes or block.doubtful for file in files for block in file.blocks):
                return
        elif isinstance(message, AddBlock | CompleteFile | AbandonFile):
            path = self._open.path_of(message.file)
        elif isinstance(message, MoveFiles):
            path = next((move.source for move in message.moves), "")
        else:
            path = getattr(message, "path", "") or getattr(message, "target", "")
        raise self.safe_mode.refusal(message, path)

    def _set_safe_mode(self, message: SetSafeMode, now_s: float) -> SafeModeStatus:
        if message.on:
            self.safe_mode.on = self.safe_mode.by_hand = True
            self._enter_safe_mode()
        elif self.safe_mode.on:
            self._leave_safe_mode(now_s)
        return self.safe_mode.status()

    def _register(self, message: RegisterDataNode, now_s: float) -> Done:
        done = self._datanodes.register(message, now_s)
        if not self.safe_mode.on and self.safe_mode.all_registered:  # nobody is waited for
            self._replication.not_before_s = min(self._replication.not_before_s, now_s)
        return done

    def _enter_safe_mode(self) -> None:
        self._replication.not_before_s = math.inf
        self._datanodes.deletes_unknown = False

    def _leave_safe_mode(self, now_s: float) -> None:
        safe_mode = self.safe_mode
        safe_mode.on = safe_mode.by_hand = False
        self._datanodes.deletes_unknown = True
        until_s = now_s if safe_mode.all_registered else safe_mode.expects_until_s
        self._replication.not_before_s = max(now_s, until_s)

    # Namespace -------------------------------------------------------------------------------
    def _make_folder(self, message: MakeFolder, _now_s: float) -> Done:
        make = self._namespace.make_folder
        self._namespace.change(make, message.path, message.owner, message.permission)
        return Done()

    def _remove(self, message: Remove, _: float) -> Removed:
        def act() -> Removed:
            files, folders = self._namespace.remove(message.path, message.recursive)
            return Removed(files=files, folders=folders)

        return self._change(act, self._open.below(message.path))

    def _move_files(self, message: MoveFiles, _: float) -> Done:
        def act() -> Done:
            for move in message.moves:
                self._namespace.move(move.source, move.target, message.overwrite)
            for each in message.gathers:
                self._namespace.gather(each.source, each.folders, each.target, message.overwrite)
            for marker in message.markers:
                names = parse_path(marker)
                folder = self._namespace.find(join_path(names[:-1]))
                owner = "" if folder is None else folder.attributes.owner
                self._namespace.put_file(names, self._replicas, (), message.overwrite, owner)
            for path in message.remove:
                if self._namespace.find(path) is not None:
                    self._namespace.remove(path, recursive=True)
            return Done()

        given_up = {
            file.opened.number: file for path in message.remove for file in self._open.below(path)
        }
        return self._change(act, given_up.values())

    def _change(self, act: Callable[[], Answer], given_up: Iterable[OpenFile]) -> Answer:
        """Change the namespace, and drop files that are being written where something was."""
        files = list(given_up)
        answer, freed = self._namespace.change(act, notes=closing(files))
        self._datanodes.forget(block.block for block in freed)
        self._open.drop(files)
        return answer

    def _move_replica(self, message: MoveReplica, _: float) -> ReplicaMoved | None:
        self._datanodes.check_node(message.target)
        inode = self._namespace.get(message.path)
        if message.number >= len(inode.blocks):
            right = f"a file with that block: it has {len(inode.blocks)}"
            raise PeerError(f"{message.path}: block {message.number}: need {right}")
        return self._moves.begin(inode.blocks[message.number].block, message)

    def _file_stored(self, message: FileStored, _: float) -> BlocksStored:
        names = parse_path(message.path)
        self._namespace.check_target(names, overwrite=False)
        first = self._open.new_ids(len(message.stored_lengths))
        hint, uses = message.hint, Counter[NodeId]()
        blocks: list[FileBlock] = []
        stored: list[StoredBlock] = []
        for number, length in enumerate(message.stored_lengths):
            key, block = (message.path, number), BlockId(first + number)
            if message.nodes:
                nodes = list(filter(self.blocks.is_alive, message.nodes[number]))
            else:
                if message.first_racks:
                    hint = PlacementHint(racks=((message.first_racks[number],),))
                loads = self.blocks.load
                nodes = self._placement.choose(key, self._replicas, loads, uses, hint=hint)
                uses.update(nodes)
            self.blocks.put(block, length, self._replicas, nodes)
            blocks.append(FileBlock(block, length))
            stored.append(StoredBlock(block=block, nodes=tuple(nodes)))
        put = self._namespace.put_file
        self._namespace.change(put, names, self._replicas, tuple(blocks), False)
        return BlocksStored(blocks=tuple(stored))

    # Helpers ---------------------------------------------------------------------------------
    def _ticked(self, _: Ticked, now_s: float) -> None:
        self._datanodes.lose_silent(now_s)
        with suppress(PeerUnable):  # the journal's disk is full: at a later tick
            self._open.give_up_abandoned(now_s)
