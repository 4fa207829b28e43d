"""The DataNode: serves a rack's blocks, and carries out the NameNode's commands.

Decides nothing: clients request reads and writes, the NameNode commands copies and deletes.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError, PeerLost
from railyard.cluster.files import Durability, sync_folder
from railyard.cluster.ids import OUTSIDE, FlowId, NodeId, RackId
from railyard.cluster.machine import (
    CARRIER,
    RETURN_PERIOD_S,
    keep_freed_memory,
    return_freed_memory,
    take_priority,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Background
from railyard.cluster.messaging.transport import Request, Transport
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.cluster.processes import stop_on_sigterm
from railyard.cluster.topology import Topology
from railyard.dfs.blockfile import (
    BlockWriter,
    ReplicaDamaged,
    ReplicaError,
    blocks_folder,
    pack_sums,
    unpack_sums,
)
from railyard.dfs.datanode.scanner import Scanner, report_blocks
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.datanode.transfers import BlockReceiver, BlockSource
from railyard.dfs.messages import (
    BlockId,
    BlockReplicated,
    BlockWritten,
    DataNodeHeartbeat,
    DeleteReplicas,
    ReadBlock,
    RegisterAgain,
    RegisterDataNode,
    ReplicaFailed,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    VerifyReplica,
    WriteBlock,
)
from railyard.dfs.peers import OutgoingBlock, Peers
from railyard.netemu.client import NetworkClient
from railyard.netemu.transfers import OutgoingTransfer, ServerTransfers

log = logging.getLogger(__name__)

#: Threads that sync blocks: the file system commits the syncs of several together.
_SYNCS = 4
_TRY_AGAIN_S = 0.5


class DataNode:
    """The server ``datanode-RACK``; registers, again with a NameNode that is restarted."""

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        rack: RackId,
        network: NetworkClient | None,
        durability: Durability = "fast",
    ) -> None:
        self.registered = False
        self._reactor = transport.reactor
        self._rack = rack
        self._network = network
        self._namenode = link = LastingLink(transport, "namenode", on_renewed=self._register)
        self._report = link.send
        #: the other end of flows to clients outside the racks; None: they are not limited
        self._outside = None if topology.client_link is None else OUTSIDE
        self._block_bytes = topology.stored_block_bytes
        self._nodes = {node.id: node.rack for node in topology.nodes()}
        self._stores = {
            node: BlockStore(blocks_folder(transport.folder, node))
            for node, in_rack in self._nodes.items()
            if in_rack == rack
        }
        self._scanner = Scanner(transport.reactor, self._stores, topology.storage, link.send)
        self._syncing = Background(transport.reactor, _SYNCS) if durability == "safe" else None
        self._receiving: dict[BlockReceiver, None] = {}
        #: {outgoing transfer: node of the replica it reads}
        self._sending: dict[OutgoingTransfer, NodeId] = {}
        if self._syncing is not None:
            self._syncing.do(self._sync_folders, lambda _: None)
        self._peers = Peers(transport, f"datanode-{rack}")
        self._server = transport.server(f"datanode-{rack}")
        self._server.on(WriteBlock, self._write_block)
        self._server.on(ReadBlock, self._read_block)
        self._transfers = ServerTransfers(self._server, transport.reactor)
        report_blocks(transport.reactor, self._stores, topology.liveness.block_report, link.send)
        link.on(ReplicateBlock, lambda command, _: self.replicate(command))
        link.on(DeleteReplicas, lambda command, _: self.delete(command))
        link.on(VerifyReplica, lambda command, _: self._scanner.verify(command))
        link.on(RegisterAgain, lambda *_: self._register())
        self._reactor.call_every(topology.liveness.heartbeat, self._heartbeat)
        self._register()

    # Nodes -----------------------------------------------------------------------------------
    def _register(self) -> None:
        self.registered = False  # the NameNode may be another process, which knows of no replica
        try:
            held = {node: self._stores[node].held() for node in self._usable_nodes()}
        except OSError as error:
            log.warning("the nodes' replicas cannot be listed now: %s", error)
            self._reactor.call_later(_TRY_AGAIN_S, self._register)
            return

        def answered(answer: Done | Refusal | PeerLost, _: memoryview | None) -> None:
            self.registered = isinstance(answer, Done)
            if not self.registered:
                log.warning("not registered: %s", answer)

        message = RegisterDataNode(rack=self._rack, pid=os.getpid(), nodes=held)
        self._namenode.request(message, Done, answered)

    def _heartbeat(self) -> None:
        if self.registered:
            self._namenode.send(DataNodeHeartbeat(rack=self._rack, nodes=self._usable_nodes()))

    def _usable_nodes(self) -> tuple[NodeId, ...]:
        """The nodes that still have their disk; a node that lost it does not come back."""
        for node in [node for node, store in self._stores.items() if not store.exists]:
            log.warning("%s is lost: its disk is gone", node)
            del self._stores[node]
            for receiver in [r for r in self._receiving if r.node == node]:
                receiver.abort(f"{node} is lost")
            for transfer in [t for t, of in self._sending.items() if of == node]:
                transfer.fail(f"{node} is lost")
        return tuple(self._stores)

    def _store(self, node: NodeId) -> BlockStore:
        store = self._stores.get(node)
        if store is None:
            raise PeerError(f"{node} is not one of this DataNode's nodes, or is lost")
        return store

    # Writing ---------------------------------------------------------------------------------
    def _write_block(self, request: Request[WriteBlock]) -> None:
        message = request.message
        self._check_write(message)
        length, node, following = message.stored_length, message.nodes[0], message.nodes[1:]
        store = self._store(node)
        sums = unpack_sums(request.payload, 0, length)
        writer = store.create(message.block, length, sums)

        def ended(answer: BlockWritten | Refusal) -> None:
            del self._receiving[receiver]
            self._server.reply(request, answer)

        receiver = BlockReceiver(node, message.block, writer, self._publish, ended)
        try:
            receiver.transfer = self._transfers.with_peer(request.peer).incoming(
                message.transfer,
                take=receiver.take,
                on_done=receiver.done,
                on_failed=receiver.failed,
                stored_total=length,
            )
        except PeerError:
            writer.abort()
            raise
        self._receiving[receiver] = None
        if following:
            block, packed = message.block, pack_sums(sums)
            start = functools.partial(
                OutgoingBlock, self._peers, self._network, node, block, length, packed, following
            )
            receiver.pass_on(start)

    def _publish(self, writer: BlockWriter, on_end: Callable[[OSError | None], None]) -> None:
        if self._syncing is not None:
            self._syncing.do(lambda: writer.publish(lasting=True), on_end)
            return
        try:
            writer.publish()
        except OSError as error:
            on_end(error)
        else:
            on_end(None)

    def _sync_folders(self) -> None:
        stores = tuple(self._stores.values())
        try:
            for folder in {each for store in stores for each in store.folder.parents[:3]}:
                sync_folder(folder)
        except OSError as error:
            log.warning("the nodes' folders cannot be synced: %s", error.strerror)

    def _check_write(self, message: WriteBlock) -> None:
        nodes = message.nodes
        if not nodes or len(set(nodes)) < len(nodes) or not set(nodes) <= set(self._nodes):
            raise PeerError(f"nodes = {nodes}: need nodes of the cluster, each once")
        if not 0 < message.stored_length <= self._block_bytes:
            right = f"1 to {self._block_bytes}"
            raise PeerError(f"block {message.block} of {message.stored_length} bytes: need {right}")

    # Reading ---------------------------------------------------------------------------------
    def _read_block(self, request: Request[ReadBlock]) -> None:
        message = request.message
        if message.reader is not None and message.reader not in self._nodes:
            raise PeerError(f"{message.reader!r} is not a node of this cluster")
        node, length = message.node, message.stored_length
        store = self._store(node)
        report = functools.partial(self._report_if_damaged, node, message.block)
        try:
            source = BlockSource(store, message.block, message.stored_offset, length, report)
        except ReplicaError as error:
            report(error)
            raise PeerError(str(error)) from None
        flow = FlowId(message.transfer)

        def ended(_reason: str = "") -> None:
            self._sending.pop(transfer, None)
            if self._network is not None:
                self._network.cancel(flow)

        try:
            transfer = self._transfers.with_peer(request.peer).outgoing(
                message.transfer, source, on_done=ended, on_failed=ended
            )
        except PeerError:
            source.close()
            raise
        self._sending[transfer] = node
        self._server.reply(request, Done(), source.packed_sums)
        reader = message.reader or self._outside
        if self._network is None or reader is None:
            transfer.allow(length)
        else:
            self._network.open(
                flow, node, reader, length, on_grant=transfer.allow, on_refused=transfer.fail
            )

    # Commands of the NameNode ------------------------------------------------------------------
    def replicate(self, command: ReplicateBlock) -> None:
        block, node, target = command.block, command.source, command.target
        length = command.stored_length

        def failed(reason: str) -> None:
            self._report(ReplicationFailed(block=block, source=node, target=target, reason=reason))

        def ended(answer: BlockWritten) -> None:
            if target in answer.nodes:
                self._report(BlockReplicated(block=block, target=target, stored_length=length))
            else:
                failed(answer.reason)

        def report(error: ReplicaError) -> None:
            """So that the NameNode takes another source."""
            self._report_if_damaged(node, block, error)
            if not isinstance(error, ReplicaDamaged):  # report it too, or it would be chosen again
                self._report(
                    ReplicaVerified(block=block, node=node, found="unreadable", reason=str(error))
                )

        try:
            source = BlockSource(self._store(node), block, 0, length, report)
        except (ReplicaError, PeerError) as error:
            failed(str(error))
            if isinstance(error, ReplicaError):
                report(error)
            return
        sums = source.packed_sums
        try:
            OutgoingBlock(
                self._peers, self._network, node, block, length, sums, (target,), ended
            ).extend(source)
        except PeerError as error:
            source.close()
            failed(str(error))

    def delete(self, command: DeleteReplicas) -> None:
        store = self._stores.get(command.node)
        if store is None:
            return
        unwanted = set(command.blocks)
        for receiver in list(self._receiving):
            if receiver.node == command.node and receiver.block in unwanted:
                receiver.abort(f"block {receiver.block} is not wanted any more")
        deleted: list[BlockId] = []
        for block in command.blocks:
            try:
                store.delete(block)
            except OSError as error:
                log.warning("block %d stays on %s: %s", block, command.node, error.strerror)
            else:
                deleted.append(block)
        self._report(ReplicasDeleted(node=command.node, blocks=tuple(deleted)))

    def _report_if_damaged(self, node: NodeId, block: BlockId, error: ReplicaError) -> None:
        log.warning("%s", error)
        if isinstance(error, ReplicaDamaged):
            self._report(ReplicaFailed(block=block, node=node, reason=str(error)))


def main(daemon: Daemon) -> None:
    """Serve the nodes of the rack named at the end of ``daemon.name`` ("datanode-r0")."""
    keep_freed_memory()
    take_priority(CARRIER)
    transport = Transport.of(daemon)
    stop_on_sigterm(transport.reactor)
    transport.reactor.call_every(RETURN_PERIOD_S, return_freed_memory)
    network = NetworkClient(transport, daemon.config.topology)
    rack, config = RackId(daemon.name.removeprefix("datanode-")), daemon.config
    node = DataNode(transport, config.topology, rack, network, config.durability)
    if transport.reactor.run_until(lambda: node.registered, timeout_s=30.0):
        daemon.ready()
    transport.reactor.run()
    transport.close()
