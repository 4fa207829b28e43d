"""Moves of blocks: copied first, then dropped where they were; what fails leaves all as it was."""

from __future__ import annotations

import random

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages import (
    AddBlock,
    CreateFile,
    DeleteReplicas,
    DrainNodes,
    LocateBlocks,
    MoveReplica,
    Remove,
    ReplicaMoved,
    ReplicateBlock,
)
from railyard.dfs.namenode.replication import COPIES_A_SOURCE_MAX
from tests.dfs.simulated import SimulatedDfs


def dfs_with_a_file(replication: int = 2, **shape: int) -> SimulatedDfs:
    d = SimulatedDfs(replication=replication, **shape)
    d.write("/f", replication=replication)
    return d


def elsewhere(d: SimulatedDfs, path: str = "/f") -> str:
    """A node without the block."""
    return next(node for node in d.disks if node not in d.nodes(path))


def test_a_block_is_copied_and_then_dropped_where_it_was():
    d = dfs_with_a_file()
    stays, source = d.nodes("/f")
    target = elsewhere(d)
    asked = MoveReplica(path="/f", number=0, target=target, source=source)
    assert d.send(asked) is None
    assert d.nodes("/f") == (stays, source), "nothing is dropped before the copy is there"
    assert d.moved == []
    d.run(1)
    assert d.nodes("/f") == tuple(sorted((stays, target)))
    assert d.moved == [(asked, ReplicaMoved(nodes=d.nodes("/f")))]
    kinds = [type(command) for command in d.commands]
    assert kinds == [ReplicateBlock, DeleteReplicas]
    block = d.block("/f")
    assert [node for node, held in d.disks.items() if block in held] == list(d.nodes("/f"))


def test_without_a_source_the_rule_decides_what_is_dropped():
    d = dfs_with_a_file(replication=3, racks=4)  # two of the replicas are in one rack
    target = elsewhere(d)
    d.send(MoveReplica(path="/f", number=0, target=target))
    d.run(1)
    assert target in d.nodes("/f")
    assert len(d.nodes("/f")) == 3
    assert d.check().healthy
    assert not d.check().over_replicated


def test_a_single_replica_moves():
    d = dfs_with_a_file(replication=1)
    target = elsewhere(d)
    d.send(MoveReplica(path="/f", number=0, target=target))
    d.run(1)
    assert d.nodes("/f") == (target,)


def test_a_lost_target_leaves_the_block_where_it_was():
    d = dfs_with_a_file()
    before, target = d.nodes("/f"), elsewhere(d)
    d.send(MoveReplica(path="/f", number=0, target=target))
    d.lost.add(target)
    d.run(2)
    [(_, answer)] = d.moved
    assert isinstance(answer, Refusal)
    assert answer.reason == f"it could not be copied to {target}: {target} is lost"
    assert d.nodes("/f") == before
    assert d.check().healthy


def test_a_copy_that_breaks_leaves_the_block_where_it_was():
    d = dfs_with_a_file(replication=1)
    (source,), target = d.nodes("/f"), elsewhere(d)
    d.send(MoveReplica(path="/f", number=0, target=target))
    d.unreadable.add(source)
    d.run(2)
    [(_, answer)] = d.moved
    assert answer.reason == f"it could not be copied to {target}: x"
    d.unreadable.clear()
    d.run(60)
    assert d.nodes("/f") == (source,)


def test_the_old_replica_stays_while_the_block_would_have_too_few():
    d = dfs_with_a_file()
    [source, other] = d.nodes("/f")
    [target] = [n for n in d.disks if rack_of(n) == rack_of(source) and n != source]
    d.send(MoveReplica(path="/f", number=0, target=target, source=source))
    d.slow, slow = [], d.slow
    assert slow[0].source == source, "the nearest sends"
    d.lost.add(other)
    d.run(5)
    d.slow = slow
    d.run(1)
    assert {source, target} <= set(d.nodes("/f"))
    [(_, answer)] = d.moved
    assert source in answer.nodes
    assert d.check().healthy


def test_a_removed_file_ends_its_moves():
    d = dfs_with_a_file()
    d.send(MoveReplica(path="/f", number=0, target=elsewhere(d)))
    d.send(Remove(path="/f"))
    [(_, answer)] = d.moved
    assert "its file was removed" in answer.reason
    d.run(2)
    assert not any(d.disks.values())


def test_a_request_that_is_sent_again_has_one_copy_and_two_answers():
    d = dfs_with_a_file()
    asked = MoveReplica(path="/f", number=0, target=elsewhere(d))
    d.send(asked)
    d.send(asked)
    assert len(d.slow) == 1
    d.run(1)
    assert len(d.moved) == 2
    assert d.send(asked) == ReplicaMoved(nodes=d.nodes("/f")), "it is done already"
    assert len(d.nodes("/f")) == 2


def test_what_cannot_be_moved_is_refused():
    d = dfs_with_a_file()
    target = elsewhere(d)
    wrong = {
        "/no: no such file": MoveReplica(path="/no", number=0, target=target),
        "/f: block 1: need a file with that block: it has 1": MoveReplica(
            path="/f", number=1, target=target
        ),
        "'r9n0' is not a node": MoveReplica(path="/f", number=0, target="r9n0"),
    }
    for words, asked in wrong.items():
        with pytest.raises(PeerError, match=words):
            d.send(asked)
    d.lost.add(target)
    d.run(1)
    with pytest.raises(PeerError, match=f"/f: block 0: {target} is lost"):
        d.send(MoveReplica(path="/f", number=0, target=target))


def test_a_node_sends_a_few_copies_at_once():
    d = SimulatedDfs(replication=1, racks=2, nodes=1)
    for number in range(10):
        d.write(f"/f{number}", replication=1, writer="r0n0")
    for number in range(10):
        d.send(MoveReplica(path=f"/f{number}", number=0, target="r1n0"))
    assert len(d.slow) == COPIES_A_SOURCE_MAX
    d.run(5)
    assert [answer for _, answer in d.moved] == [ReplicaMoved(nodes=("r1n0",))] * 10


@pytest.mark.parametrize("seed", range(40))
def test_moves_among_faults_lose_nothing_and_are_all_answered(seed):
    dice = random.Random(seed)
    d = SimulatedDfs(seed, replication=2, racks=4, nodes=2)
    paths = [f"/f{at}" for at in range(6)]
    for path in paths:
        d.write(path, replication=2)
    asked = []
    for _ in range(60):
        path, node = dice.choice(paths), dice.choice(list(d.disks))
        match dice.randrange(4):
            case 0 if not d.lost:
                d.lost.add(node)
            case 1:
                for lost in list(d.lost):
                    d.lost.discard(lost)
                    d.register(lost.partition("n")[0])
            case _:
                source = dice.choice([None, *d.nodes(path)])
                wanted = MoveReplica(path=path, number=0, target=node, source=source)
                try:
                    if d.send(wanted) is None:
                        asked.append(wanted)
                except PeerError:
                    pass
        d.run(dice.choice([0, 0.5, 2]))
        for path in paths:
            assert d.nodes(path), f"{path} is lost; seed {seed}"
    for lost in list(d.lost):
        d.lost.discard(lost)
        d.register(lost.partition("n")[0])
    d.run(400)
    assert sorted(map(str, asked)) == sorted(str(wanted) for wanted, _ in d.moved)
    report = d.check()
    assert report.healthy
    assert not report.over_replicated


# Nodes that are drained: their replicas are made elsewhere first, by the rule, then deleted.


BLOCKS = 12


def drained(d: SimulatedDfs, *nodes: str, new: str | None = None) -> dict[str, int]:
    """Ask for these nodes to be drained; what they have yet."""
    return d.send(DrainNodes(nodes=nodes, new=new)).replicas


def with_files(**shape: int) -> SimulatedDfs:
    d = SimulatedDfs(**{"racks": 3, "nodes": 3, "replication": 3, **shape})
    d.write("/f", blocks=BLOCKS)
    return d


def everywhere(d: SimulatedDfs) -> dict[str, int]:
    return {node: len(held) for node, held in d.disks.items()}


def test_replicas_are_made_elsewhere_before_they_are_deleted():
    d = with_files()
    before = everywhere(d)["r1n0"]
    assert drained(d, "r1n0", new="r1n0") == {"r1n0": before}
    assert before > 0
    deleted = [each for each in d.commands if isinstance(each, DeleteReplicas)]
    assert deleted == [], "nothing is deleted before the copy is there"
    while drained(d, "r1n0")["r1n0"]:
        assert d.check().healthy
        d.run(0.5)
    report = d.check()
    assert (report.replicas, report.over_replicated) == (3 * BLOCKS, 0)
    assert everywhere(d)["r1n0"] == 0
    for number in range(BLOCKS):
        assert len({rack_of(node) for node in d.nodes("/f", number)}) == 2, "the rule is kept"
    assert sum(isinstance(each, ReplicateBlock) for each in d.commands) == before


def test_new_blocks_and_copies_go_elsewhere():
    d = with_files()
    drained(d, "r1n0", "r1n1")
    d.run(10)
    d.write("/g", blocks=BLOCKS, writer="r1n0")
    assert everywhere(d)["r1n0"] == everywhere(d)["r1n1"] == 0
    with pytest.raises(PeerError, match="/f: block 0: r1n0 is drained"):
        d.send(MoveReplica(path="/f", number=0, target="r1n0"))
    d.lost.add("r2n2")
    d.run(20)
    assert d.check().healthy
    assert everywhere(d)["r1n0"] == everywhere(d)["r1n1"] == 0


def test_a_block_that_was_being_written_is_moved_once_it_is_complete():
    d = SimulatedDfs(racks=3, nodes=3, replication=3)
    file = d.send(CreateFile(path="/f", writer="r1n0")).file
    added = d.send(AddBlock(file=file, stored_length=100))
    assert "r1n0" in added.nodes
    assert drained(d, "r1n0", new="r1n0") == {"r1n0": 1}
    d.run(5)
    assert drained(d, "r1n0") == {"r1n0": 1}
    d.complete(file, added)
    assert d.nodes("/f") == tuple(sorted(added.nodes))
    assert d.send(LocateBlocks(path="/f")).files[0].blocks[0].draining == ("r1n0",)
    drained(d, "r1n0")
    d.run(5)
    assert drained(d, "r1n0") == {"r1n0": 0}
    assert d.check().healthy


def test_a_node_that_is_taken_back_counts_again():
    d = with_files()
    drained(d, "r1n0", new="r1n0")
    assert drained(d) == {}
    d.run(10)
    report = d.check()
    assert (report.replicas, report.over_replicated, report.healthy) == (3 * BLOCKS, 0, True)
    d.write("/g", blocks=4 * BLOCKS)
    assert everywhere(d)["r1n0"] > 0


def test_a_replica_that_is_the_only_sound_one_stays_until_there_is_another():
    d = SimulatedDfs(racks=2, nodes=2, replication=2)
    d.write("/f")
    source, _ = d.nodes("/f")
    d.lost.update(node for node in d.disks if node != source)
    d.run(5)
    drained(d, source)
    d.run(5)
    assert d.nodes("/f") == (source,)
    d.lost.clear()
    for rack in ("r0", "r1"):
        d.register(rack)
    drained(d, source)
    d.run(120)
    assert source not in d.nodes("/f")
    assert d.check().healthy


def test_a_node_that_cannot_be_spared_is_refused_and_nothing_changes():
    d = with_files(racks=2, nodes=2)
    drained(d, "r1n0", new="r1n0")
    d.run(10)
    for new, why in (
        ("r1n1", "r1n1 can't be drained: blocks have 3 replicas, on 2 other nodes"),
        ("r9n9", "r9n9 is no node of this cluster"),
    ):
        with pytest.raises(PeerError, match=why):
            drained(d, "r1n0", new, new=new)
    d = with_files(racks=2, nodes=3)
    drained(d, "r1n0", "r1n1")
    d.run(10)
    with pytest.raises(PeerError, match="it is the last node outside r0, and replicas are in two"):
        drained(d, "r1n0", "r1n1", "r1n2", new="r1n2")
    assert drained(d, "r1n0", "r1n1") == {"r1n0": 0, "r1n1": 0}
    assert drained(d, "r1n0", "r1n1", new="r1n1"), "it is drained already"


def test_a_restarted_namenode_is_told_again():
    d = with_files()
    drained(d, "r1n0")
    d.run(10)
    d.restart()
    assert drained(d, "r1n0") == {"r1n0": 0}


def test_a_datanode_that_comes_back_at_once_has_nothing_copied():
    d = with_files()
    d.run(1)
    d.commands.clear()
    d.kill("r1")
    d.run(1.5)
    d.revive("r1")
    d.run(10)
    assert d.commands == []
    assert d.check().healthy
