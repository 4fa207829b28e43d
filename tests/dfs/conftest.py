from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import railyard.dfs.datanode.process
import railyard.dfs.namenode.process
import railyard.netemu.emulator.process
from railyard.cluster.config import ClusterConfig
from railyard.cluster.files import Durability
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, Liveness, RackShape, Storage
from railyard.dfs.client import DfsClient
from railyard.netemu.client import NetworkClient
from tests.cluster_fixture import Main, MiniCluster

INF = float("inf")


def small_topology(
    racks: int = 2,
    nodes: int = 2,
    block: int = 100_000,
    replication: int = 2,
    nic: float = INF,
    scan_period: float = 600.0,
    block_report: float = 30.0,
) -> Topology:
    return Topology(
        name="small",
        racks=RackShape(count=racks, nodes=nodes),
        links=Links(nic=nic, uplink=nic),
        storage=Storage(
            block=block, replication=replication, scan_period=scan_period, scan_rate=INF
        ),
        # Long enough for a busy machine: nothing is lost that was not killed.
        liveness=Liveness(heartbeat=0.1, expiry_s=2.0, block_report=block_report),
    )


class Dfs(MiniCluster):
    """NameNode, emulator and DataNodes, and clients of them."""

    def __init__(
        self, parent: Path, topology: Topology, durability: Durability, **mains: Main
    ) -> None:
        standard: dict[str, Main] = {
            "network": railyard.netemu.emulator.process.main,
            "namenode": railyard.dfs.namenode.process.main,
        }
        for rack in topology.rack_list():
            standard[f"datanode-{rack.id}"] = railyard.dfs.datanode.process.main
        other = {name.replace("_", "-"): main for name, main in mains.items()}
        config = ClusterConfig(topology=topology, durability=durability)
        super().__init__(parent, config, standard | other)
        self.topology = topology
        self.transports: list[Transport] = []

    def __exit__(self, *exc: object) -> None:
        for transport in self.transports:
            transport.close()
        super().__exit__(*exc)

    def transport(self) -> Transport:
        self.transports.append(Transport(self.folder))
        return self.transports[-1]

    def client(self, node: str | None = None) -> DfsClient:
        """A client on a node, or outside the cluster."""
        transport = self.transport()
        if node is None:
            return DfsClient(transport, self.topology)
        network = NetworkClient(transport, self.topology)
        return DfsClient(transport, self.topology, NodeId(node), network)

    def in_process(self, act: Callable[[], object]) -> int:
        """Run a function in another process; call it before this process has a client."""
        assert not self.transports, "a ZeroMQ context does not survive a fork"
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                act()
                status = 0
            finally:
                os._exit(status)
        return pid

    def block_file(self, node: str, block: int) -> Path:
        return self.folder.node(node) / "blocks" / f"b{block}"


@pytest.fixture
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    """A transport of a run folder without daemons."""
    transport = Transport(RunFolder.create(tmp_path_factory.mktemp("d")))
    yield transport
    transport.close()
    transport.folder.remove()


@pytest.fixture
def start_dfs() -> Iterator[Callable[..., Dfs]]:
    """Starts a cluster with the given topology figures; it ends after the test."""
    running: list[Dfs] = []
    with tempfile.TemporaryDirectory(prefix="ry-") as parent:

        def start(
            mains: dict[str, Main] | None = None, durability: Durability = "safe", **figures: float
        ) -> Dfs:
            cluster = Dfs(Path(parent), small_topology(**figures), durability, **(mains or {}))
            running.append(cluster)
            cluster.__enter__()
            return cluster

        yield start
        for cluster in running:
            cluster.__exit__()
