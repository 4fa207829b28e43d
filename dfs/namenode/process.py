"""The NameNode's process: sockets around the core."""

from __future__ import annotations

from cluster.config import Daemon
from cluster.ids import RackId
from cluster.priority import DECIDER, take_priority
from cluster.processes import stop_on_sigterm
from cluster.reactor import now_s
from cluster.transport import Request, Transport
from cluster.wire import Message
from dfs.messages import DataNodeHeartbeat, RegisterDataNode
from dfs.namenode.core import NameNode, Ticked
from dfs.namenode.orders import Order
from dfs.namenode.sqlite_journal import SqliteJournal


class NameNodeServer:
    """Hands messages to the core, and its orders to the DataNodes."""

    def __init__(self, transport: Transport, core: NameNode, tick_s: float) -> None:
        self._core = core
        self._datanodes: dict[RackId, bytes] = {}
        self._server = transport.server("namenode")
        for kind in core.messages:
            self._server.on(kind, self._handle)
        transport.reactor.call_every(tick_s, self._tick)

    def _handle(self, request: Request) -> Message | None:
        message = request.message
        outcome = self._core.handle(message, now_s())  # refuses racks that there are not
        if isinstance(message, RegisterDataNode | DataNodeHeartbeat):
            self._datanodes[message.rack] = request.peer
        self._send(outcome.orders)
        return outcome.reply

    def _tick(self) -> None:
        self._send(self._core.handle(Ticked(), now_s()).orders)

    def _send(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            peer = self._datanodes.get(order.rack)
            if peer is not None:
                self._server.push(peer, order.command)


def main(daemon: Daemon) -> None:
    """Serve "namenode", with the journal in the run folder."""
    take_priority(DECIDER)
    transport = Transport(daemon.folder)
    stop_on_sigterm(transport.reactor)
    config = daemon.config
    journal = SqliteJournal(daemon.folder.journal)
    core = NameNode(config.topology, journal, now_s(), seed=config.seed)
    NameNodeServer(transport, core, tick_s=config.topology.liveness.heartbeat)
    daemon.ready()
    transport.reactor.run()
    transport.close()
    journal.close()
