"""Folders and files larger than a usual header: answered in full, or refused in clear words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.dfs.client import DfsClient
from railyard.dfs.messages.datanodes import HeldBlock, RegisterDataNode
from railyard.dfs.messages.files import (
    AddBlock,
    BlockAdded,
    CompleteFile,
    CreateFile,
    FileCompleted,
    FileCreated,
    Listing,
    StoredBlock,
)
from railyard.dfs.namenode.core import FileStored, NameNode
from railyard.dfs.namenode.journal import NoJournal
from railyard.dfs.namenode.process import NameNodeServer
from tests.dfs.simulated import topology

FILES = 100_000
BLOCKS = 10_000


class Store:
    """A NameNode behind a real socket, and a client of it; its DataNodes only register."""

    def __init__(self, folder: RunFolder) -> None:
        self.transport = Transport(folder)
        shape = topology()
        self.core = NameNode(shape, NoJournal(), now_s())
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
