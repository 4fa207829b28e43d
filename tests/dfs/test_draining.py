"""Nodes that are drained: their replicas are made elsewhere first, by the rule, then deleted."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_of
from railyard.dfs.messages.datanodes import DeleteReplicas, ReplicateBlock
from railyard.dfs.messages.draining import DrainNodes
from railyard.dfs.messages.files import AddBlock, CreateFile, LocateBlocks, MoveReplica
from tests.dfs.simulated import SimulatedDfs

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
