"""The client of the block store, for all other parts.

All calls block until they have their result and run the process's reactor meanwhile; never call
them from within a handler.  They raise ``Refused`` with the NameNode's reason (no such file, exists
already, a bad path, ...).  While the NameNode is being restarted they wait for it, and ask again:
``PeerLost`` says that there was no answer in time.
"""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import msgspec

from railyard.cluster.errors import NotDone, Refused
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.lastinglink import LastingLink
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
    Concatenate,
    CreateFile,
    FileBlocks,
    FileCompleted,
    FileCreated,
    FileReopened,
    FileStatus,
    GetSafeMode,
    GetStatus,
    GetStorageReport,
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
    ReopenFile,
    SafeModeStatus,
    SetAttributes,
    SetReplication,
    SetSafeMode,
    Status,
    StorageReport,
    Usage,
)
from railyard.dfs.paths import IS_FOLDER, LOCKED, MISSING, SAFE_MODE
from railyard.dfs.peers import Peers, Services
from railyard.dfs.reader import DfsFile
from railyard.dfs.writer import HELD_BYTES, Buffer, NoRoom, write_blocks
from railyard.netemu.client import NetworkClient

M = TypeVar("M", bound=Message)
#: Pauses in seconds before retries of a request that the NameNode could not carry out (disk full).
_PAUSES_S = (0.2, 0.6, 1.5, 3.0)
_NO_HINT = PlacementHint()
_MAGIC = re.compile(r"[*?\[]")
_HIDDEN = ("_", ".")


@dataclass(eq=False)
class DfsClient:
    """Reads and writes files from ``node`` (None: from outside the racks).

    With ``network``, bytes between nodes move as flows of it; without, at full speed.  From outside
    they are flows if the topology has a link for clients.  Of a file that is written, at most
    ``held_bytes`` are held, or one block if that is larger.
    """

    _transport: Transport
    _topology: Topology
    _node: NodeId | None = None
    _network: NetworkClient | None = None
    held_bytes: int = HELD_BYTES

    def __post_init__(self) -> None:
        self._own_network: NetworkClient | None = None
        if self._node is None:
            if self._topology.client_link is not None:
                self._own_network = NetworkClient(self._transport, self._topology)
            self._network = self._own_network
        #: {"local", "rack" or "remote": stored bytes read so far}
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
        """Write a file; it becomes visible, complete and durable, when this returns.

        ``data`` is sent without copies: its buffers must not change until this returns.
        ``replication`` 0 is the cluster's default.
        """
        how = CreateFile(path=path, replication=replication, overwrite=overwrite, hint=hint)
        return self.fill(path, self.create(how), data)

    def create(self, how: CreateFile) -> FileCreated:
        return self._call(msgspec.structs.replace(how, writer=self._node), FileCreated)

    def fill(
        self, path: str, created: FileCreated | FileReopened, data: Iterable[Buffer]
    ) -> FileStatus:
        """Write the content of a created file, or the end of a reopened one; see ``write``."""
        try:
            blocks = write_blocks(self._services, path, created, data)
            complete = CompleteFile(file=created.file, blocks=blocks, token=_token())
            return self._call(complete, FileCompleted).status
        except BaseException:
            self._services.namenode.request(AbandonFile(file=created.file), Done, lambda *_: None)
            raise

    def append(self, path: str, data: Iterable[Buffer]) -> FileStatus:
        """Write at the end of a file; readers see the file as it was until this returns."""
        return self._rewrite_end(path, None, data)

    def truncate(self, path: str, stored_length: int) -> FileStatus:
        return self._rewrite_end(path, stored_length, ())

    def open(self, path: str) -> DfsFile:
        return DfsFile(self._services, self._locate_file(path))

    def read(
        self, path: str, stored_offset: int = 0, stored_length: int | None = None
    ) -> Iterator[memoryview]:
        return self.open(path).stream(stored_offset, stored_length)

    def locations(self, path: str) -> tuple[BlockLocation, ...]:
        return self._locate_file(path).blocks

    # Names -----------------------------------------------------------------------------------
    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def find(self, path: str) -> FileStatus | None:
        return self._call(GetStatus(path=path), Status).status

    def status(self, path: str) -> FileStatus:
        """The status of the file or folder at ``path``; raises ``Refused`` if there is none."""
        status = self.find(path)
        if status is None:
            raise Refused(f"{path}: no such file or folder", MISSING)
        return status

    def list(self, path: str) -> tuple[FileStatus, ...]:
        """The entries of a folder, sorted by name; for a file, the file itself."""
        return self._call(ListFolder(path=path), Listing).entries

    def mkdir(self, path: str, owner: str = "", permission: int | None = None) -> None:
        self._call(MakeFolder(path=path, owner=owner, permission=permission), Done)

    def change(self, change: SetAttributes | SetReplication | Concatenate) -> None:
        if isinstance(change, Concatenate):
            change = msgspec.structs.replace(change, token=_token())
        self._call(change, Done)

    def remove(self, path: str, recursive: bool = False) -> Removed:
        return self._call(Remove(path=path, recursive=recursive, token=_token()), Removed)

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        """Rename a file or folder to the path ``target``, never into a folder of that name."""
        move = Move(source=source, target=target)
        self._call(MoveFiles(moves=(move,), overwrite=overwrite, token=_token()), Done)

    # Reports ---------------------------------------------------------------------------------
    def usage(self, path: str) -> Usage:
        """Numbers of files, folders and blocks below ``path``, and their stored bytes."""
        return self._call(GetUsage(path=path), Usage)

    def check(self, path: str = "/") -> CheckReport:
        """Report missing, under-replicated and over-replicated blocks below ``path`` (fsck)."""
        return self._call(CheckFiles(path=path), CheckReport)

    def storage(self) -> StorageReport:
        return self._call(GetStorageReport(), StorageReport)

    # Safe mode -------------------------------------------------------------------------------
    def is_in_safe_mode(self) -> bool:
        return self._call(GetSafeMode(), SafeModeStatus).on

    def set_safe_mode(self, on: bool) -> bool:
        return self._call(SetSafeMode(on=on), SafeModeStatus).on

    def close(self) -> None:
        if self._own_network is not None:
            self._own_network.close()
        services: Services | None = vars(self).pop("_services", None)
        if services is not None:
            services.peers.close()
            services.namenode.close()

    # Helpers ---------------------------------------------------------------------------------
    def _rewrite_end(
        self, path: str, stored_length: int | None, data: Iterable[Buffer]
    ) -> FileStatus:
        """Cut a file to ``stored_length`` (None: not at all), then write ``data`` after it."""
        reopen = ReopenFile(
            path=path, stored_length=stored_length, writer=self._node, token=_token()
        )
        reopened = self._call(reopen, FileReopened)
        end = reopened.stored_length if stored_length is None else stored_length
        kept = reopened.kept_stored_length
        again = self.open(path).stream(kept, end - kept) if end > kept else ()
        return self.fill(path, reopened, itertools.chain(again, data))

    def _locate_file(self, path: str) -> FileBlocks:
        located = self._call(LocateBlocks(path=path), BlocksLocated)
        if located.folder:
            raise Refused(f"{path}: is a folder", IS_FOLDER)
        return located.files[0]

    @cached_property
    def _services(self) -> Services:
        return Services(
            transport=self._transport,
            topology=self._topology,
            namenode=LastingLink(self._transport, "namenode"),
            peers=Peers(self._transport, self._node or "outside"),
            network=self._network,
            node=self._node,
            held_bytes=self.held_bytes,
            read_bytes=self.read_bytes,
        )

    def _call(self, message: Message, answer: type[M]) -> M:
        """Ask the NameNode, for a while if it is unable, but not in a safe mode without an end."""
        pauses_s = iter(_PAUSES_S)
        while True:
            try:
                return self._services.namenode.ask(message, answer)
            except NotDone as error:
                pause_s = next(pauses_s, None)
                if error.kind == LOCKED or (pause_s is None and error.kind == SAFE_MODE):
                    raise
                if pause_s is None:
                    raise NoRoom(str(error), error.kind) from None  # for its journal
                self._transport.reactor.run_until(lambda: False, pause_s)


def _token() -> str:
    return uuid.uuid4().hex


# Patterns -----------------------------------------------------------------------------------------
def is_pattern(path: str) -> bool:
    """Whether a path may stand for several."""
    return _MAGIC.search(path) is not None


def matching(client: DfsClient, pattern: str) -> list[FileStatus]:
    """What matches an absolute path or pattern, in order; [] if nothing does.

    As in Hadoop: ``*``, ``?``, ``[a-c]`` and ``[^a-c]`` match within a name, and no name that
    begins with _ or . is matched by a pattern.  Callers write ``{a,b}`` out first.
    """
    if not is_pattern(pattern):
        status = client.find(pattern)
        return [] if status is None else [status]
    found = [client.status("/")]
    for name in pattern[1:].split("/"):
        if not is_pattern(name):
            looked = (client.find(posixpath.join(each.path, name)) for each in found)
            found = [status for status in looked if status is not None]
            continue
        shape = re.compile(fnmatch.translate(name.replace("[^", "[!")))
        entries = [entry for each in found if each.folder for entry in client.list(each.path)]
        names = [posixpath.basename(entry.path) for entry in entries]
        fits = [bool(shape.match(each)) and not each.startswith(_HIDDEN) for each in names]
        found = list(itertools.compress(entries, fits))
    return found
