"""Files through real processes: what goes in comes out."""

from __future__ import annotations

import contextlib
import os
import random
import time
import weakref
from collections.abc import Iterator

import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import (
    AddBlock,
    BlockAdded,
    CompleteFile,
    CreateFile,
    FileCompleted,
    FileCreated,
    HeldBlock,
    Listing,
    PlacementHint,
    RegisterDataNode,
    StoredBlock,
)
from railyard.dfs.namenode.core import FileStored, NameNode
from railyard.dfs.namenode.journal import Journal
from railyard.dfs.namenode.process import NameNodeServer
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from tests.dfs.simulated import topology
from tests.waiting import wait_for

DATA = random.Random(1).randbytes(350_000)


def content(client, path, *range_):
    return b"".join(client.read(path, *range_))


def wait_until_disks_are_empty(dfs):
    folders = [dfs.folder.node(node.id) / "blocks" for node in dfs.topology.nodes()]
    wait_for(lambda: not any(list(folder.iterdir()) for folder in folders), why="disks are empty")


def test_what_was_written_is_read_from_everywhere(start_dfs):
    dfs = start_dfs(racks=2, nodes=2, replication=3)
    writer = dfs.client("r0n0")
    status = writer.write("/a/b", [DATA])
    assert (status.path, status.stored_length, status.blocks) == ("/a/b", 350_000, 4)
    for location in writer.locations("/a/b"):
        assert "r0n0" in location.nodes
        assert [rack_of(node) for node in location.nodes].count("r1") == 2
    readers = {node: dfs.client(node) for node in ("r0n0", "r0n1", "r1n0", None)}
    for reader in readers.values():
        assert content(reader, "/a/b") == DATA
    assert readers["r0n0"].read_bytes == {"local": 350_000, "rack": 0, "remote": 0}
    assert readers["r0n1"].read_bytes == {"local": 0, "rack": 350_000, "remote": 0}
    assert readers[None].read_bytes == {"local": 0, "rack": 0, "remote": 350_000}
    outside = readers[None]
    outside.write("/c", [DATA])
    assert content(readers["r1n0"], "/c") == DATA
    assert outside.check().healthy


def test_ranges_and_buffers_of_all_sizes(start_dfs):
    client = start_dfs().client("r0n0")
    rng, pieces, start = random.Random(3), [], 0
    while start < len(DATA):
        end = start + rng.choice([1, 7, 5000, 99_999, 130_000])
        pieces.append(rng.choice([bytes, bytearray, memoryview])(DATA[start:end]))
        start = end
    pieces.insert(1, b"")
    client.write("/f", pieces)
    file = client.open("/f")
    assert file.stored_bytes == len(DATA)
    for _ in range(30):
        offset, length = rng.randrange(len(DATA)), rng.choice([0, 1, 100, 65_536, 200_000])
        assert content(client, "/f", offset, length) == DATA[offset : offset + length]
        assert file.read(offset, length) == DATA[offset : offset + length]
    assert content(client, "/f", len(DATA)) == b""
    assert content(client, "/f", 349_990, 999) == DATA[-10:]


def test_files_grow_and_are_cut(start_dfs):
    client = start_dfs().client("r1n0")
    client.write("/f", [DATA[:150_000]])
    assert client.append("/f", [DATA[150_000:160_000], DATA[160_000:]]).blocks == 4
    assert content(client, "/f") == DATA
    assert client.append("/f", []).stored_length == len(DATA)
    old = client.open("/f")
    assert client.truncate("/f", 123_456).blocks == 2
    assert content(client, "/f") == DATA[:123_456]
    assert old.read(0, 100_000) == DATA[:100_000]  # the blocks that stayed
    assert client.truncate("/f", 0).blocks == 0
    assert client.append("/f", [DATA]).blocks == 4
    assert content(client, "/f") == DATA
    with pytest.raises(Refused, match="no such file") as refused:
        client.append("/g", [b"x"])
    assert refused.value.kind == "missing"


def test_a_file_of_no_bytes(start_dfs):
    client = start_dfs().client()
    assert client.write("/empty", []).stored_length == 0
    assert client.write("/empty2", [b"", memoryview(b"")]).blocks == 0
    assert content(client, "/empty") == b""
    assert client.open("/empty").read(0, 10) == b""
    assert client.locations("/empty") == ()


def test_a_file_larger_than_what_is_held_of_it(start_dfs):
    """Of 10 MB no more than some blocks are alive at a time, in either direction."""

    class Piece(bytearray):
        """Can be referred to weakly, unlike bytes."""

    alive, most = weakref.WeakSet(), 0

    def pieces():
        nonlocal most
        for number in range(200):
            piece = Piece(number.to_bytes(1, "big") * 50_000)
            alive.add(piece)
            most = max(most, len(alive))
            yield piece
            del piece

    Piece.__hash__ = object.__hash__
    dfs = start_dfs()
    client = DfsClient(dfs.transport(), dfs.topology, held_bytes=500_000)
    client.write("/big", pieces())
    assert most * 50_000 <= 600_000
    reader = client.read("/big")
    numbers = b"".join(bytes(set(bytes(piece))) for piece in reader)
    assert numbers == bytes(range(200))


def test_names(start_dfs):
    client = start_dfs().client()
    client.write("/d/f", [b"12345"])
    client.mkdir("/d/e/")
    assert [(e.path, e.folder, e.stored_length) for e in client.list("/d")] == [
        ("/d/e", True, 0),
        ("/d/f", False, 5),
    ]
    assert [e.path for e in client.list("/d/f")] == ["/d/f"]
    client.rename("/d", "/x/d")
    assert content(client, "/x/d/f") == b"12345"
    assert not client.exists("/d")
    client.rename("/x/d/f", "/out/p0")
    client.remove("/x", recursive=True)
    assert [e.path for e in client.list("/")] == ["/out"]
    removed = client.remove("/out", recursive=True)
    assert (removed.files, removed.folders) == (1, 1)
    assert client.list("/") == ()


@pytest.mark.parametrize(
    "path", ["", "a", "../a", "/a/../../etc/passwd", "/a\x00b", "/a\nb", "/.", "//a", "/\ud800"]
)
def test_bad_paths_are_refused_by_every_call(dfs_for_refusals, path):
    client = dfs_for_refusals
    for act in (
        lambda: client.write(path, [b"x"]),
        lambda: client.open(path),
        lambda: client.status(path),
        lambda: client.list(path),
        lambda: client.mkdir(path),
        lambda: client.remove(path, recursive=True),
        lambda: client.rename(path, "/b"),
        lambda: client.rename("/there", path),
        lambda: client.usage(path),
        lambda: client.check(path),
        lambda: client.locations(path),
    ):
        with pytest.raises((Refused, UnicodeEncodeError)):
            act()
    assert [e.path for e in client.list("/")] == ["/there"]


@pytest.fixture
def dfs_for_refusals(start_dfs):
    client = start_dfs(racks=1, nodes=1, replication=1).client()
    client.write("/there", [b"x"])
    return client


def test_overwriting(start_dfs):
    client = start_dfs().client("r0n0")
    client.write("/f", [b"old" * 50_000])
    with pytest.raises(Refused, match="/f: exists already"):
        client.write("/f", [b"new"])
    old = client.open("/f")
    client.write("/f", [b"new"], overwrite=True)
    assert content(client, "/f") == b"new"
    assert old.stored_bytes == 150_000
    with pytest.raises(Refused, match="/f: is a file, not a folder"):
        client.write("/f/g", [b"x"])
    client.mkdir("/d")
    with pytest.raises(Refused, match="/d: is a folder"):
        client.write("/d", [b"x"], overwrite=True)
    with pytest.raises(Refused, match="/d: is a folder"):
        client.open("/d")
    with pytest.raises(Refused, match="/none: no such file or folder"):
        client.open("/none")


def test_a_writer_whose_data_fail_leaves_nothing(start_dfs):
    dfs = start_dfs()
    client = dfs.client("r0n0")

    def data():
        yield DATA
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        client.write("/f", data())
    assert not client.exists("/f")
    wait_until_disks_are_empty(dfs)
    client.write("/f", [DATA])
    assert content(client, "/f") == DATA


def test_a_file_that_was_begun_is_there_once_it_has_been_filled(start_dfs):
    dfs = start_dfs()
    writer, other = dfs.client("r0n0"), dfs.client("r1n0")
    created = writer.create(CreateFile(path="/f", replication=1))
    assert not other.exists("/f")
    late = writer.create(CreateFile(path="/f"))
    status = writer.fill("/f", created, [DATA[:120_000], DATA[120_000:]])
    assert (status.stored_length, status.blocks) == (len(DATA), 4)
    assert content(other, "/f") == DATA
    assert {location.nodes for location in other.locations("/f")} == {("r0n0",)}
    with pytest.raises(Refused, match="/f: exists already"):
        writer.fill("/f", late, [b"too late"])
    assert content(other, "/f") == DATA


def test_a_file_that_was_begun_and_is_abandoned_leaves_nothing(start_dfs):
    dfs = start_dfs()
    client = dfs.client("r0n0")
    created = client.create(CreateFile(path="/d/f"))

    def data():
        yield DATA
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        client.fill("/d/f", created, data())
    assert not client.exists("/d/f")
    with pytest.raises(Refused):
        client.fill("/d/f", created, [b"once more"])
    assert not client.exists("/d/f")
    wait_until_disks_are_empty(dfs)
    client.write("/d/f", [b"anew"])
    assert content(client, "/d/f") == b"anew"


def test_usage_and_check(start_dfs):
    client = start_dfs().client("r0n0")
    client.write("/d/f", [DATA])
    client.write("/d/e/g", [b"12345"], replication=4)
    usage = client.usage("/d")
    assert (usage.files, usage.folders, usage.blocks) == (2, 2, 5)
    assert usage.stored_bytes == 350_005
    assert usage.stored_disk_bytes == 2 * 350_000 + 4 * 5
    report = client.check("/d")
    assert (report.files, report.blocks, report.replicas) == (2, 5, 12)
    assert (report.nodes_alive, report.nodes_lost) == (4, ())
    assert report.healthy
    with pytest.raises(Refused, match="replication = 5: need 0"):
        client.write("/h", [b"x"], replication=5)


def test_hints(start_dfs):
    client = start_dfs(racks=3).client()
    hint = PlacementHint(first=("r2n1",), racks=(("r2",), ("r2",)))
    client.write("/f", [DATA], hint=hint)
    assert {location.nodes for location in client.locations("/f")} == {("r2n0", "r2n1")}


def test_several_processes_write_at_once(start_dfs):
    dfs = start_dfs(racks=2, nodes=2)

    def write(number):
        client = dfs.client(f"r{number % 2}n{number // 2}")
        for part in range(5):
            client.write(f"/out/{number}-{part}", [bytes([number]) * 150_000])
        with contextlib.suppress(Refused):  # all but one: it exists already
            client.write("/same", [bytes([number])])

    writers = [dfs.in_process(lambda number=number: write(number)) for number in range(4)]
    assert [os.waitpid(pid, 0)[1] for pid in writers] == [0] * 4
    client = dfs.client()
    assert len(client.list("/out")) == 20
    for entry in client.list("/out"):
        number = int(entry.path[5])
        assert content(client, entry.path) == bytes([number]) * 150_000
    assert client.status("/same").stored_length == 1
    assert client.check().healthy


def test_bytes_between_nodes_are_flows_at_the_speed_of_the_links(start_dfs):
    dfs = start_dfs(nic=1e6)  # 1 MB/s
    client = dfs.client("r0n0")
    started_s = time.monotonic()
    client.write("/f", [DATA])
    assert time.monotonic() - started_s >= 0.34, "350 kB left over a link of 1 MB/s"
    assert content(client, "/f") == DATA
    link = dfs.transport().link("network")
    carried = link.call(GetNetworkStats(), NetworkStats).bytes
    assert carried["cross_rack"] == len(DATA), "the second replicas; the own ones are read"
    reader = dfs.client("r0n1")
    started_s = time.monotonic()
    assert content(reader, "/f", 0, 100_000) == DATA[:100_000]
    assert time.monotonic() - started_s >= 0.09
    link = dfs.transport().link("network")
    carried = link.call(GetNetworkStats(), NetworkStats).bytes
    assert carried["rack"] == 100_000


def test_nobody_in_the_cluster_means_no_flow(start_dfs):
    dfs = start_dfs(nic=1e6)
    client = dfs.client()
    client.write("/f", [DATA], replication=1)
    assert content(client, "/f") == DATA
    link = dfs.transport().link("network")
    assert sum(link.call(GetNetworkStats(), NetworkStats).bytes.values()) == 0


# Files with blocks of their own size, and folders that take the place of empty ones.


@pytest.fixture
def dfs(start_dfs):
    return start_dfs()


def lengths(client, path):
    return [block.stored_length for block in client.locations(path)]


def test_a_file_keeps_its_block_size_across_a_rename_an_append_and_a_restart(dfs):
    client = dfs.client()
    how = CreateFile(path="/f", stored_block_bytes=1000)
    client.fill("/f", client.create(how), [b"x" * 2500])
    client.rename("/f", "/g")
    dfs.kill("namenode")
    dfs.start("namenode")
    client.append("/g", [b"y" * 700])
    assert lengths(client, "/g") == [1000, 1000, 1000, 200]
    assert client.status("/g").stored_block_bytes == 1000
    assert b"".join(map(bytes, client.read("/g"))) == b"x" * 2500 + b"y" * 700


def test_blocks_longer_than_the_topologys_are_refused(dfs):
    with pytest.raises(Refused, match="blocks of 100001 bytes: need at most 100000"):
        dfs.client().create(CreateFile(path="/f", stored_block_bytes=100_001))


def test_a_folder_takes_the_place_of_an_empty_one(dfs):
    client = dfs.client()
    client.write("/a/f", [b"x"])
    client.mkdir("/empty")
    client.write("/full/f", [b"y"])
    for target in ("/full", "/empty/../x"):
        with pytest.raises(Refused):
            client.rename("/a", target, overwrite=True)
    client.rename("/a", "/empty", overwrite=True)
    assert [each.path for each in client.list("/")] == ["/empty", "/full"]
    assert client.exists("/empty/f")


# Folders and files larger than a usual header: answered in full, or refused in clear words.


FILES = 100_000
BLOCKS = 10_000


class Store:
    """A NameNode behind a real socket, and a client of it; its DataNodes only register."""

    def __init__(self, folder: RunFolder) -> None:
        self.transport = Transport(folder)
        shape = topology()
        self.core = NameNode(shape, Journal(), now_s())
        for rack in shape.rack_list():
            nodes: dict[str, tuple[HeldBlock, ...]] = {node.id: () for node in rack.nodes}
            self.core.handle(RegisterDataNode(rack=rack.id, pid=1, nodes=nodes), now_s())
        NameNodeServer(self.transport, self.core, tick_s=60.0)
        self.client = DfsClient(self.transport, shape)
        self.link = self.transport.link("namenode")


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = RunFolder.create(tmp_path_factory.mktemp("l"))
    store = Store(folder)
    yield store
    store.transport.close()
    folder.remove()


def test_a_folder_of_100_000_files_is_listed_and_located(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FILES):
        path = f"/many/of-a-usual-length-{number:06d}"
        store.core.handle(FileStored(path=path, stored_lengths=(100,)), now_s())
    assert len(store.client.list("/many")) == FILES
    assert store.client.usage("/many").files == FILES
    assert store.client.check("/many").healthy
    monkeypatch.setattr(Listing, "wire_bytes_max", 2**20)  # as if there were millions
    with pytest.raises(Refused, match=r"listing: a message of .*: the most is 1,048,576: ask for"):
        store.client.list("/many")
    assert store.client.remove("/many", recursive=True).files == FILES


def test_a_file_of_10_000_blocks_is_written_and_located(store: Store) -> None:
    file = store.link.call(CreateFile(path="/long"), FileCreated).file
    added: list[BlockAdded] = []
    for _ in range(BLOCKS):
        add = AddBlock(file=file, stored_length=100)
        reply = store.core.handle(add, now_s()).reply
        assert isinstance(reply, BlockAdded)
        added.append(reply)
    blocks = tuple(StoredBlock(block=each.block, nodes=each.nodes) for each in added)
    done = store.link.call(CompleteFile(file=file, blocks=blocks), FileCompleted)
    assert done.status.blocks == BLOCKS
    assert len(store.client.locations("/long")) == BLOCKS
