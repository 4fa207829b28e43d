"""Files that are being written or changed: opened, given blocks, completed or abandoned.

Open files are invisible until complete.  There is no lease on a path: of several writers the first
to complete its file gets the path, and the others are refused unless they overwrite.  The journal
has open files, so that their writers go on when the NameNode has been restarted.  A part of the
NameNode, with its rules: see ``core.py``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    BlockAdded,
    BlockId,
    CompleteFile,
    Concatenate,
    CreateFile,
    FileCompleted,
    FileCreated,
    FileReopened,
    ReopenFile,
    SetAttributes,
    SetReplication,
)
from railyard.dfs.namenode.blockmap import BlockMap
from railyard.dfs.namenode.datanodes import DataNodes
from railyard.dfs.namenode.journal import (
    FileBlock,
    Inode,
    Journal,
    Loaded,
    Note,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.namenode.reports import status_of
from railyard.dfs.namenode.restart import Answers, NotYet, SafeMode
from railyard.dfs.paths import BUSY, IS_FOLDER, MISSING, join_path, parse_path
from railyard.dfs.placement import RackAware

#: An open file without requests for so long is dropped: its writer counts as dead.
WRITER_PATIENCE_S = 900.0


class OpenFile(msgspec.Struct, kw_only=True, gc=False):
    """A file that is open for writing."""

    opened: Opened
    touched_s: float  #: when its writer sent a request last
    #: {block: its length in stored bytes}
    blocks: dict[BlockId, int] = msgspec.field(default_factory=dict)
    #: {node: number of the file's replicas placed on it}
    uses: Counter[NodeId] = msgspec.field(default_factory=Counter)


@dataclass(eq=False)
class OpenFiles:
    """Handles the messages of writers, and of those who change files; has all open files."""

    topology: InitVar[Topology]
    _journal: Journal
    _namespace: Namespace
    _blocks: BlockMap
    _answers: Answers
    _datanodes: DataNodes
    _placement: RackAware
    _safe_mode: SafeMode

    def __post_init__(self, topology: Topology) -> None:
        self._nodes = len(topology.nodes())
        self._replication = topology.storage.replication  #: default
        self._block_bytes_max = topology.stored_block_bytes
        self._next_id = 0
        self._files: dict[int, OpenFile] = {}  #: by number

    def resume(self, loaded: Loaded, now_s: float) -> None:
        """Take up files that were open when an earlier process died; their writers live, maybe."""
        #: the upper half is the number of starts, so that no id is ever used twice
        self._next_id = (loaded.starts << 32) + 1
        for opened, lengths in loaded.opened:
            file = OpenFile(opened=opened, touched_s=now_s, blocks=lengths)
            self._files[opened.number] = file
            for block, length in lengths.items():
                self._blocks.begin(block, length, opened.how.replication, ())

    def new_ids(self, count: int = 1) -> int:
        """The first of so many ids, of files or blocks, that follow one another."""
        self._next_id += count
        return self._next_id - count

    # Open files ------------------------------------------------------------------------------
    def __contains__(self, number: int) -> bool:
        return number in self._files

    def path_of(self, number: int) -> str:
        return self._files[number].opened.how.path if number in self._files else ""

    def below(self, path: str) -> list[OpenFile]:
        within = join_path((*parse_path(path), ""))
        return [f for f in self._files.values() if f"{f.opened.how.path}/".startswith(within)]

    def drop(self, files: Iterable[OpenFile]) -> None:
        for file in files:
            self._files.pop(file.opened.number, None)
            self._datanodes.forget(file.blocks)

    def give_up(self, files: Sequence[OpenFile]) -> None:
        if files:
            self._journal.note(closing(files))
            self.drop(files)

    def give_up_abandoned(self, now_s: float) -> None:
        oldest_s = now_s - WRITER_PATIENCE_S
        self.give_up([file for file in self._files.values() if file.touched_s < oldest_s])

    # Writing ---------------------------------------------------------------------------------
    def create(self, message: CreateFile, now_s: float) -> FileCreated:
        names = parse_path(message.path)
        self._namespace.check_target(names, message.overwrite)
        if message.unless and self._namespace.find(message.unless) is not None:
            raise PeerError(f"{message.path}: is not wanted any more: {message.unless} exists")
        if message.writer is not None:
            self._datanodes.check_node(message.writer)
        self._check_replication(message.replication)
        if message.stored_block_bytes > self._block_bytes_max:
            right = f"at most {self._block_bytes_max}, the topology's"
            raise PeerError(f"blocks of {message.stored_block_bytes} bytes: need {right}")
        replication = message.replication or self._replication
        how = msgspec.structs.replace(message, path=join_path(names), replication=replication)
        opened = Opened(number=self.new_ids(), how=how)
        file = OpenFile(opened=opened, touched_s=now_s)
        notes = [OpenFileChange(opened.number, opened)]
        length, first = message.first_stored_length, None
        if length:
            first = self._new_block(file, length, now_s, notes=notes)
        else:
            self._journal.note(notes)
        self._files[opened.number] = file
        most = how.stored_block_bytes or self._block_bytes_max
        return FileCreated(file=opened.number, stored_block_bytes=most, first=first)

    def reopen(self, message: ReopenFile, now_s: float) -> FileReopened:
        inode, length = self._file(message.path), message.stored_length
        if self._is_reopened(inode.number):
            raise PeerError(f"{message.path}: is being written by another client", BUSY)
        if length is not None and length > inode.stored_length:
            why = f"need at most its length, {inode.stored_length} bytes"
            raise PeerError(f"{message.path}: cannot be cut to {length} bytes: {why}")
        kept = self._kept(inode, length)
        how = CreateFile(
            path=self._namespace.path_of(inode),
            writer=message.writer,
            replication=inode.replication,
            stored_block_bytes=inode.attributes.block_bytes,
        )
        opened = Opened(number=self.new_ids(), how=how, reopened=inode, kept=len(kept))
        answer = FileReopened(
            file=opened.number,
            stored_length=inode.stored_length,
            kept_stored_length=sum(block.stored_length for block in kept),
            stored_block_bytes=how.stored_block_bytes or self._block_bytes_max,
        )
        self._journal.note([OpenFileChange(opened.number, opened), *self._answers.changes(answer)])
        self._files[opened.number] = OpenFile(opened=opened, touched_s=now_s)
        return answer

    def add_block(self, message: AddBlock, now_s: float) -> BlockAdded:
        file = self._touched(message.file, now_s)
        return self._new_block(
            file, message.stored_length, now_s, message.instead_of, message.exclude
        )

    def complete(self, message: CompleteFile, now_s: float) -> FileCompleted:
        file = self._touched(message.file, now_s)
        unused = file.blocks.copy()
        blocks: list[FileBlock] = []
        for stored in message.blocks:
            length = unused.pop(stored.block, None)
            if length is None:
                why = f"block {stored.block} is not one of its blocks, or given twice"
                raise PeerError(f"{file.opened.how.path}: {why}")
            if not any(map(self._blocks.is_alive, stored.nodes)):
                why = f"block {stored.block} was written to no node that is alive"
                raise self._refusal(f"{file.opened.how.path}: {why}", now_s)
            blocks.append(FileBlock(stored.block, length))
        answer, freed = self._namespace.change(
            self._put, file.opened, tuple(blocks), notes=closing([file])
        )
        del self._files[file.opened.number]
        for stored in message.blocks:
            late, unsure = self._blocks.complete(stored.block, stored.nodes)
            if late:
                self._datanodes.delete([(node, stored.block) for node in late])
            for node in unsure:
                self._datanodes.doubt(stored.block, node, now_s)
        if freed or unused:
            self._datanodes.forget([*(block.block for block in freed), *unused])
        return answer

    def abandon(self, message: AbandonFile, now_s: float) -> Done:
        self.give_up([self._touched(message.file, now_s)])
        return Done()

    # Changes of what exists ------------------------------------------------------------------
    def set_attributes(self, message: SetAttributes, _: float) -> Done:
        inode = self._namespace.get(message.path)
        names = "owner", "group", "permission", "modified_s", "accessed_s"
        new = {name: value for name in names if (value := getattr(message, name)) is not None}
        attributes = msgspec.structs.replace(inode.attributes, **new)
        new_inode = msgspec.structs.replace(inode, attributes=attributes)
        self._namespace.change(self._namespace.replace, new_inode)
        return Done()

    def set_replication(self, message: SetReplication, _: float) -> Done:
        inode = self._file(message.path)
        self._check_replication(message.replication, least=1)
        new = msgspec.structs.replace(inode, replication=message.replication)
        self._namespace.change(self._namespace.replace, new)
        self._want(inode.blocks, message.replication)
        return Done()

    def concatenate(self, message: Concatenate, _: float) -> Done:
        target = self._file(message.target)
        sources = [self._file(path) for path in message.sources]
        numbers = [inode.number for inode in (target, *sources)]
        if len(set(numbers)) < len(numbers):
            raise PeerError(f"{message.target}: need files that differ from it and one another")
        for number, path in zip(numbers, (message.target, *message.sources), strict=True):
            if self._is_reopened(number):
                raise PeerError(f"{path}: is being written: need files that nobody writes")
        moved = tuple(block for inode in sources for block in inode.blocks)

        def act() -> Done:
            for path in message.sources:
                self._namespace.remove(path, recursive=False)
            self._rewrite(target, (*target.blocks, *moved))
            return Done()

        done = self._namespace.change(act)[0]
        self._want(moved, target.replication)
        return done

    # Helpers ---------------------------------------------------------------------------------
    def _touched(self, number: int, now_s: float) -> OpenFile:
        """Return an open file and renew its writer's time limit; ``PeerError`` if not open."""
        file = self._files.get(number)
        if file is None:
            raise PeerError(f"file {number} is not being written: it was given up or removed")
        file.touched_s = now_s
        return file

    def _is_reopened(self, inode: int) -> bool:
        reopened = (file.opened.reopened for file in self._files.values())
        return inode in [file.number for file in reopened if file is not None]

    def _file(self, path: str) -> Inode:
        inode = self._namespace.get(path)
        if inode.folder:
            raise PeerError(f"{path}: is a folder", IS_FOLDER)
        return inode

    def _check_replication(self, replication: int, least: int = 0) -> None:
        if not least <= replication <= self._nodes:
            first = "1" if least else "0 (the cluster's)"
            right = f"{first} to {self._nodes}, one per node"
            raise PeerError(f"replication = {replication}: need {right}")

    def _rewrite(self, inode: Inode, blocks: tuple[FileBlock, ...]) -> Inode:
        """Give a file that exists other blocks.  Within ``Namespace.change``."""
        attributes = msgspec.structs.replace(inode.attributes, modified_s=self._namespace.now_s)
        inode = msgspec.structs.replace(inode, blocks=blocks, attributes=attributes)
        self._namespace.replace(inode)
        return inode

    def _want(self, blocks: Sequence[FileBlock], replication: int) -> None:
        for block in blocks:
            self._blocks.want(block.block, replication)

    def _kept(self, inode: Inode, length: int | None) -> tuple[FileBlock, ...]:
        kept = inode.blocks
        if length is None:
            full = inode.attributes.block_bytes or self._block_bytes_max
            return kept[:-1] if kept and kept[-1].stored_length != full else kept
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
        how, number = file.opened.how, file.opened.number
        most = how.stored_block_bytes or self._block_bytes_max
        if not 0 < stored_length <= most:
            raise PeerError(f"a block of {stored_length} bytes: need 1 to {most} bytes")
        key, shunned = (how.path, len(file.blocks)), {*exclude, *self._blocks.draining}
        loads, uses = self._blocks.load, file.uses
        chosen = self._placement.choose(
            key, how.replication, loads, uses, writer=how.writer, exclude=shunned, hint=how.hint
        )
        nodes = tuple(chosen)
        if not nodes:
            raise self._refusal("no node is left to write a block to", now_s)
        block = BlockId(self.new_ids())
        dropped = instead_of if instead_of in file.blocks else None
        more = [*notes, OpenBlockChange(number, block, stored_length)]
        if dropped is not None:
            more.append(OpenBlockChange(number, dropped, None))
        self._journal.note(more)
        if dropped is not None:
            del file.blocks[dropped]
            self._datanodes.forget([dropped])
        file.blocks[block] = stored_length
        self._blocks.begin(block, stored_length, how.replication, nodes)
        file.uses.update(nodes)
        return BlockAdded(block=block, nodes=nodes)

    def _put(self, opened: Opened, blocks: tuple[FileBlock, ...]) -> FileCompleted:
        how = opened.how
        if opened.reopened is None:
            given = how.overwrite, how.owner, how.permission, how.stored_block_bytes
            inode = self._namespace.put_file(parse_path(how.path), how.replication, blocks, *given)
        else:
            now = self._namespace.numbered(opened.reopened.number)
            if now is None or now.blocks != opened.reopened.blocks:
                raise PeerError(f"{how.path}: was removed or changed while it was written", MISSING)
            inode = self._rewrite(now, (*now.blocks[: opened.kept], *blocks))
        return FileCompleted(status=status_of(self._namespace.path_of(inode), inode))

    def _refusal(self, why: str, now_s: float) -> PeerError:
        """The error for a lack of nodes: more may be about to register."""
        return NotYet(why) if now_s < self._safe_mode.expects_until_s else PeerError(why)


def closing(files: Iterable[OpenFile]) -> list[OpenFileChange]:
    """What the journal is to note of open files that are dropped."""
    return [OpenFileChange(file.opened.number, None) for file in files]
