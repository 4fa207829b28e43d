"""The shuffle service: sends map output of a rack's nodes to the attempts that fetch it.

A fetch is one partition of any number of one node's outputs, sent as one stream: read from the
files as the network emulator grants its flow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from railyard.cluster.bounded import REASON_LETTERS_MAX
from railyard.cluster.errors import PeerError
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, job_of
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.shown import shortened
from railyard.netemu.client.client import NetworkClient
from railyard.netemu.client.switchboard import ServerTransfers
from railyard.nodemanager.mapoutput import (
    MapOutput,
    OutputDamaged,
    OutputUnreadable,
    Part,
    PartsSource,
    output_path,
)
from railyard.nodemanager.messages import OutputPart, OutputsFound, ReadOutputs

log = logging.getLogger(__name__)


class ShuffleService:
    """Answers ``ReadOutputs`` on a NodeManager's server."""

    def __init__(
        self,
        server: Server,
        reactor: Reactor,
        network: NetworkClient,
        folder: RunFolder,
        nodes: frozenset[NodeId],
    ) -> None:
        self._server = server
        self._transfers = ServerTransfers(server, reactor)
        self._network = network
        self._folder = folder
        self._nodes = nodes
        self._indexes: dict[AttemptId, MapOutput] = {}
        self._sending: dict[FlowId, tuple[JobId, bytes]] = {}  #: {flow: its job, its reader}
        server.on(ReadOutputs, self._read)

    def discard(self, job: JobId) -> None:
        """Forget a job's output and stop sending it."""
        for attempt in [attempt for attempt in self._indexes if job_of(attempt) == job]:
            del self._indexes[attempt]
        for flow, (sent_job, peer) in list(self._sending.items()):
            if sent_job == job:
                self._transfers.with_peer(peer).drop(flow)
                self._end(flow)

    def _read(self, request: Request) -> None:
        """Answer with what is found, and begin to send it.

        Raises ``PeerError`` for nodes, attempts and partitions that do not exist, and for what
        cannot be read just now.
        """
        order = request.message
        assert isinstance(order, ReadOutputs)
        if order.src not in self._nodes:
            raise PeerError(f"{order.src} is no node of {self._server.name}")
        if order.flow in self._sending:
            raise PeerError(f"flow {order.flow}: is being sent already")
        if not order.outputs:
            raise PeerError(f"flow {order.flow}: asks for no output")
        found = self._look_up(order)
        if isinstance(found, OutputsFound):
            self._server.reply(request, found)
            return
        parts = tuple(OutputPart(part.stored_bytes, part.checksum) for part in found)
        self._server.reply(request, OutputsFound(parts=parts))  # before the first chunk
        self._send(order, request.peer, found)

    def _look_up(self, order: ReadOutputs) -> list[Part] | OutputsFound:
        """The part of each output that is asked for; or which outputs are lost, and why."""
        found: list[Part] = []
        lost: dict[AttemptId, str] = {}
        for attempt in order.outputs:
            try:
                found.append(self._output(order.src, attempt).part(order.partition))
            except OutputDamaged as error:
                log.warning("%s", error)
                lost[attempt] = str(error)
            except OutputUnreadable as error:
                raise PeerError(str(error)) from None
        if lost:
            reason = shortened("; ".join(lost.values()), REASON_LETTERS_MAX)
            return OutputsFound(lost=tuple(lost), reason=reason)
        return found

    def _output(self, node: NodeId, attempt: AttemptId) -> MapOutput:
        """The index of a map's output, read already or anew."""
        path = output_path(self._folder, node, attempt)
        known = self._indexes.get(attempt)
        if known is None or not known.is_still(path):
            self._indexes.pop(attempt, None)
            known = self._indexes[attempt] = MapOutput(path)
        return known

    def _send(self, order: ReadOutputs, peer: bytes, parts: Sequence[Part]) -> None:
        flow = order.flow
        transfer = self._transfers.with_peer(peer).outgoing(
            flow,
            PartsSource(parts),
            on_done=lambda: self._end(flow),
            on_failed=lambda reason: self._break_off(flow, reason),
        )
        self._sending[flow] = (job_of(order.outputs[0]), peer)
        self._network.attach(flow, transfer.total, transfer.allow, transfer.fail)

    def _break_off(self, flow: FlowId, reason: str) -> None:
        log.warning("flow %s broke off: %s", flow, reason)
        self._end(flow)

    def _end(self, flow: FlowId) -> None:
        self._sending.pop(flow, None)
        self._network.cancel(flow)
