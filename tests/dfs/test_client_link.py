"""The link of clients outside the racks: what they write and read takes its time on it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import requests

import railyard.gateway.main
from railyard.cluster.topologies.tables import Client
from railyard.gateway.address import known_url
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from tests.dfs.conftest import Dfs, small_topology

DATA = random.Random(4).randbytes(1_000_000)
#: Times count to the end of the last flow, exactly but for this.
ROUNDING_S = 1e-9


@pytest.fixture(scope="module")
def dfs() -> Iterator[Dfs]:
    """2 racks of 2 nodes without limits; clients write at 10 MB/s and read at 20 MB/s."""
    topology = msgspec.structs.replace(small_topology(), client=Client(uplink=10e6, downlink=20e6))
    with tempfile.TemporaryDirectory(prefix="ry-") as parent:
        mains = {"gateway": railyard.gateway.main.main}
        with Dfs(Path(parent), topology, "fast", **mains) as dfs:
            yield dfs


def stats(dfs: Dfs) -> NetworkStats:
    return dfs.transport().link("network").call(GetNetworkStats(), NetworkStats)


def test_a_client_of_our_own_waits_for_its_link(dfs):
    before, client = stats(dfs), dfs.client()
    client.write("/own", [DATA])
    written = stats(dfs)
    carried = written.bytes["client"] - before.bytes.get("client", 0)
    assert carried == len(DATA)  # the second replicas go from node to node
    assert written.active_s - before.active_s >= len(DATA) / 10e6 - ROUNDING_S
    # ten blocks, each with a flow from the client and one to its second node
    assert written.flows_finished - before.flows_finished == 20
    assert b"".join(client.read("/own")) == DATA
    read = stats(dfs)
    assert read.bytes["client"] - written.bytes["client"] == len(DATA)
    assert read.active_s - written.active_s >= len(DATA) / 20e6 - ROUNDING_S
    assert read.bytes["cross_rack"] == written.bytes["cross_rack"]


def test_so_does_one_of_the_gateways(dfs):
    where = f"{known_url(dfs.folder)}/webhdfs/v1/web"
    before = stats(dfs)
    sent = requests.put(f"{where}?op=CREATE&data=true", data=DATA)
    assert sent.status_code == 201
    assert requests.get(f"{where}?op=OPEN").content == DATA
    after = stats(dfs)
    assert after.bytes["client"] - before.bytes.get("client", 0) == 2 * len(DATA)
    least_s = len(DATA) / 10e6 + len(DATA) / 20e6
    assert after.active_s - before.active_s >= least_s - ROUNDING_S


def test_a_node_reads_as_ever(dfs):
    dfs.client().write("/node", [DATA[:1000]])
    before = stats(dfs)
    assert b"".join(dfs.client("r0n0").read("/node")) == DATA[:1000]
    assert stats(dfs).bytes["client"] == before.bytes["client"]
