"""With real DataNodes: damage is found and repaired; an unreadable replica is not damaged."""

from __future__ import annotations

import contextlib
import errno
import random
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
import requests

import railyard.gateway.process
from railyard.cluster.ids import rack_of
from railyard.cluster.topologyfile import Client
from railyard.dfs.messages import ReplicaFailed
from railyard.dfs.namenode import datanodes as doubts
from railyard.dfs.reader import BlockUnavailable
from railyard.gateway.address import known_url
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from tests.dfs.conftest import Dfs, small_topology
from tests.waiting import wait_for

DATA = random.Random(1).randbytes(350_000)


def content(client, path):
    return b"".join(client.read(path))


def replicas(cluster, location):
    return [cluster.block_file(node, location.block) for node in location.nodes]


def bytes_or_none(path):
    """The file's bytes; None once it is gone: a DataNode may drop it at any moment."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def take_descriptors(cluster, *names):
    """Lower these daemons' limit on open files to the number that they have open."""
    for name in names:
        pid = cluster.pids[name]
        used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        lowest_free = next(n for n in range(len(used) + 1) if n not in used)
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, hard))


def give_descriptors(cluster, *names):
    for name in names:
        hard = resource.prlimit(cluster.pids[name], resource.RLIMIT_NOFILE)[1]
        resource.prlimit(cluster.pids[name], resource.RLIMIT_NOFILE, (hard, hard))


def test_descriptors_that_run_out_during_a_read_cost_no_replica(start_dfs, monkeypatch):
    monkeypatch.setattr(doubts, "VERIFY_AGAIN_S", 0.3)  # the daemons inherit it
    cluster = start_dfs(racks=3, nodes=1, replication=3, block=400_000, block_report=0.2)
    client, datanodes = cluster.client(), [f"datanode-r{rack}" for rack in range(3)]
    for number in range(9):  # so that it has a connection to each of them
        client.write(f"/f{number}", [DATA])
    (location,) = client.locations("/f0")
    take_descriptors(cluster, *datanodes)
    with pytest.raises(BlockUnavailable, match="Too many open files"):
        content(client, "/f0")
    assert client.check().healthy, "none was reported"
    liar = cluster.transport().link("namenode")
    for node in location.nodes:
        liar.send(ReplicaFailed(block=location.block, node=node, reason="I could not read it"))
    wait_for(lambda: client.check().missing, why="what was said of them to be looked into")
    assert client.locations("/f0")[0].nodes == ()
    assert set(client.locations("/f0")[0].doubtful) == set(location.nodes)
    give_descriptors(cluster, *datanodes)
    assert content(client, "/f0") == DATA, "what is in doubt is read all the same"
    wait_for(lambda: client.check().healthy, why="the doubts to be settled")
    assert client.locations("/f0")[0].nodes == location.nodes
    assert all(path.exists() for path in replicas(cluster, location))


def test_one_datanode_without_descriptors_is_read_around_without_blame(start_dfs):
    cluster = start_dfs(racks=2, nodes=1, replication=2, block=400_000)
    client = cluster.client()
    for number in range(6):
        client.write(f"/f{number}", [DATA])
    take_descriptors(cluster, "datanode-r0")
    for number in range(6):
        assert content(client, f"/f{number}") == DATA
    assert client.check().healthy


def test_a_reader_without_descriptors_goes_on_with_those_it_has(start_dfs, monkeypatch):
    cluster = start_dfs(racks=2, nodes=1, replication=2, block=400_000)
    client = cluster.client("r0n0")
    client.write("/f", [DATA])
    reader, refused = cluster.client(), []
    link = reader._transport.link

    def one_link_too_many(name, *given, **options):
        if name.startswith("datanode") and not refused:
            refused.append(name)
            raise OSError(errno.EMFILE, "Too many open files")
        return link(name, *given, **options)

    monkeypatch.setattr(reader._transport, "link", one_link_too_many)
    assert content(reader, "/f") == DATA
    assert refused
    assert client.check().healthy


def test_readers_that_lie_cost_no_replica(start_dfs):
    cluster = start_dfs(racks=3, nodes=1, replication=3, block=400_000)
    client = cluster.client()
    client.write("/f", [DATA])
    (location,) = client.locations("/f")
    liar = cluster.transport().link("namenode")
    for _ in range(3):
        for node in location.nodes:
            liar.send(ReplicaFailed(block=location.block, node=node, reason="lie"))
    wait_for(lambda: client.check().healthy, why="the DataNodes to have looked")
    assert content(client, "/f") == DATA
    now = client.locations("/f")[0]  # the last lies may have come only after that
    assert {*now.nodes, *now.doubtful} == {*location.nodes}


def test_damage_is_found_though_nobody_reads(start_dfs):
    cluster = start_dfs(racks=3, nodes=1, replication=2, block=400_000, scan_period=0.5)
    client = cluster.client()
    client.write("/f", [DATA])
    (location,) = client.locations("/f")
    bad = replicas(cluster, location)[0]
    spoiled = bytearray(bad.read_bytes())
    spoiled[300_000] ^= 1
    bad.write_bytes(spoiled)
    wait_for(lambda: bytes_or_none(bad) != spoiled, why="the damage to be found")
    wait_for(lambda: client.check().healthy, why="a new replica")
    assert content(client, "/f") == DATA


@pytest.mark.parametrize("lost", [1, 3])
def test_replicas_deleted_by_hand_are_noticed(start_dfs, monkeypatch, lost):
    monkeypatch.setattr(doubts, "VERIFY_AGAIN_S", 0.3)  # the daemons inherit it
    cluster = start_dfs(racks=3, nodes=2, replication=3, block=400_000, block_report=0.3)
    client = cluster.client()
    client.write("/f", [DATA])
    (location,) = client.locations("/f")
    paths = replicas(cluster, location)
    kept = paths[0].read_bytes()
    with stopped_datanodes(cluster):  # or one of them makes a copy before the last is gone
        for path in paths[:lost]:
            path.unlink()
    if lost == 3:
        wait_for(lambda: all(len(t.corrupt) == 3 for t in missing(client)), why="all to be missed")
        paths[0].write_bytes(kept)  # the user had a copy
    if lost == 1:
        wait_for(lambda: len(held(cluster, location.block)) == 3, why="a new replica")
    wait_for(lambda: client.check().healthy, why="fsck to be content")
    assert len(held(cluster, location.block)) == 3
    assert content(client, "/f") == DATA


@contextlib.contextmanager
def stopped_datanodes(cluster):
    pids = [pid for name, pid in cluster.pids.items() if name.startswith("datanode")]
    datanodes = [psutil.Process(pid) for pid in pids]
    for datanode in datanodes:
        datanode.suspend()
    wait_for(lambda: all(each.status() == psutil.STATUS_STOPPED for each in datanodes))
    yield
    for datanode in datanodes:
        datanode.resume()


def missing(client):
    wait_for(lambda: client.check().missing, why="fsck to say so")
    return client.check().missing


def held(cluster, block):
    return list(cluster.folder.path.glob(f"nodes/*/blocks/b{block}"))


def test_blocks_that_come_and_go_while_reports_are_made_stay_healthy(start_dfs):
    cluster = start_dfs(racks=2, nodes=2, replication=2, block=20_000, block_report=0.02)
    client = cluster.client("r0n0")
    for number in range(15):
        client.write(f"/f{number}", [DATA[:100_000]])
        if number % 3 == 0:
            client.remove(f"/f{number}")
    wait_for(lambda: client.check().healthy, why="no doubts to be left")
    for number in range(15):
        if number % 3:
            assert content(client, f"/f{number}") == DATA[:100_000]
    wait_for(lambda: len(held(cluster, "*")) == 10 * 5 * 2, why="all replicas are there")
    assert {rack_of(node) for node in client.locations("/f1")[0].nodes} == {"r0", "r1"}


# The link of clients outside the racks: what they write and read takes its time on it.


SENT = random.Random(4).randbytes(1_000_000)
#: Times count to the end of the last flow, exactly but for this.
ROUNDING_S = 1e-9


@pytest.fixture(scope="module")
def dfs() -> Iterator[Dfs]:
    """2 racks of 2 nodes without limits; clients write at 10 MB/s and read at 20 MB/s."""
    topology = msgspec.structs.replace(small_topology(), client=Client(uplink=10e6, downlink=20e6))
    with tempfile.TemporaryDirectory(prefix="ry-") as parent:
        mains = {"gateway": railyard.gateway.process.main}
        with Dfs(Path(parent), topology, "fast", **mains) as dfs:
            yield dfs


def stats(dfs: Dfs) -> NetworkStats:
    return dfs.transport().link("network").call(GetNetworkStats(), NetworkStats)


def test_a_client_of_our_own_waits_for_its_link(dfs):
    before, client = stats(dfs), dfs.client()
    client.write("/own", [SENT])
    written = stats(dfs)
    carried = written.bytes["client"] - before.bytes.get("client", 0)
    assert carried == len(SENT)  # the second replicas go from node to node
    assert written.active_s - before.active_s >= len(SENT) / 10e6 - ROUNDING_S
    # ten blocks, each with a flow from the client and one to its second node
    assert written.flows_finished - before.flows_finished == 20
    assert b"".join(client.read("/own")) == SENT
    read = stats(dfs)
    assert read.bytes["client"] - written.bytes["client"] == len(SENT)
    assert read.active_s - written.active_s >= len(SENT) / 20e6 - ROUNDING_S
    assert read.bytes["cross_rack"] == written.bytes["cross_rack"]


def test_so_does_one_of_the_gateways(dfs):
    where = f"{known_url(dfs.folder)}/webhdfs/v1/web"
    before = stats(dfs)
    sent = requests.put(f"{where}?op=CREATE&data=true", data=SENT)
    assert sent.status_code == 201
    assert requests.get(f"{where}?op=OPEN").content == SENT
    after = stats(dfs)
    assert after.bytes["client"] - before.bytes.get("client", 0) == 2 * len(SENT)
    least_s = len(SENT) / 10e6 + len(SENT) / 20e6
    assert after.active_s - before.active_s >= least_s - ROUNDING_S


def test_a_node_reads_as_ever(dfs):
    dfs.client().write("/node", [SENT[:1000]])
    before = stats(dfs)
    assert b"".join(dfs.client("r0n0").read("/node")) == SENT[:1000]
    assert stats(dfs).bytes["client"] == before.bytes["client"]
