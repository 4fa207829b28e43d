from __future__ import annotations

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_of
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    CompleteFile,
    CreateFile,
    DataNodeHeartbeat,
    DeleteReplicas,
    DrainNodes,
    Gather,
    GetStatus,
    GetStorageReport,
    GetUsage,
    HeldBlock,
    ListFolder,
    Move,
    MoveFiles,
    RegisterDataNode,
    Remove,
    ReplicateBlock,
    StoredBlock,
)
from railyard.dfs.namenode.openfiles import WRITER_PATIENCE_S
from railyard.dfs.namenode.sqlitejournal import SqliteJournal
from tests.dfs.simulated import SimulatedDfs


def test_a_file_is_seen_when_it_is_complete_and_not_before():
    d = SimulatedDfs()
    created = d.send(CreateFile(path="/a/f"))
    added = d.send(AddBlock(file=created.file, stored_length=70))
    assert d.send(GetStatus(path="/a/f")).status is None
    assert d.send(GetStatus(path="/a")).status is None
    stored = StoredBlock(block=added.block, nodes=added.nodes)
    status = d.send(CompleteFile(file=created.file, blocks=(stored,))).status
    assert (status.path, status.stored_length, status.blocks) == ("/a/f", 70, 1)
    assert d.nodes("/a/f") == tuple(sorted(added.nodes))
    assert [e.path for e in d.send(ListFolder(path="/a")).entries] == ["/a/f"]


def test_a_file_may_be_begun_with_its_first_block():
    d = SimulatedDfs()
    created = d.send(CreateFile(path="/f/", writer="r1n1", first_stored_length=70))
    assert created.first.nodes[0] == "r1n1"
    more = d.send(AddBlock(file=created.file, stored_length=30))
    stored = [StoredBlock(block=each.block, nodes=each.nodes) for each in (created.first, more)]
    status = d.send(CompleteFile(file=created.file, blocks=tuple(stored))).status
    assert (status.path, status.stored_length, status.blocks) == ("/f", 100, 2)


def test_a_file_that_is_refused_its_first_block_is_not_begun():
    d = SimulatedDfs()
    for length in (-1, 101):
        with pytest.raises(PeerError, match="need 1 to 100 bytes"):
            d.send(CreateFile(path="/f", first_stored_length=length))
    with pytest.raises(PeerError, match="file 1 is not being written"):
        d.send(AbandonFile(file=1))


def test_a_block_that_is_given_twice_is_refused():
    d = SimulatedDfs()
    created = d.send(CreateFile(path="/f", first_stored_length=9))
    stored = StoredBlock(block=created.first.block, nodes=created.first.nodes)
    with pytest.raises(PeerError, match="not one of its blocks, or given twice"):
        d.send(CompleteFile(file=created.file, blocks=(stored, stored)))


def test_of_two_writers_of_a_path_the_first_to_complete_gets_it():
    d = SimulatedDfs()
    late = d.send(CreateFile(path="/f"))
    added = d.send(AddBlock(file=late.file, stored_length=9))
    d.write("/f")
    stored = StoredBlock(block=added.block, nodes=added.nodes)
    with pytest.raises(PeerError, match="/f: exists already"):
        d.send(CompleteFile(file=late.file, blocks=(stored,)))
    d.send(AbandonFile(file=late.file))
    assert d.commands[-1].blocks == (added.block,)


def test_an_overwritten_file_stays_until_the_new_one_is_complete():
    d = SimulatedDfs()
    d.write("/f", blocks=2)
    old = d.nodes("/f")
    with pytest.raises(PeerError, match="/f: exists already"):
        d.write("/f")
    created = d.send(CreateFile(path="/f", overwrite=True))
    assert d.nodes("/f") == old
    d.send(CompleteFile(file=created.file, blocks=()))
    assert d.send(GetStatus(path="/f")).status.stored_length == 0
    assert not any(d.disks.values())


def test_a_file_is_not_begun_once_what_excludes_it_is_there():
    d = SimulatedDfs()
    late = CreateFile(path="/out/_temporary/b", unless="/out/_SUCCESS")
    d.send(CompleteFile(file=d.send(late).file, blocks=()))
    d.send(MoveFiles(markers=("/out/_SUCCESS",), remove=("/out/_temporary",)))
    with pytest.raises(PeerError, match=r"b: is not wanted any more: /out/_SUCCESS exists"):
        d.send(late)
    assert d.send(GetStatus(path="/out/_temporary")).status is None


def test_removing_a_folder_ends_the_files_that_are_written_in_it():
    d = SimulatedDfs()
    d.write("/out/_temporary/a")
    zombie = d.send(CreateFile(path="/out/_temporary/b"))
    d.send(Remove(path="/out/_temporary", recursive=True))
    with pytest.raises(PeerError, match="is not being written"):
        d.send(CompleteFile(file=zombie.file, blocks=()))


def test_a_job_commits_in_one_message():
    d = SimulatedDfs()
    for part in range(3):
        d.write(f"/out/_temporary/j0.r{part}.0/part-{part}")
    moves = tuple(
        Move(source=f"/out/_temporary/j0.r{p}.0/part-{p}", target=f"/out/part-{p}")
        for p in range(3)
    )
    commit = MoveFiles(moves=moves, markers=("/out/_SUCCESS",), remove=("/out/_temporary", "/no"))
    d.send(commit)
    names = [entry.path for entry in d.send(ListFolder(path="/out")).entries]
    assert names == ["/out/_SUCCESS", "/out/part-0", "/out/part-1", "/out/part-2"]
    with pytest.raises(PeerError, match="no such file"):
        d.send(commit)
    assert d.check().healthy


def test_a_commit_may_name_the_winners_folders_only():
    d = SimulatedDfs()
    for part in range(3):
        d.write(f"/out/_temporary/j0.r{part}.0/part-{part}")
    gather = Gather(source="/out/_temporary", folders=("j0.r0.0", "j0.r2.0"), target="/out")
    commit = MoveFiles(gathers=(gather,), markers=("/out/_SUCCESS",), remove=("/out/_temporary",))
    d.send(commit)
    names = [entry.path for entry in d.send(ListFolder(path="/out")).entries]
    assert names == ["/out/_SUCCESS", "/out/part-0", "/out/part-2"]
    with pytest.raises(PeerError, match="/out/_temporary: no such file"):
        d.send(commit)
    d.run(1)
    assert d.check().healthy
    assert sum(map(len, d.disks.values())) == 2 * 3


def test_a_dead_writers_file_is_given_up():
    d = SimulatedDfs()
    created = d.send(CreateFile(path="/f"))
    added = d.send(AddBlock(file=created.file, stored_length=9))
    for node in added.nodes:
        d.disks[node][added.block] = HeldBlock(block=added.block, stored_length=9)
    d.run(WRITER_PATIENCE_S + 1)
    assert not any(d.disks.values())
    with pytest.raises(PeerError, match="is not being written"):
        d.send(AddBlock(file=created.file, stored_length=9))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (CreateFile(path="/f", writer="r9n9"), "'r9n9' is not a node"),
        (CreateFile(path="/f", replication=-1), "need 0 .* to 6"),
        (CreateFile(path="/f", replication=7), "need 0 .* to 6"),
        (CreateFile(path="f"), "relative"),
        (AddBlock(file=99, stored_length=1), "file 99 is not being written"),
        (AddBlock(file=1, stored_length=0), "need 1 to 100 bytes"),
        (AddBlock(file=1, stored_length=101), "need 1 to 100 bytes"),
        (
            CompleteFile(file=1, blocks=(StoredBlock(block=7, nodes=("r0n0",)),)),
            "not one of its blocks",
        ),
        (RegisterDataNode(rack="r0", pid=1, nodes={"r1n0": ()}), "r1n0 is not in rack r0"),
        (RegisterDataNode(rack="r9", pid=1, nodes={}), "'r9' is not a rack"),
        (DataNodeHeartbeat(rack="r9", nodes=()), "'r9' is not a rack"),
        (Remove(path="/none"), "no such file"),
        (GetUsage(path="/none"), "no such file"),
    ],
)
def test_refusals(message, why):
    d = SimulatedDfs()
    d.send(CreateFile(path="/open"))
    with pytest.raises(PeerError, match=why):
        d.send(message)


def test_a_block_needs_a_node_that_is_alive():
    d = SimulatedDfs(racks=1, nodes=1, replication=1)
    created = d.send(CreateFile(path="/f"))
    added = d.send(AddBlock(file=created.file, stored_length=9))
    d.kill("r0")
    d.run(5)
    stored = StoredBlock(block=added.block, nodes=added.nodes)
    with pytest.raises(PeerError, match="written to no node that is alive"):
        d.send(CompleteFile(file=created.file, blocks=(stored,)))
    with pytest.raises(PeerError, match="no node is left"):
        d.send(AddBlock(file=created.file, stored_length=9))


def test_another_try_of_a_block_avoids_the_nodes_that_failed():
    d = SimulatedDfs()
    created = d.send(CreateFile(path="/f", writer="r0n0"))
    added = d.send(AddBlock(file=created.file, stored_length=9))
    assert added.nodes[0] == "r0n0"
    again = AddBlock(
        file=created.file, stored_length=9, instead_of=added.block, exclude=("r0n0", "r0n1")
    )
    assert not {"r0n0", "r0n1"} & set(d.send(again).nodes)
    assert {c.node for c in d.commands if isinstance(c, DeleteReplicas)} == set(added.nodes)


def test_usage_counts_files_once_and_disks_by_replica():
    d = SimulatedDfs()
    d.write("/a/f", blocks=3)
    d.write("/a/b/g", replication=2)
    usage = d.send(GetUsage(path="/a"))
    assert (usage.files, usage.folders, usage.blocks) == (2, 2, 4)
    assert (usage.stored_bytes, usage.stored_disk_bytes) == (400, 3 * 300 + 2 * 100)


# Replication -------------------------------------------------------------------------------------
def test_the_report_for_who_administers_the_store():
    d = SimulatedDfs(racks=3, nodes=1, replication=2)
    d.write("/f", blocks=2)
    d.write("/g", replication=1, writer="r2n0")
    d.kill("r2")
    d.run(3.0)
    before = d.send(GetStorageReport())
    assert all(node.alive for node in before.nodes)
    assert [node.silent_s for node in before.nodes] == [0.0, 0.0, 3.0]
    assert sum(node.replicas for node in before.nodes) == 5
    assert sum(node.stored_bytes for node in before.nodes) == 500
    d.send(DrainNodes(nodes=("r1n0",)))
    assert [node.draining for node in d.send(GetStorageReport()).nodes] == [False, True, False]
    d.send(DrainNodes(nodes=()))
    d.run(3.0)
    report = d.send(GetStorageReport())
    lost = report.nodes[2]
    assert (lost.alive, lost.replicas, lost.stored_bytes, lost.silent_s) == (False, 0, 0, None)
    assert (report.missing, report.missing_single) == (1, 1)
    assert (report.under_replicated, report.urgent) == (0, 0)  # they were made anew
    assert (report.corrupt, report.leaving, report.safe_mode) == (0, 0, False)


def test_a_dead_datanode_is_noticed_and_its_replicas_are_made_anew():
    d = SimulatedDfs()
    d.write("/f", blocks=8)
    d.kill("r1")
    d.run(3.5)
    assert d.check().nodes_lost == ()
    d.run(10)
    assert d.check().nodes_lost == ("r1n0", "r1n1")
    assert d.check().healthy
    assert all(rack_of(n) != "r1" for b in range(8) for n in d.nodes("/f", b))


def test_a_node_can_be_lost_alone():
    d = SimulatedDfs()
    d.write("/f", blocks=8)
    d.lost.add("r1n0")
    d.run(0.5)
    assert d.check().nodes_lost == ("r1n0",)
    d.run(10)
    assert d.check().healthy


def test_replicas_that_come_back_are_too_many_and_some_go():
    d = SimulatedDfs()
    d.write("/f", blocks=8)
    d.kill("r1")
    d.run(15)
    d.revive("r1")
    d.run(5)
    report = d.check()
    assert (report.replicas, report.over_replicated, report.healthy) == (24, 0, True)
    assert sum(map(len, d.disks.values())) == 24


def test_a_datanode_that_only_stalled_registers_again():
    d = SimulatedDfs()
    d.write("/f")
    d.kill("r0")
    d.run(6)
    d.silent.clear()
    d.run(3)
    assert d.check().nodes_lost == ()


def test_a_corrupt_replica_is_replaced_elsewhere_and_deleted():
    d = SimulatedDfs()
    d.write("/f")
    bad, block = d.nodes("/f")[0], d.block("/f")
    d.spoil(bad, block)
    assert bad not in d.nodes("/f")
    d.run(3)
    assert len(d.nodes("/f")) == 3
    assert bad not in d.nodes("/f")
    assert block not in d.disks[bad]


def test_the_last_replica_is_kept_even_if_it_is_corrupt():
    d = SimulatedDfs(replication=1)
    d.write("/f")
    (node,), block = d.nodes("/f"), d.block("/f")
    d.spoil(node, block)
    d.run(5)
    (trouble,) = d.check().missing
    assert (trouble.path, trouble.nodes, trouble.corrupt) == ("/f", (), (node,))
    assert block in d.disks[node]


def test_what_a_pipeline_did_not_reach_is_copied_later():
    d = SimulatedDfs()
    d.write("/f", blocks=2, acknowledged=1)
    assert len(d.nodes("/f")) == 1
    d.run(5)
    assert d.check().healthy


def test_too_few_nodes_for_all_replicas_is_no_endless_work():
    d = SimulatedDfs(racks=2, nodes=1, replication=3)
    with pytest.raises(PeerError, match="need 0"):
        d.write("/g", replication=3)
    d.write("/f")
    d.commands.clear()
    d.run(20)
    assert d.commands == []
    (trouble,) = d.check().under_replicated
    assert (trouble.wanted, len(trouble.nodes)) == (3, 2)


def test_a_source_sends_a_few_copies_at_a_time():
    d = SimulatedDfs(racks=2, nodes=2, replication=2)
    d.write("/f", blocks=40)
    d.kill("r0")
    for _ in range(20):
        d.run(0.5)
        senders = [copy.source for copy in d.slow]
        assert all(senders.count(sender) <= 4 for sender in senders)
    d.run(20)
    assert d.check().healthy


class Chaos:
    """Random files and faults, at most one rack or node dead at a time."""

    def __init__(self, seed):
        self.d = SimulatedDfs(seed=seed, racks=4, nodes=2, replication=3)
        self.written = []
        self.acts = [self.write, self.write, self.remove, self.kill, self.lose, self.revive]
        self.acts += [self.spoil, self.vanish, self.accuse, self.lock, self.d.report, self.drain]
        self.drained = ()  #: the nodes that are

    def step(self):
        self.d.run(self.d.rng.choice([0, 0.5, 2, 5]))
        self.d.rng.choice(self.acts)()

    @property
    def faulty(self):
        return bool(self.d.silent or self.d.lost)

    def write(self):
        path = f"/f{self.d.rng.random()}"
        try:
            self.d.write(path, blocks=3)
        except PeerError:  # all of the nodes that were chosen are dead
            return
        self.written.append(path)

    def remove(self):
        if self.written:
            self.d.send(Remove(path=self.written.pop(0)))

    def kill(self):
        if not self.faulty:
            self.d.kill(f"r{self.d.rng.randrange(4)}")

    def lose(self):
        if not self.faulty:
            self.d.lost.add(self.d.rng.choice(sorted(self.d.disks)))

    def revive(self):
        self.d.run(15)  # as long as it takes to make up for what was lost
        for rack in sorted(self.d.silent):
            self.d.revive(rack)
        lost, self.d.lost = sorted(self.d.lost), set()
        for node in lost:
            self.d.register(rack_of(node))

    def spoil(self):
        for node, block in self.replica():
            self.d.spoil(node, block)

    def vanish(self):
        for node, block in self.replica():
            del self.d.disks[node][block]
            self.d.report()

    def accuse(self):
        """A reader reports a sound replica as bad."""
        for node, block in self.replica():
            self.d.accuse(node, block)

    def lock(self):
        """A node cannot read its blocks for a while."""
        for node, block in self.replica():
            self.d.unreadable = {node}
            self.d.accuse(node, block)
            self.d.run(self.d.rng.choice([0, 0.5, 40]))
            self.d.unreadable.clear()

    def drain(self):
        """A node is drained, instead of the one that was."""
        self.drained = (self.d.rng.choice(sorted(self.d.disks)),)
        self.d.send(DrainNodes(nodes=self.drained))

    def replica(self):
        """One of a block that has as many as it should, or none."""
        if not self.written or self.faulty:
            return []
        path = self.d.rng.choice(self.written)
        nodes = self.d.nodes(path)
        return [(self.d.rng.choice(nodes), self.d.block(path))] if len(nodes) == 3 else []


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_all_is_well_after_the_faults_have_stopped(seed):
    chaos = Chaos(seed)
    for _ in range(60):
        chaos.step()
    chaos.revive()
    for _ in range(3):  # as it is asked again and again
        chaos.d.run(15)
        chaos.d.send(DrainNodes(nodes=chaos.drained))
    chaos.d.run(15)
    report = chaos.d.check()
    assert report.healthy, f"seed {seed}: {report}"
    assert report.over_replicated == 0
    assert report.files == len(chaos.written)
    held = {(node, block) for node, disk in chaos.d.disks.items() for block in disk}
    assert len(held) == 3 * report.blocks, "a replica that nobody knows of"
    assert not held & chaos.d.corrupt
    assert not [node for node, _ in held if node in chaos.drained]


# Starting again ----------------------------------------------------------------------------------
def test_a_new_namenode_knows_complete_files_and_copies_nothing_in_haste(tmp_path):
    d = SimulatedDfs(journal=SqliteJournal(tmp_path / "journal"))
    d.write("/a/f", blocks=3)
    half = d.send(CreateFile(path="/a/half"))
    added = d.send(AddBlock(file=half.file, stored_length=9))
    d.disks[added.nodes[0]][added.block] = HeldBlock(block=added.block, stored_length=9)
    d.commands.clear()
    d.restart()
    assert not any(isinstance(command, ReplicateBlock) for command in d.commands)
    assert d.check().healthy
    assert d.send(GetStatus(path="/a/half")).status is None
    assert added.block in d.disks[added.nodes[0]], "its writer may go on"
    d.write("/g")
    assert d.block("/g") > added.block + 2**31, "no id is used twice"
