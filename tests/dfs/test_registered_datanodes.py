"""Facts about a rack are accepted from its DataNode only, over the connection that registered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from railyard.cluster.errors import NotDone, Refused
from railyard.cluster.messaging.access import NAME_NODE, RESOURCE_MANAGER, ROLES, Keys
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topologyfile import Liveness
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    BlockReplicated,
    BlockReport,
    CreateFile,
    DataNodeHeartbeat,
    DeleteReplicas,
    FileCreated,
    GetSafeMode,
    GetStatus,
    MakeFolder,
    MoveReplica,
    RegisterDataNode,
    Remove,
    Removed,
    ReplicaMoved,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicationFailed,
    ReplicaVerified,
    SafeModeStatus,
    Status,
)
from railyard.dfs.namenode.core import FileStored, NameNode, Outcome
from railyard.dfs.namenode.journal import Journal
from railyard.dfs.namenode.process import NameNodeServer
from railyard.dfs.writer import NoRoom
from railyard.oracles.faults.memoryjournal import MemoryJournal
from tests.dfs.simulated import topology

OF_R0: tuple[Message, ...] = (
    DataNodeHeartbeat(rack="r0", nodes=()),
    BlockReport(node="r0n0", first=0, last=9, held=()),
    ReplicationFailed(block=1, source="r0n0", target="r1n0", reason="x"),
    ReplicasDeleted(node="r0n0", blocks=(1,)),
    ReplicaVerified(block=1, node="r0n0", found="damaged"),
)


@pytest.fixture
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    folder = RunFolder.create(tmp_path_factory.mktemp("w"))
    transport = Transport(folder)
    yield transport
    transport.close()
    folder.remove()


def test_facts_of_a_rack_come_from_its_datanode(transport: Transport) -> None:
    NameNodeServer(transport, NameNode(topology(), Journal(), now_s()), tick_s=60.0)
    first, other = transport.link("namenode"), transport.link("namenode")
    no_blocks = {"r0n0": (), "r0n1": ()}
    with pytest.raises(Refused, match="not from the DataNode that is registered"):
        other.call(BlockReplicated(block=1, target="r0n0", stored_length=1), Done)
    first.call(RegisterDataNode(rack="r0", pid=1, nodes=no_blocks), Done)
    other.call(RegisterDataNode(rack="r1", pid=2, nodes={}), Done)
    for fact in OF_R0:
        with pytest.raises(Refused, match="not from the DataNode that is registered"):
            other.call(fact, Done)
    other.call(RegisterDataNode(rack="r0", pid=3, nodes=no_blocks), Done)  # it was started anew
    with pytest.raises(Refused, match="not from the DataNode that is registered"):
        first.call(DataNodeHeartbeat(rack="r0", nodes=()), Done)


def test_a_silent_datanode_whose_process_runs_is_not_lost_yet(transport: Transport) -> None:
    quick = msgspec.structs.replace(topology(), liveness=Liveness(heartbeat=0.05, expiry_s=0.15))
    core = NameNode(quick, Journal(), now_s())
    NameNodeServer(transport, core, 0.05, patience_s=0.6)
    link = transport.link("namenode")
    blocks = core.blocks
    link.call(RegisterDataNode(rack="r0", pid=os.getpid(), nodes={"r0n0": ()}), Done)
    link.call(RegisterDataNode(rack="r1", pid=2**22, nodes={"r1n0": ()}), Done)  # of no process
    assert transport.reactor.run_until(lambda: not blocks.is_alive("r1n0"), 5)
    assert blocks.is_alive("r0n0")
    assert transport.reactor.run_until(lambda: not blocks.is_alive("r0n0"), 5), "it may hang"


def test_a_client_writes_only_so_many_files_at_once(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railyard.dfs.namenode.process.FILES_MAX", 3)
    NameNodeServer(transport, NameNode(topology(), Journal(), now_s()), tick_s=60.0)
    link = transport.link("namenode")
    files = [link.call(CreateFile(path=f"/f{n}"), FileCreated).file for n in range(3)]
    with pytest.raises(Refused, match="3 files are being written by this client: at most 3"):
        link.call(CreateFile(path="/g"), FileCreated)
    link.call(AbandonFile(file=files[0]), Done)
    files.append(link.call(CreateFile(path="/g"), FileCreated).file)


def test_a_move_is_answered_when_it_has_ended(transport: Transport) -> None:
    core = NameNode(topology(replication=1), Journal(), now_s())
    NameNodeServer(transport, core, tick_s=60.0)
    first, other, asking = (transport.link("namenode") for _ in range(3))
    first.call(RegisterDataNode(rack="r0", pid=1, nodes={"r0n0": ()}), Done)
    other.call(RegisterDataNode(rack="r1", pid=2, nodes={"r1n0": ()}), Done)
    core.handle(FileStored(path="/f", stored_lengths=(100,), nodes=(("r0n0",),)), now_s())
    orders: list[Message] = []
    for kind in (ReplicateBlock, DeleteReplicas):
        first.on(kind, lambda order, _: orders.append(order))
    answers: list[object] = []
    moved = MoveReplica(path="/f", number=0, target="r1n0")
    for _ in range(2):  # the same request sent again has the same answer
        asking.request(moved, ReplicaMoved, lambda answer, _: answers.append(answer))
    assert transport.reactor.run_until(lambda: len(orders) == 1, 5)
    assert answers == []
    [copy] = orders
    assert isinstance(copy, ReplicateBlock)
    first.send(BlockReplicated(block=copy.block, target="r1n0", stored_length=100))
    assert transport.reactor.run_until(lambda: len(answers) == 2 and len(orders) == 2, 5)
    assert answers == [ReplicaMoved(nodes=("r1n0",))] * 2
    assert orders[1] == DeleteReplicas(node="r0n0", blocks=(copy.block,))
    with pytest.raises(Refused, match="/no: no such file"):
        asking.call(MoveReplica(path="/no", number=0, target="r1n0"), ReplicaMoved)


def test_only_the_resourcemanager_has_blocks_moved(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = RunFolder.create(tmp_path_factory.mktemp("k"))
    Keys.create(folder.keys)  # over TCP, where the key says the role
    transport = Transport(folder, role=NAME_NODE)
    NameNodeServer(transport, NameNode(topology(), Journal(), now_s()), tick_s=60.0)
    move = MoveReplica(path="/f", number=0, target="r1n0")
    for role in ROLES:
        other = Transport(folder, transport.reactor, role=role)
        # its request is read, and refused since there is no such file
        refused = "/f: no such file" if role == RESOURCE_MANAGER else f"move-replica from {role}"
        with pytest.raises(Refused, match=refused):
            other.link("namenode").call(move, ReplicaMoved)
        other.close()
    transport.close()
    folder.remove()


def test_in_safe_mode_a_change_waits_until_the_datanodes_have_registered(
    transport: Transport,
) -> None:
    journal = MemoryJournal()
    journal.load()  # by an earlier NameNode
    NameNodeServer(transport, NameNode(topology(), journal, now_s()), tick_s=60.0)
    link = transport.link("namenode")
    answers: list[object] = []
    for path in ("/a", "/a/b"):
        link.request(MakeFolder(path=path), Done, lambda answer, _: answers.append(answer))
    link.request(Remove(path="/no"), Removed, lambda answer, _: answers.append(answer))
    assert link.call(GetSafeMode(), SafeModeStatus).on
    assert link.call(GetStatus(path="/a"), Status).status is None
    for rack in topology().rack_list():
        assert answers == []
        nodes = {node.id: () for node in rack.nodes}
        link.call(RegisterDataNode(rack=rack.id, pid=1, nodes=nodes), Done)
    assert transport.reactor.run_until(lambda: len(answers) == 3, 5)
    assert answers[:2] == [Done(), Done()]
    assert answers[2] == Refusal(reason="/no: no such file or folder", kind="missing")


def test_a_change_that_has_waited_too_long_is_refused(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railyard.dfs.namenode.process.HELD_S", 0.0)
    journal = MemoryJournal()
    journal.load()  # by an earlier NameNode
    NameNodeServer(transport, NameNode(topology(), journal, now_s()), tick_s=60.0)
    with pytest.raises(NotDone, match=r"Cannot create directory /a\. Name node is in safe mode"):
        transport.link("namenode").call(MakeFolder(path="/a"), Done)


_NO_FILE = FileCreated(file=0, stored_block_bytes=100)


@pytest.mark.parametrize("by_hand", [True, False], ids=["entered by hand", "of a start"])
def test_a_client_asks_again_only_in_a_safe_mode_that_ends_by_itself(
    transport: Transport, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    monkeypatch.setattr("railyard.dfs.namenode.process.HELD_S", 0.0)
    monkeypatch.setattr("railyard.dfs.client._PAUSES_S", (0.0,) * 3)
    monkeypatch.setattr("railyard.dfs.writer.PAUSES_S", (0.0,) * 5)
    journal = MemoryJournal()
    if not by_hand:
        journal.load()  # by an earlier NameNode
    asked: list[type[Message]] = []

    class Counting(NameNode):
        def handle(self, message: Message, now_s: float) -> Outcome:
            asked.append(type(message))
            return super().handle(message, now_s)

    NameNodeServer(transport, Counting(topology(), journal, now_s()), tick_s=60.0)
    client = DfsClient(transport, topology())
    file = client.create(CreateFile(path="/f")) if by_hand else _NO_FILE
    if by_hand:
        assert client.set_safe_mode(on=True)
    for act in (lambda: client.mkdir("/a"), lambda: client.fill("/f", file, [b"x"])):
        with pytest.raises(NotDone, match="Name node is in safe mode") as refused:
            act()
        assert not isinstance(refused.value, NoRoom)
    client.close()
    times = Counter(asked)
    assert (times[MakeFolder], times[AddBlock]) == ((1, 1) if by_hand else (4, 6))
