"""What a DataNode holds of blocks that it has received."""

import gc
import sys

import pytest
import zmq

from railyard.cluster.ids import OUTSIDE
from railyard.cluster.messaging.transport import Request
from railyard.dfs.checksums import pack_sums, sums_of
from railyard.dfs.datanode.receiving import BlockReceiver
from railyard.dfs.datanode.server import BlockServer
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.peers import OutgoingBlock, Peers
from tests.dfs.blocks import write
from tests.dfs.simulated import topology

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
    return [one for one in gc.get_objects() if isinstance(one, _HELD)]


@pytest.mark.parametrize(
    ("nodes", "written"),
    [
        (("r0n0",), ("r0n0",)),
        (("r0n0", "r0n1"), ("r0n0", "r0n1")),
        (("r0n0", "r9n9"), ()),  # refused
    ],
)
def test_nothing_is_held_of_a_block_that_was_received(transport, no_collections, nodes, written):
    BlockServer(transport, topology(), "r0", None, lambda _: None)
    peers = Peers(transport, "test")
    before = len(_held())
    for block in range(1, 6):
        assert _send(peers, block, b"x" * 80, nodes) == written
    assert len(_held()) == before, "each Request holds a receive buffer of ZeroMQ"


def test_nothing_is_held_of_a_damaged_block(transport, no_collections):
    server = BlockServer(transport, topology(), "r0", None, lambda _: None)
    peers = Peers(transport, "test")
    before = len(_held())
    ended = []
    sums = pack_sums(sums_of(1, [memoryview(b"y" * 80)]))
    outgoing = OutgoingBlock(peers, None, OUTSIDE, 1, 80, sums, ("r0n0",), ended.append)
    outgoing.extend(memoryview(b"x" * 80))
    assert peers.reactor.run_until(lambda: bool(ended), 10.0)
    assert ended[0].nodes == ()
    assert not server.held()["r0n0"]
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
