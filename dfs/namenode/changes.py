"""Changes of files and folders that exist: attributes, replication, files put together.

A part of the NameNode, with its rules: see ``core.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.wire import Done
from railyard.dfs.messages.changes import Concatenate, SetAttributes, SetReplication
from railyard.dfs.namenode.journal import FileBlock, Inode
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.namenode.openfiles import OpenFiles
from railyard.dfs.namenode.replicas.blockmap import BlockMap
from railyard.dfs.paths import IS_FOLDER


class Changes:
    """Carries them out."""

    def __init__(
        self, namespace: Namespace, blocks: BlockMap, open_files: OpenFiles, nodes: int
    ) -> None:
        self._namespace = namespace
        self._blocks = blocks
        self._open = open_files
        self._nodes = nodes  #: how many there are

    def set_attributes(self, message: SetAttributes, _: float) -> Done:
        """Change an owner, a group, a permission or a time."""
        inode = self._namespace.get(message.path)
        names = "owner", "group", "permission", "modified_s", "accessed_s"
        given = {name: getattr(message, name) for name in names}
        new = {name: value for name, value in given.items() if value is not None}
        attributes = msgspec.structs.replace(inode.attributes, **new)
        self._replace(msgspec.structs.replace(inode, attributes=attributes))
        return Done()

    def set_replication(self, message: SetReplication, _: float) -> Done:
        """Change how many replicas a file has."""
        inode = self._file(message.path)
        check_replication(message.replication, self._nodes, least=1)
        self._replace(msgspec.structs.replace(inode, replication=message.replication))
        self._want(inode.blocks, message.replication)
        return Done()

    def concatenate(self, message: Concatenate, _: float) -> Done:
        """Put the blocks of files at the end of another."""
        target = self._file(message.target)
        sources = [self._file(path) for path in message.sources]
        numbers = [inode.number for inode in (target, *sources)]
        if len(set(numbers)) < len(numbers):
            raise PeerError(f"{message.target}: need files that differ from it and one another")
        for inode, path in zip((target, *sources), (message.target, *message.sources), strict=True):
            if self._open.is_reopened(inode.number):
                raise PeerError(f"{path}: is being written: need files that nobody writes")
        moved = tuple(block for inode in sources for block in inode.blocks)

        def act() -> Done:
            for path in message.sources:
                self._namespace.remove(path, recursive=False)
            self.rewrite(target, (*target.blocks, *moved))
            return Done()

        done = self._namespace.change(act)[0]
        self._want(moved, target.replication)
        return done

    def rewrite(self, inode: Inode, blocks: tuple[FileBlock, ...]) -> Inode:
        """Give a file that exists other blocks.  Within ``Namespace.change``."""
        namespace = self._namespace
        attributes = msgspec.structs.replace(inode.attributes, modified_s=namespace.now_s)
        inode = msgspec.structs.replace(inode, blocks=blocks, attributes=attributes)
        namespace.replace(inode)
        return inode

    def _file(self, path: str) -> Inode:
        inode = self._namespace.get(path)
        if inode.folder:
            raise PeerError(f"{path}: is a folder", IS_FOLDER)
        return inode

    def _replace(self, inode: Inode) -> None:
        self._namespace.change(self._namespace.replace, inode)

    def _want(self, blocks: Sequence[FileBlock], replication: int) -> None:
        for block in blocks:
            self._blocks.want(block.block, replication)


def check_replication(replication: int, nodes: int, least: int = 0) -> None:
    """Raise ``PeerError`` unless so many nodes can have a replica each."""
    if not least <= replication <= nodes:
        first = "1" if least else "0 (the cluster's)"
        right = f"{first} to {nodes}, one per node"
        raise PeerError(f"replication = {replication}: need {right}")
