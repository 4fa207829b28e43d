"""The block store as other parts use it.

All calls wait for their result and serve the process's reactor meanwhile; never call them from
within a handler.  They raise ``Refused`` with the NameNode's reason (no such file, exists
already, a bad path, ...), and ``PeerLost`` if the NameNode is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from railyard.cluster.errors import NotDone, Refused
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.lastinglink import CENTRAL_PATIENCE_S
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.topology import Topology
from railyard.dfs.messages import (
    AbandonFile,
    BlockLocation,
    BlocksLocated,
    CheckFiles,
    CheckReport,
    CompleteFile,
    CreateFile,
    FileBlocks,
    FileCompleted,
    FileCreated,
    FileStatus,
    GetStatus,
    GetUsage,
    ListFolder,
    Listing,
    LocateBlocks,
    MakeFolder,
    Move,
    MoveFiles,
    PlacementHint,
    Remove,
    Removed,
    Status,
    StoredBlock,
    Usage,
)
from railyard.dfs.peers import Peers
from railyard.dfs.reading import BlockUnavailable, DfsFile, ReadServices
from railyard.dfs.writing import Buffer, NoRoom, WriteServices, write_blocks
from railyard.netemu.client.client import NetworkClient

__all__ = ["BlockUnavailable", "Buffer", "DfsClient", "DfsFile", "NoRoom"]

M = TypeVar("M", bound=Message)
#: Before a request is made again that the NameNode could not carry out: its disk may be full.
_PAUSES_S = (0.2, 0.6, 1.5, 3.0)
_NO_HINT = PlacementHint()


class DfsClient:
    """Reads and writes files from ``node`` (None: from outside of the cluster).

    With ``network`` the bytes between nodes are its flows; without, they move unhindered.
    """

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        node: NodeId | None = None,
        network: NetworkClient | None = None,
    ) -> None:
        self._transport = transport
        self._topology = topology
        self._node = node
        self._network = network
        self._peers = Peers(transport, node or "outside")
        self._link: Link | None = None
        #: stored bytes read so far: from the own node, the own rack, elsewhere
        self.read_bytes = {"local": 0, "rack": 0, "remote": 0}

    # Files -----------------------------------------------------------------------------------
    def write(
        self,
        path: str,
        data: Iterable[Buffer],
        replication: int = 0,
        overwrite: bool = False,
        hint: PlacementHint = _NO_HINT,
    ) -> FileStatus:
        """Write a file; it is there, whole and lasting, once this returns, and not before.

        ``data`` is sent without copies: its buffers must not change until this returns.  About
        128 MiB of it (or one block) are held at most.  ``replication`` 0 is the cluster's.
        """
        return self.fill(path, self.create(path, replication, overwrite, hint), data)

    def create(
        self,
        path: str,
        replication: int = 0,
        overwrite: bool = False,
        hint: PlacementHint = _NO_HINT,
    ) -> FileCreated:
        """Begin a file; for the arguments see ``write``.  ``fill`` is to follow."""
        create = CreateFile(
            path=path,
            writer=self._node,
            replication=replication,
            overwrite=overwrite,
            hint=hint,
        )
        return self._call(create, FileCreated)

    def fill(self, path: str, created: FileCreated, data: Iterable[Buffer]) -> FileStatus:
        """Write all of a file that was begun; as ``write``."""
        try:
            blocks = self._write_blocks(path, created, data)
            complete = CompleteFile(file=created.file, blocks=blocks)
            return self._call(complete, FileCompleted).status
        except BaseException:
            self._namenode().request(AbandonFile(file=created.file), Done, lambda *_: None)
            raise

    def open(self, path: str) -> DfsFile:
        """A file, for several reads of it."""
        return DfsFile(self._read_services(), self._locate_file(path))

    def read(
        self, path: str, stored_offset: int = 0, stored_length: int | None = None
    ) -> Iterator[memoryview]:
        """The bytes of a file, in pieces as they come; see ``DfsFile.stream``."""
        return self.open(path).stream(stored_offset, stored_length)

    def locations(self, path: str) -> tuple[BlockLocation, ...]:
        """Where a file's blocks are, in order."""
        return self._locate_file(path).blocks

    # Names -----------------------------------------------------------------------------------
    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return self._call(GetStatus(path=path), Status).status is not None

    def status(self, path: str) -> FileStatus:
        """What is at ``path``."""
        status = self._call(GetStatus(path=path), Status).status
        if status is None:
            raise Refused(f"{path}: no such file or folder")
        return status

    def list(self, path: str) -> tuple[FileStatus, ...]:
        """What is in a folder, by name; the file itself if it is one."""
        return self._call(ListFolder(path=path), Listing).entries

    def mkdir(self, path: str) -> None:
        """Make a folder and those above it; fine if it is there."""
        self._call(MakeFolder(path=path), Done)

    def remove(self, path: str, recursive: bool = False) -> Removed:
        """Remove a file or folder; how many went."""
        return self._call(Remove(path=path, recursive=recursive), Removed)

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        """Give a file or folder the path ``target`` (not: move it into a folder of that name)."""
        self.move(Move(source=source, target=target), overwrite=overwrite)

    def move(
        self,
        *moves: Move,
        markers: tuple[str, ...] = (),
        remove: tuple[str, ...] = (),
        overwrite: bool = False,
    ) -> None:
        """Do many renames at once, or none; see ``dfs.messages.MoveFiles``."""
        message = MoveFiles(moves=moves, markers=markers, remove=remove, overwrite=overwrite)
        self._call(message, Done)

    # Reports ---------------------------------------------------------------------------------
    def usage(self, path: str) -> Usage:
        """How much is below ``path``."""
        return self._call(GetUsage(path=path), Usage)

    def check(self, path: str = "/") -> CheckReport:
        """Whether all blocks below ``path`` have the replicas that they should have."""
        return self._call(CheckFiles(path=path), CheckReport)

    def close(self) -> None:
        """End all conversations."""
        self._peers.close()
        if self._link is not None:
            self._link.close()
            self._link = None

    # Helpers ---------------------------------------------------------------------------------
    def _write_blocks(
        self, path: str, created: FileCreated, data: Iterable[Buffer]
    ) -> tuple[StoredBlock, ...]:
        services = WriteServices(
            reactor=self._transport.reactor,
            topology=self._topology,
            namenode=self._namenode(),
            peers=self._peers,
            network=self._network,
            node=self._node,
        )
        try:
            return write_blocks(services, created.file, created.stored_block_bytes, data)
        except NotDone as error:
            raise type(error)(f"{path}: {error}") from None

    def _locate_file(self, path: str) -> FileBlocks:
        located = self._call(LocateBlocks(path=path), BlocksLocated)
        if located.folder:
            raise Refused(f"{path}: is a folder")
        return located.files[0]

    def _read_services(self) -> ReadServices:
        return ReadServices(
            reactor=self._transport.reactor,
            folder=self._transport.folder,
            namenode=self._namenode(),
            peers=self._peers,
            node=self._node,
            read_bytes=self.read_bytes,
        )

    def _call(self, message: Message, answer: type[M]) -> M:
        """What the NameNode answers; what it cannot do just now is asked for again for a while."""
        for pause_s in _PAUSES_S:
            try:
                return self._namenode().call(message, answer)
            except NotDone:
                self._transport.reactor.run_until(lambda: False, pause_s)
        return self._namenode().call(message, answer)

    def _namenode(self) -> Link:
        """The link to the NameNode; a new one if it was lost."""
        if self._link is not None and self._link.lost:
            self._link.close()
            self._link = None
        if self._link is None:
            self._link = self._transport.link("namenode", patience_s=CENTRAL_PATIENCE_S)
        return self._link
