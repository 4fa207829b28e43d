"""The block scanner: its findings, that it does not block the loop, and that it goes on."""

from __future__ import annotations

import errno
import gc
import itertools
import random
import sys

import pytest
import zmq

import railyard.dfs.datanode.scanner
from railyard.cluster.ids import OUTSIDE
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Vocabulary, pack, unpack
from railyard.cluster.topologyfile import Storage
from railyard.dfs.blockfile import blocks_folder, pack_sums, sums_of
from railyard.dfs.datanode.process import DataNode
from railyard.dfs.datanode.scanner import SLICE_BYTES, Scanner, pages, report_blocks, verification
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.datanode.transfers import BlockReceiver
from railyard.dfs.messages import (
    BlockReport,
    DeleteReplicas,
    HeldBlock,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    VerifyReplica,
)
from railyard.dfs.peers import OutgoingBlock, Peers
from tests.dfs import blocks
from tests.dfs.blocks import write
from tests.dfs.simulated import topology

DATA = random.Random(1).randbytes(3 * SLICE_BYTES + 5)
LENGTH = len(DATA)


@pytest.fixture
def store(tmp_path):
    return BlockStore(tmp_path / "blocks")


def write_into(store, block, data=DATA):
    blocks.write(store, block, data)


def spoil(store, block, at=SLICE_BYTES):
    path = store.folder / f"b{block}"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def scanner(store, reported, **figures):
    storage = Storage(**{"scan_period": 3600, **figures})
    reactor = Reactor()
    return reactor, Scanner(reactor, {"r0n0": store}, storage, reported.append)


def look(store, block, length: int | None = LENGTH):
    work, slices = verification(store, block, length), []
    while True:
        try:
            slices.append(next(work))
        except StopIteration as end:
            return end.value[0], slices


def test_a_look_is_done_in_slices(store):
    write_into(store, 1)
    assert look(store, 1) == ("sound", [SLICE_BYTES] * 3 + [5])


def test_what_a_look_finds(store):
    for block in range(4):
        write_into(store, block)
    spoil(store, 1)
    assert look(store, 1)[0] == "damaged"
    assert look(store, 2, length=len(DATA) + 1)[0] == "damaged"
    assert look(store, 2, length=len(DATA) - 1)[0] == "damaged"
    store.delete(2)
    assert look(store, 2)[0] == "damaged"
    (store.folder / "b9").mkdir()
    assert look(store, 9, length=None)[0] in ("unreadable", "damaged")
    (store.folder / "b8").write_bytes(b"")
    assert look(store, 8, length=None)[0] == "damaged"
    assert look(store, 3)[0] == "sound"


def verify(node="r0n0", *, delete):
    return VerifyReplica(block=1, node=node, stored_length=len(DATA), delete=delete)


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("state", ["sound", "damaged", "gone"])
def test_commands_are_answered_and_only_damage_is_deleted(store, delete, state):
    write_into(store, 1)
    if state == "damaged":
        spoil(store, 1)
    elif state == "gone":
        store.delete(1)
    reported = []
    reactor, works = scanner(store, reported)
    for _ in range(3):  # asked for again while it is under way
        works.verify(verify(delete=delete))
    works.verify(verify("r0n9", delete=delete))  # a lost node
    assert reactor.run_until(lambda: bool(reported), timeout_s=20)
    reactor.run_until(lambda: False, timeout_s=0.05)
    (fact,) = reported
    if delete and state != "sound":
        assert fact == ReplicasDeleted(node="r0n0", blocks=(1,))
        assert not store.has(1)
    else:
        assert isinstance(fact, ReplicaVerified)
        assert fact.found == ("sound" if state == "sound" else "damaged")
        assert store.has(1) == (state != "gone")


def test_what_cannot_be_looked_at_is_not_deleted(store, monkeypatch):
    write_into(store, 1)
    spoil(store, 1)
    reported = []
    reactor, works = scanner(store, reported)

    def no_descriptors(*_, **__):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("os.open", no_descriptors)
        patched.setattr("pathlib.Path.open", no_descriptors)
        works.verify(verify(delete=True))
        assert reactor.run_until(lambda: bool(reported), timeout_s=20)
    assert reported[0].found == "unreadable"
    assert "Too many open files" in reported[0].reason
    assert store.has(1)


def test_others_are_served_while_a_look_is_under_way(store):
    write_into(store, 1, random.Random(2).randbytes(40 * SLICE_BYTES))
    reported, turns = [], []
    reactor, works = scanner(store, reported)

    def other_work():
        turns.append(len(reported))
        reactor.call_later(0, other_work)

    other_work()
    works.verify(VerifyReplica(block=1, node="r0n0", stored_length=40 * SLICE_BYTES))
    assert reactor.run_until(lambda: bool(reported), timeout_s=20)
    assert len(turns) > 40


def test_the_slow_round_finds_damage_and_comes_again(store):
    for block in range(5):
        write_into(store, block)
    reported = []
    reactor, _ = scanner(store, reported, scan_period=0.1, scan_rate=1e9)
    spoil(store, 3)
    assert reactor.run_until(lambda: len(reported) == 2, timeout_s=20)
    assert {(fact.block, fact.found) for fact in reported} == {(3, "damaged")}


def test_the_slow_round_is_slow(store):
    write_into(store, 1)
    spoil(store, 1, at=len(DATA) - 1)  # in the last slice
    reported = []
    reactor, _ = scanner(store, reported, scan_period=0.01, scan_rate=len(DATA) / 0.4)
    assert not reactor.run_until(lambda: bool(reported), timeout_s=0.2)
    assert reactor.run_until(lambda: bool(reported), timeout_s=20)


# Reports -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [0, 1, 8, 9, 24])
def test_pages_cover_every_id_once(store, monkeypatch, blocks):
    monkeypatch.setattr(railyard.dfs.datanode.scanner, "PAGE_BLOCKS", 8)
    ids = random.Random(blocks).sample(range(2**40), blocks)
    for block in ids:
        (store.folder / f"b{block}").write_bytes(b"x" * 13)
    reports = [page for page in pages("r0n0", store) if page is not None]
    assert len(reports) == max(1, -(-blocks // 8))
    assert [held.block for report in reports for held in report.held] == sorted(ids)
    assert {held.stored_length for report in reports for held in report.held} <= {5}
    bounds = [(report.first, report.last) for report in reports]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 2**63 - 1
    assert all(last + 1 == first for (_, last), (first, _) in itertools.pairwise(bounds))
    assert all(r.first <= held.block <= r.last for r in reports for held in r.held)


def test_a_disk_that_cannot_be_listed_just_now_is_not_reported_empty(store, monkeypatch):
    def no_descriptors(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("pathlib.Path.iterdir", no_descriptors)
    assert list(pages("r0n0", store)) == []
    assert store.exists


def test_reports_go_on(store, tmp_path):
    write_into(store, 1)
    reactor, sent = Reactor(), []
    stores = {"r0n0": store, "r0n1": BlockStore(tmp_path / "other")}
    report_blocks(reactor, stores, 0.05, sent.append)
    assert reactor.run_until(lambda: len(sent) == 2, timeout_s=20)
    assert {report.node: len(report.held) for report in sent} == {"r0n0": 1, "r0n1": 0}
    del stores["r0n1"]
    sent.clear()
    assert reactor.run_until(lambda: len(sent) == 3, timeout_s=20)
    assert {report.node for report in sent[1:]} == {"r0n0"}


def test_a_whole_page_of_the_largest_blocks_can_be_sent():
    held = (
        HeldBlock(block=2**63 - 1, stored_length=2**40),
    ) * railyard.dfs.datanode.scanner.PAGE_BLOCKS
    report = BlockReport(node="r999n999", first=0, last=2**63 - 1, held=held)
    assert unpack(pack(report), Vocabulary([BlockReport])) == (0, report)


# Commands of the NameNode that a DataNode cannot carry out.


def test_a_replica_that_cannot_be_deleted_does_not_end_the_datanode(transport, monkeypatch):
    reported = []
    monkeypatch.setattr(LastingLink, "send", lambda _, fact: reported.append(fact))
    server = DataNode(transport, topology(), "r0", None)
    folder = blocks_folder(transport.folder, "r0n0")
    (folder / "b1").mkdir()  # nothing that unlink removes
    (folder / "b2").write_bytes(b"")
    server.delete(DeleteReplicas(node="r0n0", blocks=(1, 2, 3)))
    assert [(fact.node, fact.blocks) for fact in reported] == [("r0n0", (2, 3))]
    assert (folder / "b1").is_dir()


def test_a_copy_that_no_descriptor_is_left_for_fails_and_does_not_end_the_datanode(
    transport, monkeypatch
):
    reported = []
    monkeypatch.setattr(LastingLink, "send", lambda _, fact: reported.append(fact))
    server = DataNode(transport, topology(), "r0", None)
    write(server._stores["r0n0"], 1, b"block")

    def no_descriptors(*_, **__):
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(transport, "link", no_descriptors)
    server.replicate(ReplicateBlock(block=1, stored_length=5, source="r0n0", target="r1n0"))
    (fact,) = reported
    assert isinstance(fact, ReplicationFailed)
    assert "datanode-r1 cannot be connected to: too many open files" in fact.reason


# What a DataNode holds of blocks that it has received.


_HELD = (Request, BlockReceiver, zmq.Frame)


@pytest.fixture
def no_collections():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _send(peers, block, data, nodes):
    ended = []
    sums = pack_sums(sums_of(block, [memoryview(data)]))
    outgoing = OutgoingBlock(peers, None, OUTSIDE, block, len(data), sums, nodes, ended.append)
    outgoing.extend(memoryview(data))
    assert peers.reactor.run_until(lambda: bool(ended), 10.0)
    return ended[0].nodes


def _held():
    return [one for one in gc.get_objects() if issubclass(type(one), _HELD)]


@pytest.mark.parametrize(
    ("nodes", "written"),
    [
        (("r0n0",), ("r0n0",)),
        (("r0n0", "r0n1"), ("r0n0", "r0n1")),
        (("r0n0", "r9n9"), ()),  # refused
    ],
)
def test_nothing_is_held_of_a_block_that_was_received(transport, no_collections, nodes, written):
    DataNode(transport, topology(), "r0", None)
    peers = Peers(transport, "test")
    before = len(_held())
    for block in range(1, 6):
        assert _send(peers, block, b"x" * 80, nodes) == written
    assert len(_held()) == before, "each Request holds a receive buffer of ZeroMQ"


def test_nothing_is_held_of_a_damaged_block(transport, no_collections):
    server = DataNode(transport, topology(), "r0", None)
    peers = Peers(transport, "test")
    before = len(_held())
    ended = []
    sums = pack_sums(sums_of(1, [memoryview(b"y" * 80)]))
    outgoing = OutgoingBlock(peers, None, OUTSIDE, 1, 80, sums, ("r0n0",), ended.append)
    outgoing.extend(memoryview(b"x" * 80))
    assert peers.reactor.run_until(lambda: bool(ended), 10.0)
    assert ended[0].nodes == ()
    assert not server._stores["r0n0"].held()
    assert len(_held()) == before


def test_names_of_blocks_are_not_interned(tmp_path, monkeypatch):
    store = BlockStore(tmp_path / "blocks")
    interned = []
    monkeypatch.setattr(sys, "intern", lambda text: interned.append(text) or text)
    write(store, 17, b"block")
    assert bytes(store.read(17, 0, 5)) == b"block"
    assert store.has(17)
    assert store.length(17) == 5
    assert [held.block for held in store.held()] == [17]
    store.delete(17)
    assert not store.has(17)
    assert [name for name in interned if "b17" in name] == []
