"""The NameNode's process: sockets around the core.

With durability ``safe``, a change is acknowledged, and commands that follow from it are sent, only
when its journal entry is on the disk.  One sync at a time runs in a thread, and all changes
committed meanwhile wait together for the next: a disk with 100 syncs a second bounds the latency of
changes, not their rate.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass

from railyard.cluster.config import NOT_AGAIN, Daemon
from railyard.cluster.errors import InvariantError, PeerError, PeerUnable, UsageError
from railyard.cluster.ids import RackId, rack_of
from railyard.cluster.machine import DECIDER, PATIENCE, AwakeClock, is_running, take_priority
from railyard.cluster.messaging.access import CLIENT, DATA_NODE, GATEWAY, RESOURCE_MANAGER
from railyard.cluster.messaging.reactor import Background, now_s
from railyard.cluster.messaging.transport import Request, Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.processes import stop_on_sigterm, user_name
from railyard.dfs.messages import (
    BlockReplicated,
    BlockReport,
    CreateFile,
    DataNodeHeartbeat,
    DrainNodes,
    FileCreated,
    FileReopened,
    MoveReplica,
    OnceOnly,
    RegisterDataNode,
    ReopenFile,
    ReplicasDeleted,
    ReplicationFailed,
    ReplicaVerified,
    SetSafeMode,
)
from railyard.dfs.namenode.core import NameNode, Outcome, Ticked
from railyard.dfs.namenode.restart import NotYet
from railyard.dfs.namenode.sqlitejournal import SqliteJournal

#: Open files per process; over TCP, per role.
FILES_MAX = 10_000
log = logging.getLogger(__name__)
#: Messages that only DataNodes may send.  Not ``ReplicaFailed``, which readers send too.
_OF_DATANODES = (
    RegisterDataNode,
    DataNodeHeartbeat,
    BlockReport,
    BlockReplicated,
    ReplicationFailed,
    ReplicasDeleted,
    ReplicaVerified,
)
#: Requests wait so long for DataNodes to register before they are refused.
HELD_S = 20.0


class GroupCommit:
    """Syncs ``journal`` in a thread of ``syncing``, for all changes that wait."""

    def __init__(self, journal: SqliteJournal, syncing: Background) -> None:
        self.journal = journal
        self._syncing = syncing
        self._held: list[Callable[[], None]] = []  #: waiting for the next sync
        self._running = False

    def hold(self, release: Callable[[], None]) -> None:
        """Call ``release`` once all commits so far are on the disk; in the order of calls."""
        self._held.append(release)
        self._sync()

    def _sync(self) -> None:
        if self._running or not self._held:
            return
        held, self._held = self._held, []
        self._running = True

        def ended(error: OSError | None) -> None:
            if error is not None:  # the state on the disk is unknown from here on
                raise InvariantError(f"the journal cannot be synced: {error.strerror}")
            self._running = False
            self._sync()
            for release in held:
                release()

        self._syncing.do(self.journal.sync, ended)


class Writers:
    """The open files of each client."""

    def __init__(self, is_open: Callable[[int], bool]) -> None:
        self._is_open = is_open
        self._files: dict[str, set[int]] = {}

    def check(self, client: str) -> None:
        files = self._files.get(client, set())
        if len(files) >= FILES_MAX:
            files = self._files[client] = set(filter(self._is_open, files))
        if len(files) >= FILES_MAX:
            right = f"at most {FILES_MAX:,}: complete or abandon some"
            raise PeerError(f"{len(files):,} files are being written by this client: {right}")

    def begun(self, client: str, file: int) -> None:
        self._files.setdefault(client, set()).add(file)

    def forget(self) -> None:
        """Drop files that have ended, and clients without open files."""
        still = {client: set(filter(self._is_open, files)) for client, files in self._files.items()}
        self._files = {client: files for client, files in still.items() if files}


@dataclass
class _Registered:
    """A DataNode's process, and when it was heard last."""

    pid: int
    heartbeat: DataNodeHeartbeat  #: the latest
    contact_s: float


@dataclass(eq=False)
class NameNodeServer:
    """Passes messages to the core, and the core's commands to the DataNodes.

    ``_commits`` delays acknowledgements until the disk has the change; None: they are sent at once.
    A DataNode that is silent counts as alive for up to ``patience_s`` while its process runs: on an
    overloaded machine it may just not have got a CPU.
    """

    transport: InitVar[Transport]
    _core: NameNode
    tick_s: InitVar[float]
    _commits: GroupCommit | None = None
    patience_s: float = 0.0

    def __post_init__(self, transport: Transport, tick_s: float) -> None:
        self._clock = AwakeClock(now_s(), tick_s)
        self._silent_after_s = 2 * tick_s
        self._registered: dict[RackId, _Registered] = {}
        self._datanodes: dict[RackId, bytes] = {}
        self._moving: dict[MoveReplica, list[Request[Message]]] = {}  #: requests of moves under way
        #: {(peer, number): a request that waits, and until when}
        self._held: dict[tuple[bytes, int], tuple[Request[Message], float]] = {}
        self._reactor = transport.reactor
        self._writers = Writers(self._core.is_being_written)
        self._server = transport.server("namenode")
        for kind in self._core.messages:
            self._server.on(kind, self._handle, _senders(kind))
        transport.reactor.call_every(tick_s, self._tick)

    def _handle(self, request: Request[Message]) -> Message | None:
        """Handle a request; one that has to wait for DataNodes is tried again, for a while."""
        key = request.peer, request.number
        _, until_s = self._held.pop(key, (request, now_s() + HELD_S))
        try:
            return self._answer(request)
        except NotYet:
            if now_s() >= until_s:
                raise
        self._held[key] = request, until_s
        return None

    def _try_held(self) -> None:
        for request, _ in list(self._held.values()):
            self._server.again(request)

    def _answer(self, request: Request[Message]) -> Message | None:
        message = request.message
        if type(message) in _OF_DATANODES:
            self._check_datanode(message, request.peer)
        client = ""
        if isinstance(message, CreateFile | ReopenFile):
            client = self._server.sender(request).key
            self._writers.check(client)
        before = self._commits.journal.commits if self._commits is not None else 0
        at_s = self._clock.at_s(now_s())
        outcome = self._core.handle(message, at_s)  # refuses unknown racks
        if isinstance(message, MoveReplica) and outcome.reply is None:
            self._moving.setdefault(message, []).append(request)
        if isinstance(message, RegisterDataNode | DataNodeHeartbeat):
            self._note_alive(message, request.peer, at_s)
        if isinstance(outcome.reply, FileCreated | FileReopened):
            self._writers.begun(client, outcome.reply.file)
        # What has a token may have been answered before, by a change that is being synced.
        waits = isinstance(message, OnceOnly) and bool(message.token)
        if self._commits is not None and (waits or self._commits.journal.commits != before):

            def release() -> None:
                self._send(outcome)
                if outcome.reply is not None:
                    self._server.reply(request, outcome.reply)

            self._commits.hold(release)
            return None
        self._send(outcome)
        return outcome.reply

    def _note_alive(
        self, message: RegisterDataNode | DataNodeHeartbeat, peer: bytes, at_s: float
    ) -> None:
        self._datanodes[message.rack] = peer
        if isinstance(message, RegisterDataNode):
            heartbeat = DataNodeHeartbeat(rack=message.rack, nodes=tuple(message.nodes))
            self._registered[message.rack] = _Registered(message.pid, heartbeat, at_s)
        elif known := self._registered.get(message.rack):
            known.heartbeat, known.contact_s = message, at_s
        if self._held:
            self._reactor.call_later(0, self._try_held)

    def _check_datanode(self, message: Message, peer: bytes) -> None:
        """Raise ``PeerError`` unless a fact comes from the rack's DataNode that registered last."""
        known: set[bytes | None]
        match message:
            case RegisterDataNode():
                return
            case DataNodeHeartbeat(rack=rack):
                known = {self._datanodes.get(rack, peer)}
            case ReplicationFailed(source=node) | BlockReport(node=node):
                known = {self._datanodes.get(rack_of(node))}
            case ReplicasDeleted(node=node) | ReplicaVerified(node=node):
                known = {self._datanodes.get(rack_of(node))}
            case _:  # the source of a copy reports that its target has it
                known = set(self._datanodes.values())
        if peer not in known:
            raise PeerError(f"{message.tag()}: is not from the DataNode that is registered for it")

    def _tick(self) -> None:
        self._writers.forget()
        at_s = self._clock.at_s(now_s())
        for known in self._registered.values():
            silent_s = at_s - known.contact_s
            if self._silent_after_s < silent_s <= self.patience_s and is_running(known.pid):
                self._send(self._core.handle(known.heartbeat, at_s))
        self._send(self._core.handle(Ticked(), at_s))
        self._try_held()

    def _send(self, outcome: Outcome) -> None:
        for each in outcome.commands:
            peer = self._datanodes.get(each.rack)
            if peer is not None:
                self._server.push(peer, each.command)
        for moved, answer in outcome.moved:
            for request in self._moving.pop(moved, ()):
                self._server.reply(request, answer)


def _senders(kind: type[Message]) -> tuple[str, ...]:
    """The roles that may send messages of a class; () = all."""
    if kind in (MoveReplica, DrainNodes):
        return (RESOURCE_MANAGER,)
    if kind is SetSafeMode:
        return (CLIENT, GATEWAY)
    return (DATA_NODE,) if kind in _OF_DATANODES else ()


def main(daemon: Daemon) -> int:
    """Serve "namenode", with the journal in the run folder; returns the exit status."""
    take_priority(DECIDER)
    transport = Transport.of(daemon)
    stop_on_sigterm(transport.reactor)
    config = daemon.config
    safe = config.durability == "safe"
    begin_s = now_s()
    epoch_s = time.time() - begin_s
    try:
        journal = SqliteJournal(daemon.folder.journal, lasting=safe)
        core = NameNode(
            config.topology, journal, begin_s, config.seed, owner=user_name(), epoch_s=epoch_s
        )
    except UsageError as error:  # so would be each further try
        log.error("%s", error)
        return NOT_AGAIN
    except PeerUnable as error:  # perhaps only for now: the disk is full, another has the journal
        log.error("%s", error)
        return 1
    syncing = Background(transport.reactor, threads=1) if safe else None
    commits = GroupCommit(journal, syncing) if syncing is not None else None
    liveness = config.topology.liveness
    NameNodeServer(transport, core, liveness.heartbeat, commits, PATIENCE * liveness.expiry_s)
    daemon.ready()
    transport.reactor.run()
    transport.close()
    if syncing is not None:
        syncing.close()
    journal.close()
    return 0
