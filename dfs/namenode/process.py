"""The NameNode's process: sockets around the core.

With durability ``safe``, a change is acknowledged, and commands that follow from it are sent, only
when its journal entry is on the disk.
"""

from __future__ import annotations

import functools
import logging
import time
from dataclasses import dataclass

from railyard.cluster.background import Background
from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError, PeerUnable, UsageError
from railyard.cluster.ids import RackId, rack_of
from railyard.cluster.messaging.access.roles import CLIENT, DATA_NODE, GATEWAY, RESOURCE_MANAGER
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Request, Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.processes.family import stop_on_sigterm
from railyard.cluster.processes.overload import PATIENCE, AwakeClock, is_running
from railyard.cluster.processes.priority import DECIDER, take_priority
from railyard.cluster.processes.restarts import NOT_AGAIN
from railyard.cluster.processes.users import user_name
from railyard.dfs.messages.administering import SetSafeMode
from railyard.dfs.messages.changes import FileReopened, ReopenFile
from railyard.dfs.messages.datanodes import (
    BlockReplicated,
    BlockReport,
    DataNodeHeartbeat,
    RegisterDataNode,
    ReplicasDeleted,
    ReplicationFailed,
    ReplicaVerified,
)
from railyard.dfs.messages.draining import DrainNodes
from railyard.dfs.messages.files import (
    AbandonFile,
    CompleteFile,
    CreateFile,
    FileCreated,
    MoveReplica,
)
from railyard.dfs.messages.once import OnceOnly
from railyard.dfs.namenode.core import NameNode, Outcome, Ticked
from railyard.dfs.namenode.durable.groupcommit import GroupCommit
from railyard.dfs.namenode.durable.sqlite_journal import SqliteJournal
from railyard.dfs.namenode.restart.safemode import NotYet
from railyard.dfs.namenode.writers import Writers

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
_OF_WRITERS = (CreateFile, ReopenFile, CompleteFile, AbandonFile)


@dataclass
class _Registered:
    """A DataNode's process, and when it was heard last."""

    pid: int
    heartbeat: DataNodeHeartbeat  #: the latest
    heard_s: float


class NameNodeServer:
    """Passes messages to the core, and the core's commands to the DataNodes.

    ``commits`` delays acknowledgements until the disk has the change; None: they are sent at once.
    A DataNode that is silent counts as alive for up to ``patience_s`` while its process runs: on an
    overloaded machine it may just not have got a CPU.
    """

    def __init__(
        self,
        transport: Transport,
        core: NameNode,
        tick_s: float,
        commits: GroupCommit | None = None,
        patience_s: float = 0.0,
    ) -> None:
        self._core = core
        self._commits = commits
        self._clock = AwakeClock(now_s(), tick_s)
        self._silent_after_s = 2 * tick_s
        self._patience_s = patience_s
        self._registered: dict[RackId, _Registered] = {}
        self._datanodes: dict[RackId, bytes] = {}
        self._moving: dict[MoveReplica, list[Request]] = {}  #: requests of moves under way
        #: {(peer, number): a request that waits, and until when}
        self._held: dict[tuple[bytes, int], tuple[Request, float]] = {}
        self._reactor = transport.reactor
        self._writers = Writers(core.is_being_written)
        self._server = transport.server("namenode")
        for kind in core.messages:
            self._server.on(kind, self._handle, _senders(kind))
        transport.reactor.call_every(tick_s, self._tick)

    def _handle(self, request: Request) -> Message | None:
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

    def _answer(self, request: Request) -> Message | None:
        message = request.message
        if type(message) in _OF_DATANODES:
            self._check_datanode(message, request.peer)
        client = self._server.sender(request).key if type(message) in _OF_WRITERS else ""
        if isinstance(message, CreateFile | ReopenFile):
            self._writers.check(client)
        before = self._commits.commits if self._commits is not None else 0
        at_s = self._clock.at_s(now_s())
        outcome = self._core.handle(message, at_s)  # refuses unknown racks
        if isinstance(message, MoveReplica) and outcome.reply is None:
            self._moving.setdefault(message, []).append(request)
        if isinstance(message, RegisterDataNode | DataNodeHeartbeat):
            self._datanodes[message.rack] = request.peer
            self._note_alive(message, at_s)
            if self._held:
                self._reactor.call_later(0, self._try_held)
        if isinstance(outcome.reply, FileCreated | FileReopened):
            self._writers.begun(client, outcome.reply.file)
        elif isinstance(message, CompleteFile | AbandonFile):
            self._writers.ended(client, message.file)
        if self._commits is not None and (self._commits.commits != before or _comes_again(message)):
            self._commits.hold(functools.partial(self._release, request, outcome))
            return None
        self._send(outcome)
        return outcome.reply

    def _release(self, request: Request, outcome: Outcome) -> None:
        self._send(outcome)
        if outcome.reply is not None:
            self._server.reply(request, outcome.reply)

    def _check_datanode(self, message: Message, peer: bytes) -> None:
        """Raise ``PeerError`` unless a fact about a rack comes from the rack's DataNode.

        That is the last one that registered: an earlier one is dead or replaced.
        """
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

    def _note_alive(self, message: RegisterDataNode | DataNodeHeartbeat, at_s: float) -> None:
        if isinstance(message, RegisterDataNode):
            heartbeat = DataNodeHeartbeat(rack=message.rack, nodes=tuple(message.nodes))
            self._registered[message.rack] = _Registered(message.pid, heartbeat, at_s)
        elif message.rack in self._registered:
            known = self._registered[message.rack]
            known.heartbeat, known.heard_s = message, at_s

    def _tick(self) -> None:
        self._writers.forget()
        at_s = self._clock.at_s(now_s())
        for known in self._registered.values():
            silent_s = at_s - known.heard_s
            if self._silent_after_s < silent_s <= self._patience_s and is_running(known.pid):
                self._send(self._core.handle(known.heartbeat, at_s))
        self._send(self._core.handle(Ticked(), at_s))
        self._try_held()

    def _send(self, outcome: Outcome) -> None:
        """Send an outcome's commands, and the answers of moves that have ended."""
        for each in outcome.commands:
            peer = self._datanodes.get(each.rack)
            if peer is not None:
                self._server.push(peer, each.command)
        for moved, answer in outcome.moved:
            for request in self._moving.pop(moved, ()):
                self._server.reply(request, answer)


def _comes_again(message: Message) -> bool:
    """Whether it may have been answered before, by a change that is being synced."""
    return isinstance(message, OnceOnly) and bool(message.token)


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
    try:
        journal = SqliteJournal(daemon.folder.journal, lasting=safe)
        core = NameNode(
            config.topology,
            journal,
            begin_s,
            seed=config.seed,
            owner=user_name(),
            epoch_s=time.time() - begin_s,
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
    patience_s = PATIENCE * liveness.expiry_s
    NameNodeServer(transport, core, liveness.heartbeat, commits, patience_s)
    daemon.ready()
    transport.reactor.run()
    transport.close()
    if syncing is not None:
        syncing.close()
    journal.close()
    return 0
