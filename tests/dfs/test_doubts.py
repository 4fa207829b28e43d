"""Only a replica's own DataNode can declare it corrupt, and the last one is never deleted."""

from __future__ import annotations

import pytest

from railyard.cluster.ids import rack_of
from railyard.dfs.messages import (
    AddBlock,
    BlockReplicated,
    BlockReport,
    CompleteFile,
    CreateFile,
    DeleteReplicas,
    HeldBlock,
    Remove,
    ReplicasDeleted,
    ReplicateBlock,
    ReplicaVerified,
    StoredBlock,
    VerifyReplica,
)
from railyard.dfs.namenode.datanodes import VERIFY_AGAIN_S
from tests.dfs.simulated import SimulatedDfs


def ordered(d, *kinds):
    """The commands of some kinds, without those that delete what is damaged."""
    found = [command for command in d.commands if isinstance(command, kinds)]
    return [command for command in found if command not in damaged_deleted(d)]


def damaged_deleted(d):
    return [each for each in d.commands if isinstance(each, VerifyReplica) and each.delete]


def test_a_reader_that_is_mistaken_costs_no_replica():
    d = SimulatedDfs()
    d.write("/f")
    nodes, block = d.nodes("/f"), d.block("/f")
    for node in nodes:
        d.accuse(node, block)
    d.run(5)
    assert d.nodes("/f") == nodes
    assert d.check().healthy
    assert len(ordered(d, VerifyReplica)) == 3
    assert not ordered(d, DeleteReplicas, ReplicateBlock)
    assert not damaged_deleted(d)


def test_a_suspect_is_read_last_and_looked_at_once_however_often_it_is_accused():
    d = SimulatedDfs()
    d.write("/f")
    (first, *others), block = d.nodes("/f"), d.block("/f")
    d.silent.add(rack_of(first))  # it does not answer yet
    for _ in range(100):
        d.accuse(first, block)
    assert len(ordered(d, VerifyReplica)) == 1
    assert d.nodes("/f") == tuple(others)
    assert d.doubtful("/f") == (first,)
    assert d.check().under_replicated[0].suspect == (first,)


def test_all_replicas_being_suspect_they_are_still_given_to_readers():
    d = SimulatedDfs()
    d.write("/f")
    nodes, block = d.nodes("/f"), d.block("/f")
    d.silent |= {rack_of(node) for node in nodes}
    for node in nodes:
        d.accuse(node, block)
    assert d.nodes("/f") == ()
    assert d.doubtful("/f") == nodes


def test_what_cannot_be_read_just_now_is_kept_made_up_for_and_used_again():
    d = SimulatedDfs()
    d.write("/f")
    node, block = d.nodes("/f")[0], d.block("/f")
    d.unreadable.add(node)
    d.accuse(node, block)
    assert node not in d.nodes("/f")
    assert d.doubtful("/f") == (node,)
    d.run(5)
    assert len(d.nodes("/f")) == 3
    assert block in d.disks[node]
    assert not ordered(d, DeleteReplicas)
    assert not damaged_deleted(d)
    d.unreadable.clear()
    d.run(VERIFY_AGAIN_S)
    assert d.doubtful("/f") == ()
    assert (len(d.nodes("/f")), d.check().over_replicated) == (3, 0)


def test_a_damaged_replica_stays_until_there_are_enough_sound_ones():
    d = SimulatedDfs()
    d.write("/f")
    bad, block = d.nodes("/f")[0], d.block("/f")
    d.spoil(bad, block)
    assert ordered(d, ReplicateBlock)
    assert not damaged_deleted(d)
    assert block in d.disks[bad]
    d.run(0.5)
    assert len(d.nodes("/f")) == 3
    assert [order.node for order in damaged_deleted(d)] == [bad]
    assert block not in d.disks[bad]


def test_a_damaged_replica_on_the_only_other_node_makes_place_for_a_copy():
    d = SimulatedDfs(racks=2, nodes=1, replication=2)
    d.write("/f")
    d.spoil("r0n0", d.block("/f"))
    d.run(3)
    assert d.nodes("/f") == ("r0n0", "r1n0")
    assert not d.corrupt


@pytest.mark.parametrize("last", ["damaged", "unreadable"])
def test_the_last_copies_are_kept_whatever_they_are(last):
    d = SimulatedDfs()
    d.write("/f")
    nodes, block = d.nodes("/f"), d.block("/f")
    if last == "unreadable":
        d.unreadable.add(nodes[2])
    for node in nodes:
        d.spoil(node, block)
    d.run(2 * VERIFY_AGAIN_S)
    assert not ordered(d, DeleteReplicas)
    assert not damaged_deleted(d)
    assert all(block in d.disks[node] for node in nodes)
    assert d.check().missing[0].path == "/f"


def test_damage_that_has_passed_is_forgotten_after_a_while():
    d = SimulatedDfs(racks=1, nodes=1, replication=1)
    d.write("/f")
    d.spoil("r0n0", d.block("/f"))
    assert not d.check().healthy
    d.corrupt.clear()  # somebody put the file back
    d.run(VERIFY_AGAIN_S + 1)
    assert d.check().healthy


def test_damage_that_has_passed_is_forgotten_when_the_datanode_registers():
    d = SimulatedDfs(racks=1, nodes=1, replication=1)
    d.write("/f")
    d.spoil("r0n0", d.block("/f"))
    d.corrupt.clear()
    d.register("r0")
    assert d.check().healthy


def test_damage_that_has_not_passed_is_still_known_when_the_datanode_registers():
    d = SimulatedDfs(racks=1, nodes=1, replication=1)
    d.write("/f")
    d.spoil("r0n0", d.block("/f"))
    d.kill("r0")
    d.run(10)
    d.revive("r0")
    assert d.check().missing[0].corrupt == ("r0n0",)


def test_a_replica_that_proves_sound_before_it_is_deleted_is_sound_again():
    d = SimulatedDfs()
    d.write("/f")
    bad, block = d.nodes("/f")[0], d.block("/f")
    d.spoil(bad, block)
    d.corrupt.clear()
    d.run(3)
    assert [order.node for order in damaged_deleted(d)] == [bad]
    assert not ordered(d, VerifyReplica)[1:]
    d.run(1)
    assert (len(d.nodes("/f")), d.check().over_replicated) == (3, 0)


def test_damage_that_a_datanode_finds_by_itself_counts():
    d = SimulatedDfs()
    d.write("/f")
    bad, block = d.nodes("/f")[0], d.block("/f")
    d.corrupt.add((bad, block))
    d.verify(bad, block)
    d.run(3)
    assert len(d.nodes("/f")) == 3
    assert not d.corrupt


def test_a_copy_whose_source_cannot_be_read_is_made_from_another():
    d = SimulatedDfs(racks=1, nodes=4, replication=3)
    d.write("/f")
    first, second, third = d.nodes("/f")
    (fourth,) = set(d.disks) - {first, second, third}
    d.unreadable.add(first)
    d.lost.add(third)
    d.run(5)
    assert ordered(d, ReplicateBlock)[0].source == first
    assert d.nodes("/f") == tuple(sorted([second, fourth]))
    assert d.doubtful("/f") == (first,)
    d.unreadable.clear()
    d.run(VERIFY_AGAIN_S + 1)
    assert len(d.nodes("/f")) == 3


# Reports -----------------------------------------------------------------------------------------
def test_replicas_deleted_by_hand_are_noticed_and_made_anew():
    d = SimulatedDfs()
    d.write("/f", blocks=4)
    for block in range(4):
        gone = d.nodes("/f", block)[0]
        del d.disks[gone][d.block("/f", block)]
    assert d.check().healthy, "nobody has looked"
    d.report()
    assert len(d.check().under_replicated) == 4
    d.run(5)
    assert d.check().healthy
    assert sum(map(len, d.disks.values())) == 12


def test_all_replicas_deleted_by_hand_are_missing():
    d = SimulatedDfs()
    d.write("/f")
    nodes = d.nodes("/f")
    for disk in d.disks.values():
        disk.clear()
    d.report()
    (trouble,) = d.check().missing
    assert (trouble.nodes, trouble.corrupt) == ((), nodes)


def test_a_replica_of_another_length_is_looked_at():
    d = SimulatedDfs()
    d.write("/f")
    short, block = d.nodes("/f")[0], d.block("/f")
    d.disks[short][block] = HeldBlock(block=block, stored_length=99)
    d.corrupt.add((short, block))
    d.report()
    d.run(3)
    assert d.check().healthy
    assert not d.corrupt


def test_a_report_of_a_range_says_nothing_of_other_blocks():
    d = SimulatedDfs()
    d.write("/f", blocks=3)
    middle, node = d.block("/f", 1), d.nodes("/f", 1)[0]
    empty = BlockReport(node=node, first=middle, last=middle, held=())
    d.send(empty)
    assert [order.block for order in ordered(d, VerifyReplica)] == [middle]


def test_a_replica_that_nobody_knew_of_is_looked_at_and_counted():
    d = SimulatedDfs()
    d.write("/f", acknowledged=2)
    d.silent |= {"r0", "r1", "r2"}  # so that no copy is made yet
    block = d.block("/f")
    d.silent.clear()
    d.commands.clear()
    d.slow.clear()
    has_none = next(n for n in d.disks if block not in d.disks[n])
    d.disks[has_none][block] = HeldBlock(block=block, stored_length=100)
    d.report()
    assert has_none in d.nodes("/f")


def test_a_block_that_was_completed_after_a_report_was_made_is_not_taken_for_missing():
    d = SimulatedDfs()
    stale = [BlockReport(node=n, first=0, last=2**63 - 1, held=()) for n in d.disks]
    d.write("/f")
    nodes = d.nodes("/f")
    for report in stale:
        d.send(report)
    assert d.nodes("/f") == nodes
    assert not ordered(d, DeleteReplicas, ReplicateBlock)
    assert not damaged_deleted(d)


def test_a_report_that_was_made_before_a_deletion_brings_nothing_back():
    d = SimulatedDfs()
    d.write("/f", replication=4)
    stale = [
        BlockReport(node=n, first=0, last=2**63 - 1, held=tuple(held.values()))
        for n, held in d.disks.items()
    ]
    d.write("/g")
    d.send(Remove(path="/f"))
    for report in stale:
        d.send(report)
    d.run(3)
    assert sum(map(len, d.disks.values())) == 3
    assert d.check().healthy


def test_a_deletion_that_nobody_ordered_is_looked_into():
    d = SimulatedDfs()
    d.write("/f")
    node, block = d.nodes("/f")[0], d.block("/f")
    d.send(ReplicasDeleted(node=node, blocks=(block,)))
    assert node in d.nodes("/f"), "it has it all the same"
    del d.disks[node][block]
    d.send(ReplicasDeleted(node=node, blocks=(block,)))
    assert node not in d.nodes("/f")
    d.run(3)
    assert d.check().healthy


def empty(d: SimulatedDfs, node: str) -> None:
    """A node's disk is lost, and its DataNode is started again at once."""
    d.disks[node].clear()
    d.register(rack_of(node))


def on_disks(d: SimulatedDfs, block: int) -> set[str]:
    return {node for node, held in d.disks.items() if block in held}


def test_a_replica_that_was_lost_before_its_file_was_complete_is_not_believed_in():
    d = SimulatedDfs()
    file = d.send(CreateFile(path="/f")).file
    added = d.send(AddBlock(file=file, stored_length=100))
    for node in added.nodes:
        d.hold(node, added.block, 100)
    gone = added.nodes[0]
    empty(d, gone)
    stored = StoredBlock(block=added.block, nodes=added.nodes)  # as they have acknowledged
    d.send(CompleteFile(file=file, blocks=(stored,)))
    assert gone not in d.nodes("/f")
    d.run(2.0)
    assert len(d.nodes("/f")) == 3
    assert set(d.nodes("/f")) == on_disks(d, added.block)


def test_a_replica_that_its_datanode_still_has_when_the_file_is_complete_is_sound():
    d = SimulatedDfs()
    file = d.send(CreateFile(path="/f")).file
    added = d.send(AddBlock(file=file, stored_length=100))
    late, *rest = added.nodes
    for node in rest:
        d.hold(node, added.block, 100)
    for node in added.nodes:
        d.register(rack_of(node))  # when one of them did not have it yet
    d.complete(file, added)
    assert set(d.nodes("/f")) == set(added.nodes)
    assert [order.node for order in ordered(d, VerifyReplica)] == [late]
    assert not ordered(d, ReplicateBlock)


def test_a_copy_that_is_reported_after_its_target_was_lost_is_not_believed_in():
    d = SimulatedDfs()
    d.write("/f")
    block = d.block("/f")
    empty(d, d.nodes("/f")[0])
    [copy] = d.slow
    d.slow.clear()
    empty(d, copy.target)  # right after the copy, which its source reports now
    d.send(BlockReplicated(block=block, target=copy.target, stored_length=100))
    assert copy.target not in d.nodes("/f")
    d.run(2.0)
    assert len(d.nodes("/f")) == 3
    assert set(d.nodes("/f")) == on_disks(d, block)


def test_a_copy_whose_node_dies_is_replaced_at_once():
    d = SimulatedDfs(racks=4)
    d.write("/f")
    empty(d, d.nodes("/f")[0])
    for end in ("target", "source"):
        node = getattr(d.slow.pop(), end)
        d.register(rack_of(node))
        assert d.slow, end


def test_facts_of_blocks_and_nodes_that_are_gone_change_nothing():
    d = SimulatedDfs()
    d.write("/f")
    node, block = d.nodes("/f")[0], d.block("/f")
    d.kill(rack_of(node))
    d.run(10)
    before = d.nodes("/f")
    for found in ("sound", "damaged", "unreadable"):
        d.send(ReplicaVerified(block=block, node=node, found=found))
        d.send(ReplicaVerified(block=987654, node=node, found=found))
    d.send(BlockReport(node=node, first=0, last=2**63 - 1, held=()))
    assert d.nodes("/f") == before
    assert d.check().healthy
