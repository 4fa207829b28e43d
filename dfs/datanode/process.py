"""The DataNode's process: registers with the NameNode and carries out its commands."""

from __future__ import annotations

import logging
import os

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.errors import PeerLost
from railyard.cluster.ids import RackId
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Event, Refusal
from railyard.cluster.processes.family import stop_on_sigterm
from railyard.cluster.processes.memory import (
    RETURN_PERIOD_S,
    keep_freed_memory,
    return_freed_memory,
)
from railyard.cluster.processes.priority import CARRIER, take_priority
from railyard.dfs.datanode.server import BlockServer
from railyard.dfs.messages.datanodes import (
    BlockReport,
    DataNodeHeartbeat,
    DeleteDamaged,
    DeleteReplicas,
    RegisterAgain,
    RegisterDataNode,
    ReplicateBlock,
    VerifyReplica,
)
from railyard.netemu.client.client import NetworkClient

log = logging.getLogger(__name__)

_TRY_AGAIN_S = 0.5


class DataNode:
    """Registers, sends heartbeats, and registers again with a restarted NameNode."""

    def __init__(
        self,
        transport: Transport,
        config: ClusterConfig,
        rack: RackId,
        network: NetworkClient | None,
    ) -> None:
        topology = config.topology
        self._transport = transport
        self._rack = rack
        self._server = BlockServer(
            transport, topology, rack, network, self._report, config.durability
        )
        self._namenode = self._connect()
        self.registered = False
        transport.reactor.call_every(topology.liveness.heartbeat, self._heartbeat)
        self._register()

    def _connect(self) -> LastingLink:
        link = LastingLink(self._transport, "namenode", on_renewed=self._renewed)
        link.on(ReplicateBlock, lambda command, _: self._server.replicate(command))
        link.on(DeleteReplicas, lambda command, _: self._server.delete(command))
        link.on(VerifyReplica, lambda command, _: self._server.look_at(command))
        link.on(DeleteDamaged, lambda command, _: self._server.look_at(command))
        link.on(RegisterAgain, lambda _, __: self._register())
        return link

    def _renewed(self) -> None:
        """The NameNode may be another process, which knows of no replica yet."""
        self.registered = False
        self._register()

    def _register(self) -> None:
        try:
            held = self._server.held()
        except OSError as error:
            log.warning("the nodes' replicas cannot be listed now: %s", error)
            self._transport.reactor.call_later(_TRY_AGAIN_S, self._register)
            return
        message = RegisterDataNode(rack=self._rack, pid=os.getpid(), nodes=held)
        self._namenode.request(message, Done, self._on_registered)

    def _on_registered(self, answer: Done | Refusal | PeerLost, _: memoryview | None) -> None:
        self.registered = isinstance(answer, Done)
        if not self.registered:
            log.warning("not registered: %s", answer)

    def _heartbeat(self) -> None:
        if self.registered:
            nodes = self._server.usable_nodes()
            self._namenode.send(DataNodeHeartbeat(rack=self._rack, nodes=nodes))

    def _report(self, fact: Event | BlockReport) -> None:
        self._namenode.send(fact)


def main(daemon: Daemon) -> None:
    """Serve the nodes of the rack named at the end of ``daemon.name`` ("datanode-r0")."""
    keep_freed_memory()
    take_priority(CARRIER)
    transport = Transport.of(daemon)
    stop_on_sigterm(transport.reactor)
    transport.reactor.call_every(RETURN_PERIOD_S, return_freed_memory)
    network = NetworkClient(transport, daemon.config.topology)
    node = DataNode(
        transport, daemon.config, RackId(daemon.name.removeprefix("datanode-")), network
    )
    if transport.reactor.run_until(lambda: node.registered, timeout_s=30.0):
        daemon.ready()
    transport.reactor.run()
    transport.close()
