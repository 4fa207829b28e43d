"""The NameNode's read-only answers: listings, usage, block locations, fsck, the store's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.dfs.messages import (
    BlockLocation,
    BlocksLocated,
    BlockTrouble,
    CheckReport,
    FileBlocks,
    FileStatus,
    Listing,
    NodeStorage,
    Status,
    StorageReport,
    Usage,
)
from railyard.dfs.namenode.blockmap import Block, BlockMap
from railyard.dfs.namenode.journal import FileBlock, Inode
from railyard.dfs.namenode.namespace import Namespace


def status_of(path: str, inode: Inode, entries: int = 0) -> FileStatus:
    """The status of a file, or of a folder with ``entries``, as listings show it."""
    attributes = inode.attributes
    return FileStatus(
        path=path,
        folder=inode.folder,
        stored_length=inode.stored_length,
        blocks=len(inode.blocks),
        replication=inode.replication,
        number=inode.number,
        entries=entries,
        owner=attributes.owner,
        group=attributes.group,
        permission=attributes.permission,
        modified_s=attributes.modified_s,
        accessed_s=attributes.accessed_s,
        stored_block_bytes=attributes.block_bytes,
    )


class Reports:
    """Answers queries from the namespace and the block map; changes nothing."""

    def __init__(self, namespace: Namespace, blocks: BlockMap, nodes: tuple[NodeId, ...]) -> None:
        self._namespace = namespace
        self._blocks = blocks
        self._nodes = nodes  #: all nodes of the topology

    def status(self, path: str) -> Status:
        inode = self._namespace.find(path)
        return Status(status=None if inode is None else self._status(inode))

    def listing(self, path: str) -> Listing:
        inode = self._namespace.get(path)
        shown = self._namespace.children(inode) if inode.folder else [inode]
        return Listing(entries=tuple(map(self._status, shown)))

    def usage(self, path: str) -> Usage:
        inodes = list(self._namespace.below(self._namespace.get(path)))
        files = [inode for inode in inodes if not inode.folder]
        blocks = [block for file in files for block in file.blocks]
        disk_bytes = sum(block.stored_length * len(self._known(block).holders) for block in blocks)
        return Usage(
            files=len(files),
            folders=len(inodes) - len(files),
            blocks=len(blocks),
            stored_bytes=sum(block.stored_length for block in blocks),
            stored_disk_bytes=disk_bytes,
        )

    def locations(self, path: str) -> BlocksLocated:
        inode = self._namespace.get(path)
        children = self._namespace.children(inode) if inode.folder else [inode]
        files = [child for child in children if not child.folder]
        return BlocksLocated(folder=inode.folder, files=tuple(map(self._locate, files)))

    def check(self, path: str) -> CheckReport:
        inodes = list(self._namespace.below(self._namespace.get(path)))
        files = [inode for inode in inodes if not inode.folder]
        blocks = [(file, block, self._known(block)) for file in files for block in file.blocks]
        missing: list[BlockTrouble] = []
        short: list[BlockTrouble] = []
        for file, block, known in blocks:
            if len(known.sound) < known.wanted:
                trouble = BlockTrouble(
                    path=self._namespace.path_of(file),
                    block=block.block,
                    wanted=known.wanted,
                    nodes=known.sound,
                    corrupt=known.nodes("corrupt"),
                    suspect=known.nodes("suspect", "unreadable"),
                )
                (short if known.sound else missing).append(trouble)
        return CheckReport(
            path=path,
            files=len(files),
            folders=len(inodes) - len(files),
            blocks=len(blocks),
            replicas=sum(len(known.sound) for _, _, known in blocks),
            stored_bytes=sum(block.stored_length for _, block, _ in blocks),
            nodes_alive=len(self._blocks.load),
            nodes_lost=tuple(node for node in self._nodes if not self._blocks.is_alive(node)),
            missing=tuple(missing),
            under_replicated=tuple(short),
            over_replicated=sum(len(known.sound) > known.wanted for _, _, known in blocks),
        )

    def storage(
        self, contact_s: Mapping[RackId, float], now_s: float, *, safe_mode: bool
    ) -> StorageReport:
        """The state of all nodes and blocks; ``contact_s``: {rack: time of a heartbeat}."""
        blocks = self._blocks
        complete = [block for block in blocks.blocks.values() if block.complete]
        short = [block for block in complete if 0 < len(block.sound) < block.wanted]
        missing = [block for block in complete if not block.sound]
        held = Counter(node for block in blocks.blocks.values() for node in block.holders)
        silent_s = {rack: max(0.0, now_s - latest_s) for rack, latest_s in contact_s.items()}
        nodes = [
            NodeStorage(
                node=node,
                alive=blocks.is_alive(node),
                draining=node in blocks.draining,
                replicas=held[node],
                stored_bytes=blocks.load.get(node, 0),
                silent_s=silent_s.get(rack_of(node)),
            )
            for node in self._nodes
        ]
        return StorageReport(
            safe_mode=safe_mode,
            nodes=tuple(nodes),
            under_replicated=len(short),
            urgent=sum(len(block.sound) == 1 for block in short),
            corrupt=sum(bool(block.nodes("corrupt")) for block in complete),
            missing=len(missing),
            missing_single=sum(block.wanted == 1 for block in missing),
            leaving=sum(len(block.nodes("leaving")) for block in complete),
        )

    def _status(self, inode: Inode) -> FileStatus:
        namespace = self._namespace
        return status_of(namespace.path_of(inode), inode, namespace.entries(inode))

    def _known(self, block: FileBlock) -> Block:
        return self._blocks.blocks[block.block]

    def _locate(self, inode: Inode) -> FileBlocks:
        offset, located, draining = 0, [], self._blocks.draining
        for block in inode.blocks:
            known = self._known(block)
            located.append(
                BlockLocation(
                    block=block.block,
                    stored_offset=offset,
                    stored_length=block.stored_length,
                    nodes=known.sound,
                    doubtful=known.doubtful,
                    draining=tuple([n for n in known.sound if n in draining]) if draining else (),
                )
            )
            offset += block.stored_length
        path = self._namespace.path_of(inode)
        return FileBlocks(path=path, stored_length=offset, blocks=tuple(located))
