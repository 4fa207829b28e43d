"""Addresses of the nodes' NodeManagers: each node has one of its own on the loopback.

YARN's clients know a NodeManager by host and port, without a path, so nodes can't share an address.
Linux has all of 127.0.0.0/8 on the loopback: node number 0 is 127.1.0.1, the next 127.1.0.2, all
at the gateway's port.  Nodes beyond ``NODES_MAX``, and those whose address is taken, have a path of
the gateway instead: /node/r0n1.  So do all of a gateway at another address than the loopback.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from aiohttp import web

from railyard.cluster.ids import NodeId
from railyard.cluster.topology import Topology
from railyard.gateway.address import is_loopback, listen_at

NODES_MAX = 250


def address_of(node: NodeId, addresses: Mapping[NodeId, str], gateway: str) -> str:
    """Where a node's NodeManager answers: an address of its own, or a path of the gateway's."""
    return addresses.get(node) or f"{gateway}/node/{node}"


class NodeAddresses:
    """The nodes' addresses, and the sockets that listen there."""

    def __init__(self, topology: Topology, gateway: socket.socket) -> None:
        """``gateway``: the socket at which the gateway listens."""
        self.sockets: list[socket.socket] = []
        self._hosts: dict[str, NodeId] = {}
        self.of_nodes: Mapping[NodeId, str] = {}
        if is_loopback(gateway):
            self.of_nodes = self._listen(topology, gateway.getsockname()[1])

    def node_of(self, request: web.Request) -> NodeId | None:
        """The node that a request was sent to; None if it was sent to the gateway's own address."""
        transport = request.transport
        host = transport.get_extra_info("sockname", ("",))[0] if transport is not None else ""
        return self._hosts.get(host)

    def _listen(self, topology: Topology, port: int) -> dict[NodeId, str]:
        addresses = {}
        for number, node in enumerate(topology.nodes()[:NODES_MAX]):
            host = f"127.1.0.{number + 1}"
            try:
                self.sockets.append(listen_at(host, port))
            except OSError:
                continue  # somebody else has it
            self._hosts[host] = node.id
            addresses[node.id] = f"{host}:{port}"
        return addresses
