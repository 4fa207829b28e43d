from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dfs.datanode.process
import dfs.namenode.process
import netemu.emulator
from cluster.config import ClusterConfig
from cluster.ids import NodeId
from cluster.topology import Links, Liveness, RackShape, Storage, Topology
from cluster.transport import Transport
from dfs.client import DfsClient
from netemu.client import NetworkClient
from tests.cluster_fixture import Main, MiniCluster

INF = float("inf")


def small_topology(
    racks: int = 2, nodes: int = 2, block: int = 100_000, replication: int = 2, nic: float = INF
) -> Topology:
    return Topology(
        name="small",
        racks=RackShape(count=racks, nodes=nodes),
        links=Links(nic=nic, uplink=nic),
        storage=Storage(block=block, replication=replication),
        liveness=Liveness(heartbeat=0.1, expiry=1.0),
    )


class Dfs(MiniCluster):
    """NameNode, emulator and DataNodes, and clients of them."""

    def __init__(self, parent: Path, topology: Topology) -> None:
        mains: dict[str, Main] = {
            "network": netemu.emulator.main,
            "namenode": dfs.namenode.process.main,
        }
        for rack in topology.rack_list():
            mains[f"datanode-{rack.id}"] = dfs.datanode.process.main
        super().__init__(parent, ClusterConfig(topology=topology), mains)
        self.topology = topology
        self._transports: list[Transport] = []

    def __exit__(self, *exc: object) -> None:
        for transport in self._transports:
            transport.close()
        super().__exit__(*exc)

    def client(self, node: str | None = None) -> DfsClient:
        """A client on a node, or outside of the cluster."""
        transport = Transport(self.folder)
        self._transports.append(transport)
        if node is None:
            return DfsClient(transport, self.topology)
        network = NetworkClient(transport, self.topology)
        return DfsClient(transport, self.topology, NodeId(node), network)

    def blocks(self, node: str) -> Path:
        return self.folder.node(node) / "blocks"


@pytest.fixture
def start_dfs() -> Iterator[Callable[..., Dfs]]:
    """A cluster with the given topology figures; ended after the test."""
    running: list[Dfs] = []
    with tempfile.TemporaryDirectory(prefix="ry-", dir="/tmp") as parent:

        def start(**figures: float) -> Dfs:
            running.append(Dfs(Path(parent), small_topology(**figures)))
            return running[-1].__enter__()

        yield start
        for cluster in running:
            cluster.__exit__()
