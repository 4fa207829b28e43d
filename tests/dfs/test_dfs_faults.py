"""Dead processes, lost nodes, damaged blocks, nonsense: nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgpack
import pytest
import zmq

import railyard.dfs.datanode.process
import railyard.dfs.peers
import railyard.dfs.reader
from railyard.cluster.errors import Refused
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.transport import Describe, Description
from railyard.dfs.blockfile import CheckedRange, pack_sums, sums_of
from railyard.dfs.datanode.transfers import BlockSource
from railyard.dfs.messages import ReadBlock, WriteBlock
from railyard.dfs.peers import OutgoingBlock, Peers
from railyard.dfs.placement import nearest_first
from railyard.dfs.reader import BlockUnavailable
from railyard.dfs.writer import NoRoom
from tests.dfs.conftest import Dfs, small_topology
from tests.fulldisk import small_disk
from tests.waiting import wait_for

DATA = random.Random(1).randbytes(350_000)
#: More than a sender has under way.
LONG = random.Random(2).randbytes(12_000_000)


def content(client, path):
    return b"".join(client.read(path))


def wait_until_healthy(client):
    wait_for(lambda: client.check().healthy, why="all replicas to be there")


# Dead DataNodes ----------------------------------------------------------------------------------
def test_a_dead_datanode_is_read_around_at_once_and_made_up_for(start_dfs):
    dfs = start_dfs(racks=3, nodes=2, replication=3)
    writer = dfs.client("r0n0")
    for number in range(4):
        writer.write(f"/f{number}", [DATA])
    reader = dfs.client("r1n0")
    dfs.kill("datanode-r1")
    for number in range(4):
        assert content(reader, f"/f{number}") == DATA
    wait_for(lambda: writer.check().nodes_lost == ("r1n0", "r1n1"), why="the loss to be noticed")
    wait_until_healthy(writer)
    for number in range(4):
        for location in writer.locations(f"/f{number}"):
            assert len({rack_of(node) for node in location.nodes}) == 2
            assert "r1" not in {rack_of(node) for node in location.nodes}
    dfs.kill("datanode-r0")
    assert content(dfs.client(), "/f3") == DATA
    dfs.start("datanode-r1", "datanode-r0")
    wait_until_healthy(writer)
    wait_for(lambda: writer.check().over_replicated == 0, why="surplus replicas to go")


def test_a_datanode_that_dies_in_the_middle_of_a_read(start_dfs):
    dfs = start_dfs(racks=3, nodes=1, replication=2, nic=1e6, block=600_000)
    dfs.client("r0n0").write("/f", [DATA])
    (location,) = dfs.client().locations("/f")
    reader = dfs.client("r1n0" if "r1n0" not in location.nodes else "r2n0")
    pieces = reader.read("/f")
    got = bytes(next(pieces))
    assert len(got) < len(DATA)
    for node in location.nodes[:1]:
        dfs.kill(f"datanode-{rack_of(node)}")
    assert got + b"".join(pieces) == DATA


@pytest.mark.parametrize("victim", ["datanode-r0", "datanode-r1", "datanode-r2"])
def test_a_datanode_that_dies_in_the_middle_of_a_write(start_dfs, victim):
    dfs = start_dfs(racks=4, nodes=2, replication=3, nic=1e6)
    client = dfs.client("r0n0")

    def data():
        for number in range(10):
            if number == 5:
                dfs.kill(victim)
            yield bytes([number]) * 100_000

    client.write("/f", data())
    assert content(client, "/f") == b"".join(bytes([n]) * 100_000 for n in range(10))
    wait_until_healthy(client)


@pytest.mark.parametrize("victim", ["r1", "r2"])
def test_a_datanode_that_freezes_in_the_middle_of_a_write(start_dfs, monkeypatch, victim):
    monkeypatch.setattr(railyard.dfs.peers, "STALLED_S", 0.7)  # the daemons inherit it
    cluster = start_dfs(racks=4, nodes=2, replication=3, nic=1e6)
    client = cluster.client("r0n0")
    pid = cluster.pids[f"datanode-{victim}"]

    def data():
        for number in range(10):
            if number == 5:
                os.kill(pid, signal.SIGSTOP)
            yield bytes([number]) * 100_000

    try:
        client.write("/f", data())
        assert content(client, "/f") == b"".join(bytes([n]) * 100_000 for n in range(10))
        wait_until_healthy(client)
    finally:
        os.kill(pid, signal.SIGCONT)


# Lost nodes --------------------------------------------------------------------------------------
def test_a_node_is_lost_alone(start_dfs):
    dfs = start_dfs(racks=2, nodes=3, replication=3)
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    shutil.rmtree(dfs.folder.node("r0n0"))
    reader = dfs.client("r0n1")
    assert content(reader, "/f") == DATA
    wait_for(lambda: reader.check().nodes_lost == ("r0n0",), why="the loss to be noticed")
    wait_until_healthy(reader)
    for location in reader.locations("/f"):
        assert "r0n0" not in location.nodes
        files = {dfs.block_file(node, location.block).read_bytes() for node in location.nodes}
        assert len(files) == 1, "replicas have the very same checksums"
    reader.write("/g", [DATA])
    assert content(reader, "/g") == DATA


def test_a_disk_that_is_full(start_dfs):
    def small_disk(daemon):
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        railyard.dfs.datanode.process.main(daemon)

    cluster = start_dfs(racks=2, nodes=2, replication=2, mains={"datanode_r0": small_disk})
    client = cluster.client("r0n0")
    client.write("/f", [DATA])
    assert content(client, "/f") == DATA
    for location in client.locations("/f"):
        assert {rack_of(node) for node in location.nodes} == {"r1"}
    client.write("/small", [b"fits"])
    assert "r0n0" in client.locations("/small")[0].nodes
    assert not list(cluster.folder.path.glob("nodes/r0n*/blocks/*.part"))


def test_no_disk_takes_it(start_dfs):
    def small_disk(daemon):
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        railyard.dfs.datanode.process.main(daemon)

    small = {"datanode_r0": small_disk, "datanode_r1": small_disk}
    client = start_dfs(racks=2, nodes=2, replication=2, mains=small).client("r0n0")
    with pytest.raises(
        Refused, match=r"/f: a block could not be written .*a file would be larger than the limit"
    ):
        client.write("/f", [DATA])
    assert not client.exists("/f")


# Damaged blocks ----------------------------------------------------------------------------------
def damage(path, how):
    if how == "flipped":
        changed = bytearray(path.read_bytes())
        changed[70_000] ^= 0xFF
        path.write_bytes(changed)
    elif how == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "gone":
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "short", "gone"])
@pytest.mark.parametrize("reader", ["r0n0", "r0n1", None])
def test_a_damaged_replica_is_read_around_and_replaced(start_dfs, how, reader):
    dfs = start_dfs(racks=2, nodes=2, replication=2, block=400_000)
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    (location,) = client.locations("/f")
    damage(dfs.block_file("r0n0", location.block), how)
    reader = dfs.client(reader)

    def bad_is_known():
        assert content(reader, "/f") == DATA
        return "r0n0" not in client.locations("/f")[0].nodes

    wait_for(bad_is_known, why="the bad replica to be reported")  # a reader may choose the good one
    wait_until_healthy(client)
    assert "r0n0" not in client.locations("/f")[0].nodes
    wait_for(lambda: not dfs.block_file("r0n0", location.block).exists(), why="the bad one to go")


def test_no_sound_replica_is_left(start_dfs):
    dfs = start_dfs(racks=2, nodes=1, replication=2, block=400_000)
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    (location,) = client.locations("/f")
    for node in location.nodes:
        damage(dfs.block_file(node, location.block), "flipped")
    with pytest.raises(BlockUnavailable, match=r"/f: bytes 0 to 350000 .*wrong checksum at 65536"):
        content(client, "/f")
    report = client.check()
    assert not report.healthy
    assert report.missing[0].path == "/f"
    assert len(report.missing[0].corrupt) >= 1


# Blocks that change while they are read ---------------------------------------------------------
def change(path, how):
    if how == "cut short":
        os.truncate(path, 100_000)
    else:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size - 100_000))


def test_a_replica_that_comes_slowly_is_not_given_up(start_dfs, monkeypatch):
    cluster = start_dfs(racks=2, nodes=1, replication=1, nic=5e4)
    cluster.client("r0n0").write("/f", [DATA[:60_000]])
    monkeypatch.setattr(
        railyard.dfs.reader, "STALLED_S", 0.6
    )  # half as long as its one piece takes
    assert content(cluster.client("r1n0"), "/f") == DATA[:60_000]


def read_on(pieces):
    """(bytes read, error that ended the reading)"""
    got = []
    try:
        got.extend(pieces)
    except BlockUnavailable as error:
        return b"".join(got), str(error)
    return b"".join(got), ""


@pytest.mark.parametrize("how", ["cut short", "overwritten"])
@pytest.mark.parametrize("reader", ["r0n0", None])
def test_a_block_that_changes_while_it_is_read(start_dfs, monkeypatch, how, reader):
    def add(checked, data):  # when the reader has the first bytes and has not said so
        if changes:
            change(changes.pop(), how)
        return real_add(checked, data)

    cluster = start_dfs(racks=2, nodes=1, replication=2, block=2**24)
    real_add, changes = CheckedRange.add, []
    monkeypatch.setattr(CheckedRange, "add", add)
    monkeypatch.setattr(railyard.dfs.reader, "RETRY_PAUSES_S", (0.1,))
    writer = cluster.client("r0n0")
    writer.write("/two", [LONG])
    writer.write("/one", [LONG], replication=1)
    file = cluster.client(reader).open("/two")
    (block,) = file._blocks
    nearest = nearest_first(reader, block.nodes, lambda _: False)[0]
    changes.append(cluster.block_file(nearest, block.block))
    assert read_on(file.stream()) == (LONG, "")  # goes on with the other replica
    (block,) = writer.locations("/one")
    changes.append(cluster.block_file("r0n0", block.block))
    got, why = read_on(cluster.client(reader).read("/one"))
    assert any(word in why for word in ("cut short at", "not that of a block", "wrong checksum"))
    assert LONG.startswith(got)
    writer.write("/after", [DATA])
    assert content(cluster.client(), "/after") == DATA
    for rack in ("r0", "r1"):
        os.kill(cluster.pids[f"datanode-{rack}"], 0)


@pytest.mark.parametrize("reader", ["r0n0", "r0n1"])
def test_block_files_that_were_swapped_are_not_taken_for_each_other(start_dfs, monkeypatch, reader):
    monkeypatch.setattr(railyard.dfs.reader, "RETRY_PAUSES_S", (0.1,))
    cluster = start_dfs(racks=1, nodes=2, replication=1, block=400_000)
    client = cluster.client("r0n0")
    client.write("/a", [DATA])
    client.write("/b", [DATA[::-1]])
    blocks = [client.locations(path)[0].block for path in ("/a", "/b")]
    a, b = (cluster.block_file("r0n0", block) for block in blocks)
    a.rename(a.with_suffix(".kept"))
    b.rename(a)
    a.with_suffix(".kept").rename(b)
    for path in ("/a", "/b"):
        with pytest.raises(BlockUnavailable, match="wrong checksum at 0"):
            content(cluster.client(reader), path)


def test_bytes_that_change_on_their_way_are_not_taken(start_dfs, monkeypatch):
    monkeypatch.setattr(railyard.dfs.reader, "RETRY_PAUSES_S", (0.1,))

    def send_wrong(source, size):
        data = bytearray(read(source, size))
        data[-1] ^= 1
        return memoryview(data)

    def liar(daemon):
        BlockSource.read = send_wrong
        railyard.dfs.datanode.process.main(daemon)

    read = BlockSource.read
    cluster = start_dfs(racks=2, nodes=1, replication=2, mains={"datanode_r0": liar})
    client = cluster.client("r0n0")
    client.write("/two", [DATA])
    client.write("/one", [DATA], replication=1)
    for _ in range(3):
        assert content(cluster.client(), "/two") == DATA
    with pytest.raises(
        BlockUnavailable, match=r"/one: .* r0n0: block \d+: wrong checksum at 65536"
    ):
        content(cluster.client(), "/one")


@pytest.mark.parametrize("wrong", ["first", "last"])
def test_bytes_that_do_not_fit_their_checksums_are_not_stored(start_dfs, wrong):
    cluster = start_dfs(racks=2, nodes=1, block=len(DATA))
    peers, answers = Peers(cluster.transport(), "test"), []
    sums = sums_of(1, [memoryview(DATA)])
    sums[0 if wrong == "first" else -1] ^= 1
    sending = OutgoingBlock(
        peers, None, None, 1, len(DATA), pack_sums(sums), ("r0n0", "r1n0"), answers.append
    )
    sending.extend(memoryview(DATA))
    assert peers.reactor.run_until(lambda: bool(answers), 10)
    assert answers[0].nodes == ()
    assert "block 1: wrong checksum at" in answers[0].reason
    files = cluster.folder.path.glob
    wait_for(lambda: not list(files("nodes/*/blocks/*")), why="what was begun to go")
    peers.close()


# A dead NameNode ---------------------------------------------------------------------------------
def test_the_namenode_is_killed_while_files_are_written(start_dfs):
    cluster = start_dfs(racks=2, nodes=2, replication=2)
    readable, writable = os.pipe()

    def write():
        os.close(go_on)
        client = cluster.client("r0n0")
        number = 0
        while os.read(may_go_on, 1):
            client.write(f"/in/f{number}", [number.to_bytes(4, "big") * 1000])
            number += 1
            os.write(writable, b".")

    may_go_on, go_on = os.pipe()
    pid = cluster.in_process(write)
    os.close(writable)
    os.close(may_go_on)
    written = 0
    for killed_after in (7, 12, 20):
        while written < killed_after:
            os.write(go_on, b".")
            written += len(os.read(readable, 1))
        os.write(go_on, b".")  # one is under way
        cluster.kill("namenode")
        cluster.start("namenode")
        written += len(os.read(readable, 1))
    os.close(go_on)
    assert os.waitpid(pid, 0)[1] == 0, "the writer notices nothing but the time"
    os.close(readable)
    client = cluster.client()
    assert len(client.list("/in")) == written == 21
    wait_until_healthy(client)
    for number in range(written):
        assert content(client, f"/in/f{number}") == number.to_bytes(4, "big") * 1000


def test_a_client_without_a_namenode_waits_for_the_next(start_dfs):
    dfs = start_dfs()
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    dfs.kill("namenode")
    with ThreadPoolExecutor(1) as thread:
        listed = thread.submit(client.list, "/")
        dfs.start("namenode")
        assert [entry.path for entry in listed.result(20)] == ["/f"]
    wait_until_healthy(client)
    assert content(client, "/f") == DATA


# Dead clients ------------------------------------------------------------------------------------
def test_a_writer_that_is_killed_leaves_no_file_and_others_go_on(start_dfs):
    dfs = start_dfs(nic=1e6)
    readable, writable = os.pipe()

    def write():
        client = dfs.client("r0n0")

        def data():
            yield DATA
            os.write(writable, b".")
            signal.pause()

        client.write("/f", data())

    pid = dfs.in_process(write)
    os.read(readable, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(readable)
    os.close(writable)
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    assert content(client, "/f") == DATA
    parts = dfs.folder.path.glob
    wait_for(lambda: not list(parts("nodes/*/blocks/*.part")), why="unfinished blocks to go")


# Nonsense ----------------------------------------------------------------------------------------
NONSENSE = [
    [],
    [b""],
    [b"\xc1"],
    [b"garbage" * 100],
    [b"x", b"y", b"z", b"w"],
    [msgpack.packb([1, {"type": "no-such-thing"}])],
    [msgpack.packb([1, {"type": "create-file"}])],
    [msgpack.packb([1, {"type": "create-file", "path": 7}])],
    [msgpack.packb([1, {"type": "add-block", "file": "x", "stored_length": 1}])],
    [msgpack.packb([1, {"type": "register-data-node", "rack": "r0", "pid": 1, "nodes": {"x": 1}}])],
    [msgpack.packb([1, {"type": "write-block", "transfer": "t", "block": -1}])],
    [msgpack.packb([2**80 % 2**63, [1, 2]])],
    [os.urandom(1000)],
]


@pytest.mark.parametrize("server", ["namenode", "datanode-r0"])
def test_nonsense_is_refused_and_counted(start_dfs, server):
    dfs = start_dfs(racks=1, nodes=1, replication=1)
    client = dfs.client("r0n0")
    client.write("/f", [DATA])
    link = dfs.transport().link(server)
    before = link.call(Describe(), Description).refused
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(f"ipc://{dfs.folder.sockets / server}")
        for frames in NONSENSE:
            socket.send_multipart(frames or [b"\x00"])
        for _ in NONSENSE:
            assert socket.poll(10_000), "every refusal is answered"
            socket.recv_multipart()
    assert link.call(Describe(), Description).refused == before + len(NONSENSE)
    assert content(client, "/f") == DATA


def test_datanodes_refuse_what_makes_no_sense(start_dfs):
    link = start_dfs(racks=2, nodes=1, replication=1).transport().link("datanode-r0")
    for message, why in [
        (WriteBlock(transfer="t", block=1, stored_length=1, nodes=()), "need nodes"),
        (WriteBlock(transfer="t", block=1, stored_length=1, nodes=("r0n0", "r0n0")), "each once"),
        (WriteBlock(transfer="t", block=1, stored_length=1, nodes=("r1n0",)), "not one of this"),
        (WriteBlock(transfer="t", block=1, stored_length=1, nodes=("../x",)), "need nodes"),
        (WriteBlock(transfer="t", block=-1, stored_length=1, nodes=("r0n0",)), r"\$\.block"),
        (WriteBlock(transfer="t", block=1, stored_length=0, nodes=("r0n0",)), "of 0 bytes"),
        (WriteBlock(transfer="t", block=1, stored_length=2**60, nodes=("r0n0",)), "need 1 to"),
        (WriteBlock(transfer="t", block=1, stored_length=1, nodes=("r0n0",)), "checksums: need 4"),
        (
            ReadBlock(transfer="t", block=99, node="r0n0", stored_offset=0, stored_length=5),
            "No such file",
        ),
        (
            ReadBlock(transfer="t", block=1, node="r9n0", stored_offset=0, stored_length=5),
            "not one of this",
        ),
        (
            ReadBlock(
                transfer="t", block=1, node="r0n0", stored_offset=0, stored_length=1, reader="x"
            ),
            "'x' is not a node",
        ),
    ]:
        with pytest.raises(Refused, match=why):
            link.call(message, Description)


# The block store on a full disk, for a moment or for good.


@pytest.fixture
def short_folder():
    """A temporary folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ry-") as folder:
        yield Path(folder)


def test_a_disk_that_is_full_for_a_moment_costs_time_only(short_folder):
    with (
        small_disk(short_folder, 4 * 2**20) as disk,
        Dfs(disk.path, small_topology(), "fast") as dfs,
    ):
        client, data = dfs.client(), bytes(range(256)) * 1000
        client.mkdir("/in")
        disk.fill()
        later = threading.Timer(0.7, disk.free)
        later.start()
        client.write("/in/a", [data])
        later.join()
        assert b"".join(client.read("/in/a")) == data


def test_a_disk_that_stays_full_is_named_and_nothing_stays_of_the_file(short_folder, monkeypatch):
    monkeypatch.setattr("railyard.dfs.writer.PAUSES_S", (0.0,) * 5)
    with (
        small_disk(short_folder, 4 * 2**20) as disk,
        Dfs(disk.path, small_topology(), "fast") as dfs,
    ):
        client = dfs.client()
        disk.fill()
        with pytest.raises(NoRoom, match=f"no space left on {disk.path}"):
            client.write("/a", [bytes(500_000)])
        disk.free()
        assert not client.exists("/a")
        client.write("/a", [bytes(500_000)])
