"""Files that are being written: opened, given blocks, completed or abandoned.

The journal has them from when they are opened, so that their writers go on when the NameNode has
been restarted.  A part of the NameNode, with its rules: see ``core.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.changes import FileReopened, ReopenFile
from railyard.dfs.messages.files import (
    AbandonFile,
    AddBlock,
    BlockAdded,
    CompleteFile,
    CreateFile,
    FileCompleted,
    FileCreated,
    PlacementHint,
)
from railyard.dfs.namenode.changes import Changes, check_replication
from railyard.dfs.namenode.commands import CommandQueue
from railyard.dfs.namenode.datanodes import DataNodes
from railyard.dfs.namenode.journal import (
    Attributes,
    FileBlock,
    Inode,
    Journal,
    Note,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.namenode.openfiles import OpenFile, OpenFiles
from railyard.dfs.namenode.replicas.blockmap import BlockMap
from railyard.dfs.namenode.replicas.doubts import Doubts
from railyard.dfs.namenode.reports import status_of
from railyard.dfs.namenode.restart.answers import Answers
from railyard.dfs.namenode.restart.safemode import NotYet, SafeMode
from railyard.dfs.paths import BUSY, IS_FOLDER, MISSING, parse_path
from railyard.dfs.placement.rule import RackAware


@dataclass(frozen=True, kw_only=True)
class Writing:
    """Handles the messages of writers."""

    journal: Journal
    namespace: Namespace
    blocks: BlockMap
    open_files: OpenFiles
    answers: Answers
    changes: Changes
    datanodes: DataNodes
    doubts: Doubts
    placement: RackAware
    commands: CommandQueue
    nodes: int  #: how many there are
    replicas: int  #: default replication
    block_bytes: int  #: of a block, at most
    new_id: Callable[[], int]
    forget: Callable[[Iterable[BlockId]], None]  #: has the replicas of blocks deleted
    safe_mode: SafeMode

    def resume(self, loaded: Iterable[tuple[Opened, dict[BlockId, int]]], now_s: float) -> None:
        """Take up files that were open when an earlier process died; their writers live, maybe."""
        for opened, lengths in loaded:
            self.open_files.add(OpenFile(opened=opened, touched_s=now_s, blocks=lengths))
            for block, length in lengths.items():
                self.blocks.begin(block, length, opened.replication, ())

    # Messages --------------------------------------------------------------------------------
    def create(self, message: CreateFile, now_s: float) -> FileCreated:
        """Open a new file."""
        names = parse_path(message.path)
        self.namespace.check_target(names, message.overwrite)
        if message.unless and self.namespace.find(message.unless) is not None:
            raise PeerError(f"{message.path}: is not wanted any more: {message.unless} exists")
        replication = message.replication
        if message.writer is not None:
            self.datanodes.check_node(message.writer)
        check_replication(replication, self.nodes)
        if message.stored_block_bytes > self.block_bytes:
            right = f"at most {self.block_bytes}, the topology's"
            raise PeerError(f"blocks of {message.stored_block_bytes} bytes: need {right}")
        opened = Opened(
            number=self.new_id(),
            path=message.path.removesuffix("/"),
            names=names,
            replication=replication or self.replicas,
            writer=message.writer,
            overwrite=message.overwrite,
            hint=message.hint,
            owner=message.owner,
            permission=message.permission,
            block_bytes=message.stored_block_bytes,
        )
        file = OpenFile(opened=opened, touched_s=now_s)
        notes = [OpenFileChange(opened.number, opened)]
        length, first = message.first_stored_length, None
        if length:
            first = self._new_block(file, length, now_s, notes=notes)
        else:
            self.journal.note(notes)
        self.open_files.add(file)
        return FileCreated(
            file=opened.number,
            stored_block_bytes=self._block_bytes(opened),
            replication=opened.replication,
            first=first,
        )

    def reopen(self, message: ReopenFile, now_s: float) -> FileReopened:
        """Open a complete file to give it another end."""
        inode, length = self.namespace.get(message.path), message.stored_length
        if inode.folder:
            raise PeerError(f"{message.path}: is a folder", IS_FOLDER)
        if self.open_files.is_reopened(inode.number):
            raise PeerError(f"{message.path}: is being written by another client", BUSY)
        if length is not None and length > inode.stored_length:
            why = f"need at most its length, {inode.stored_length} bytes"
            raise PeerError(f"{message.path}: cannot be cut to {length} bytes: {why}")
        kept = self._kept(inode, length)
        opened = Opened(
            number=self.new_id(),
            path=self.namespace.path_of(inode),
            names=parse_path(message.path),
            replication=inode.replication,
            writer=message.writer,
            overwrite=True,
            hint=PlacementHint(),
            block_bytes=inode.attributes.block_bytes,
            reopened=inode,
            kept=len(kept),
        )
        answer = FileReopened(
            file=opened.number,
            stored_length=inode.stored_length,
            kept_stored_length=sum(block.stored_length for block in kept),
            stored_block_bytes=self._block_bytes(opened),
        )
        self.journal.note([OpenFileChange(opened.number, opened), *self.answers.changes(answer)])
        self.open_files.add(OpenFile(opened=opened, touched_s=now_s))
        return answer

    def add_block(self, message: AddBlock, now_s: float) -> BlockAdded:
        """Give an open file one more block."""
        file = self.open_files.get(message.file, now_s)
        return self._new_block(
            file, message.stored_length, now_s, message.instead_of, message.exclude
        )

    def complete(self, message: CompleteFile, now_s: float) -> FileCompleted:
        """Make an open file a complete one."""
        file = self.open_files.get(message.file, now_s)
        unused = file.blocks.copy()
        blocks: list[FileBlock] = []
        for stored in message.blocks:
            length = unused.pop(stored.block, None)
            if length is None:
                why = f"block {stored.block} is not one of its blocks, or given twice"
                raise PeerError(f"{file.opened.path}: {why}")
            if not any(map(self.blocks.is_alive, stored.nodes)):
                why = f"block {stored.block} was written to no node that is alive"
                raise self._refusal(f"{file.opened.path}: {why}", now_s)
            blocks.append(FileBlock(stored.block, length))
        number = file.opened.number
        closed = [OpenFileChange(number, None)]
        answer, freed = self.namespace.change(self._put, file, tuple(blocks), notes=closed)
        self.open_files.pop(number)
        for stored in message.blocks:
            late, unsure = self.blocks.complete(stored.block, stored.nodes)
            if late:
                self.commands.delete([(node, stored.block) for node in late])
            for node in unsure:
                self.doubts.doubt(stored.block, node, now_s)
        if freed or unused:
            self.forget([*(block.block for block in freed), *unused])
        return answer

    def abandon(self, message: AbandonFile, now_s: float) -> Done:
        """Drop an open file."""
        self.give_up([self.open_files.get(message.file, now_s)])
        return Done()

    # For others ------------------------------------------------------------------------------
    def give_up(self, files: Sequence[OpenFile]) -> None:
        """Drop open files."""
        if files:
            self.journal.note(closing(files))
            self.drop(files)

    def drop(self, files: Iterable[OpenFile]) -> None:
        """Drop open files that the journal has not any more."""
        for file in files:
            self.open_files.pop(file.opened.number)
            self.forget(file.blocks)

    # Helpers ---------------------------------------------------------------------------------
    def _block_bytes(self, of: Opened | Attributes) -> int:
        """The maximum length of a file's blocks."""
        return of.block_bytes or self.block_bytes

    def _kept(self, inode: Inode, length: int | None) -> tuple[FileBlock, ...]:
        """The blocks that stay of a file that is to have another end."""
        kept = inode.blocks
        if length is None:
            is_full = not kept or kept[-1].stored_length == self._block_bytes(inode.attributes)
            return kept if is_full else kept[:-1]
        ends = itertools.accumulate(block.stored_length for block in kept)
        return kept[: sum(end <= length for end in ends)]

    def _new_block(
        self,
        file: OpenFile,
        stored_length: int,
        now_s: float,
        instead_of: BlockId | None = None,
        exclude: tuple[NodeId, ...] = (),
        notes: Sequence[Note] = (),
    ) -> BlockAdded:
        """Allocate a block of an open file and choose its nodes; may raise ``PeerError``."""
        opened = file.opened
        if not 0 < stored_length <= self._block_bytes(opened):
            right = f"1 to {self._block_bytes(opened)} bytes"
            raise PeerError(f"a block of {stored_length} bytes: need {right}")
        nodes = tuple(
            self.placement.choose(
                (opened.path, len(file.blocks)),
                opened.replication,
                self.blocks.load,
                file.uses,
                writer=opened.writer,
                exclude={*exclude, *self.blocks.draining},
                hint=opened.hint,
            )
        )
        if not nodes:
            raise self._refusal("no node is left to write a block to", now_s)
        block = BlockId(self.new_id())
        gone = instead_of if instead_of in file.blocks else None
        more = [*notes, OpenBlockChange(opened.number, block, stored_length)]
        if gone is not None:
            more.append(OpenBlockChange(opened.number, gone, None))
        self.journal.note(more)
        if gone is not None:
            del file.blocks[gone]
            self.forget([gone])
        file.blocks[block] = stored_length
        self.blocks.begin(block, stored_length, opened.replication, nodes)
        file.uses.update(nodes)
        return BlockAdded(block=block, nodes=nodes)

    def _put(self, file: OpenFile, blocks: tuple[FileBlock, ...]) -> FileCompleted:
        inode = self._put_inode(file.opened, blocks)
        return FileCompleted(status=status_of(self.namespace.path_of(inode), inode))

    def _put_inode(self, opened: Opened, blocks: tuple[FileBlock, ...]) -> Inode:
        if opened.reopened is None:
            given = opened.overwrite, opened.owner, opened.permission, opened.block_bytes
            return self.namespace.put_file(opened.names, opened.replication, blocks, *given)
        inode = self.namespace.numbered(opened.reopened.number)
        if inode is None or inode.blocks != opened.reopened.blocks:
            raise PeerError(f"{opened.path}: was removed or changed while it was written", MISSING)
        return self.changes.rewrite(inode, (*opened.kept_blocks, *blocks))

    def _refusal(self, why: str, now_s: float) -> PeerError:
        """The error for a lack of nodes: more may be about to register."""
        return NotYet(why) if now_s < self.safe_mode.expects_until_s else PeerError(why)


def closing(files: Iterable[OpenFile]) -> list[OpenFileChange]:
    """What the journal is to note of open files that are dropped."""
    return [OpenFileChange(file.opened.number, None) for file in files]
