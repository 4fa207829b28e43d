"""Moves of blocks: copied first, then dropped where they were; what fails leaves all as it was."""

from __future__ import annotations

import random

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages.datanodes import DeleteReplicas, ReplicateBlock
from railyard.dfs.messages.files import MoveReplica, Remove, ReplicaMoved
from railyard.dfs.namenode.replicas.replication import COPIES_A_SOURCE_MAX
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
