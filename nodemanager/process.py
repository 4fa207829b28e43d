"""The NodeManager process: runs attempts on its rack's nodes and serves their map output.

Its name on the wire is "nodemanager-RACK".  Orders come from the ResourceManager over the link on
which it registered; facts go back over it.  If that link breaks, what runs here goes on; once there
is a ResourceManager again, this process registers again with what it has.  After a death of
this process, the next one finds its map output on the nodes' disks; attempts died with it.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerLost
from railyard.cluster.ids import AttemptId, JobId, NodeId, is_attempt, is_job, job_of
from railyard.cluster.machine import (
    CARRIER,
    RETURN_PERIOD_S,
    keep_freed_memory,
    return_freed_memory,
    take_priority,
)
from railyard.cluster.messages import (
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    FactsJournaled,
    FetchOutput,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
    NodeManagerHeartbeat,
    RegisterNodeManager,
)
from railyard.cluster.messaging.lastinglink import CENTRAL_PATIENCE_S, LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.cluster.processes import stop_on_sigterm
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.client import NetworkClient
from railyard.nodemanager.attempt.programs import localized_folders
from railyard.nodemanager.attempts import Attempts
from railyard.nodemanager.helpers import Channel, start_helper
from railyard.nodemanager.permits import Permits, SharedPermits, permits_of_machine
from railyard.nodemanager.shuffle import MapOutput, OutputUnreadable, ShuffleService, shuffle_folder


class Facts:
    """Facts in the order in which they happened, retained until the ResourceManager has them.

    Nothing is lost with one that dies: its successor gets again what may not be in the journal.  A
    fact that comes twice changes nothing, since attempts and flows end once.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._retained: deque[Message] = deque()  #: those that may not be journaled
        self.is_connected = False  #: whether this process is registered, over this connection

    def report(self, fact: Message) -> None:
        self._retained.append(fact)
        if self.is_connected:
            self._send(fact)

    def resend(self) -> None:
        """This process is registered: send all that the ResourceManager may not have."""
        self.is_connected = True
        for fact in self._retained:
            self._send(fact)

    def journaled(self, count: int) -> None:
        for _ in range(min(count, len(self._retained))):
            self._retained.popleft()


log = logging.getLogger(__name__)

#: So much is checked before a NodeManager registers: about a tenth of a second.
CHECKED_BYTES_MAX = 64 * 2**20


def find_leftovers(
    folder: RunFolder, nodes: Iterable[NodeId], checked_bytes: int = CHECKED_BYTES_MAX
) -> tuple[dict[NodeId, tuple[AttemptId, ...]], set[JobId]]:
    """Find the map output that a NodeManager before this has left, and remove what is not whole.

    Returns {node: attempts whose output is whole there}, and jobs of which there are any files.
    An output's file has its name once it is complete, and its index has a checksum.  Partitions
    have checksums of their own: those of ``checked_bytes`` in all are read and checked here, the
    others when they are read, as ever.
    """
    outputs: dict[NodeId, tuple[AttemptId, ...]] = {}
    jobs: set[JobId] = set()
    for node in nodes:
        found: list[AttemptId] = []
        for job in _jobs_in(shuffle_folder(folder, node)):
            jobs.add(job)
            for path in sorted((shuffle_folder(folder, node) / job).iterdir()):
                if not is_attempt(path.name) or job_of(path.name) != job:
                    _remove(path)  # an attempt was writing it
                    continue
                try:
                    output = MapOutput(path)
                    if output.stored_bytes <= checked_bytes:
                        checked_bytes -= output.stored_bytes
                        output.check()
                except OutputUnreadable as error:
                    log.warning("%s: it counts as lost", error)
                else:
                    found.append(AttemptId(path.name))
        outputs[node] = tuple(found)
        jobs |= set(_jobs_in(localized_folders(folder, node)))
    return outputs, jobs


def _jobs_in(folder: Path) -> Iterator[JobId]:
    """The jobs with a folder here, sorted."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if is_job(path.name):
            yield JobId(path.name)


def _remove(path: Path) -> None:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        log.warning("%s: %s", path, error.strerror)


def main(daemon: Daemon) -> None:
    """Run the NodeManager; ``PeerLost`` if its helper ends or no ResourceManager is there."""
    helper_pid, helper = start_helper(daemon)  # before there is a ZeroMQ context
    take_priority(CARRIER)  # after the helper: attempts have none
    keep_freed_memory()
    try:
        _NodeManager(daemon, helper).run()
    finally:
        helper.close()  # which ends it, and all that it has forked
        os.waitpid(helper_pid, 0)


class _NodeManager:
    def __init__(self, daemon: Daemon, helper: Channel) -> None:
        self._daemon = daemon
        racks = daemon.config.topology.rack_list()
        self._rack = next(rack for rack in racks if f"nodemanager-{rack.id}" == daemon.name)
        self._is_registered = False  #: whether it ever was
        self._earlier_jobs: set[JobId] = set()  #: of which a NodeManager before this has left files
        self._lost = ""  #: what this process can't go on without, and has ended
        self._transport = Transport.of(daemon)
        self._reactor = self._transport.reactor
        stop_on_sigterm(self._reactor)
        nodes = frozenset(node.id for node in self._rack.nodes)
        server = self._transport.server(daemon.name)
        self._network = NetworkClient(self._transport, daemon.config.topology)
        self._shuffle = ShuffleService(server, self._reactor, self._network, daemon.folder, nodes)
        self._manager = LastingLink(self._transport, "resourcemanager", self._register_again)
        self._facts = Facts(self._manager.send)
        shared = SharedPermits(daemon.folder.permits, permits_of_machine())
        self._attempts = Attempts(
            daemon,
            self._reactor,
            server,
            nodes,
            Permits(self._reactor, shared, daemon.config.topology.racks.count),
            self._facts.report,
            helper,
            on_helper_lost=lambda: self._stop("the own helper"),
        )

    def run(self) -> None:
        orders, attempts = self._manager, self._attempts
        orders.on(FactsJournaled, lambda order, _: self._facts.journaled(order.count))
        orders.on(LoadJob, lambda order, _: attempts.load(order))
        orders.on(LaunchAttempt, lambda order, _: attempts.launch(order))
        orders.on(BeginAttempt, lambda order, _: attempts.begin(order))
        orders.on(KillAttempt, lambda order, _: attempts.kill(order))
        orders.on(FetchOutput, lambda order, _: attempts.fetch(order))
        orders.on(CancelFlow, lambda order, _: attempts.cancel_fetch(order))
        orders.on(DiscardJob, lambda order, _: self._discard(order))
        for node in self._rack.nodes:
            self._daemon.folder.node(node.id).mkdir(mode=0o700, parents=True, exist_ok=True)
        nodes = tuple([node.id for node in self._rack.nodes])
        outputs, jobs = find_leftovers(self._daemon.folder, nodes)
        self._earlier_jobs.update(jobs)
        self._manager.call(self._registration(outputs), Done, CENTRAL_PATIENCE_S)
        self._facts.resend()
        period_s = self._daemon.config.topology.liveness.heartbeat
        heartbeat = NodeManagerHeartbeat(rack=self._rack.id, nodes=nodes)
        self._reactor.call_every(period_s, lambda: self._beat(heartbeat))
        self._reactor.call_every(RETURN_PERIOD_S, return_freed_memory)
        self._is_registered = True
        self._daemon.ready()
        if not self._lost:
            self._reactor.run()
        self._transport.close()
        if self._lost:
            raise PeerLost(f"{self._daemon.name} ends: {self._lost} is gone")

    def _beat(self, heartbeat: NodeManagerHeartbeat) -> None:
        if self._facts.is_connected:
            self._manager.send(heartbeat)

    def _registration(
        self, found: dict[NodeId, tuple[AttemptId, ...]] | None = None
    ) -> RegisterNodeManager:
        """The first registration has the output that was ``found``; others go on with it."""
        return RegisterNodeManager(
            rack=self._rack.id,
            pid=os.getpid(),
            nodes={node.id: node.slots for node in self._rack.nodes},
            again=found is None,
            outputs=found or {},
            jobs=tuple(sorted(self._earlier_jobs)),
        )

    def _register_again(self) -> None:
        """There is a new connection: to a ResourceManager that was restarted, it may be."""
        self._facts.is_connected = False
        if not self._is_registered:
            return  # the first registration has not been answered, and fails

        def answered(answer: Done | Refusal | PeerLost, _: object) -> None:
            if isinstance(answer, Done):
                self._facts.resend()
                self._manager.send(self._attempts.held(self._rack.id))
            elif isinstance(answer, Refusal):
                log.error("the ResourceManager does not take it again: %s", answer.reason)
                self._stop("its registration")

        self._manager.request(self._registration(), Done, answered)

    def _discard(self, order: DiscardJob) -> None:
        self._earlier_jobs.discard(order.job)
        self._attempts.discard(order)
        self._shuffle.discard(order.job)

    def _stop(self, lost: str) -> None:
        self._lost = self._lost or lost
        self._reactor.stop()
