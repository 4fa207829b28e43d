"""A NameNode in place of one that died: what it knows, what it waits for, who goes on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from railyard.cluster.errors import PeerError, PeerUnable
from railyard.cluster.ids import rack_of
from railyard.dfs.messages import (
    AddBlock,
    BlockReport,
    CompleteFile,
    Concatenate,
    CreateFile,
    DeleteReplicas,
    GetSafeMode,
    GetStatus,
    ListFolder,
    LocateBlocks,
    MakeFolder,
    Move,
    MoveFiles,
    Remove,
    ReopenFile,
    ReplicateBlock,
    SetReplication,
    SetSafeMode,
    StoredBlock,
)
from railyard.dfs.namenode import restart as answers
from railyard.dfs.namenode.core import FileStored, NameNode, Ticked
from railyard.dfs.namenode.openfiles import WRITER_PATIENCE_S
from railyard.dfs.namenode.restart import REFUSED, NotYet
from railyard.dfs.paths import LOCKED, SAFE_MODE
from railyard.oracles.faults.memoryjournal import MemoryJournal
from tests.dfs.simulated import SimulatedDfs, check_invariants


def restarted(**shape):
    """A store with a file of four blocks on each rack, whose NameNode knows no DataNode yet."""
    d = SimulatedDfs(journal=MemoryJournal(), **shape)
    d.write("/f", blocks=4)
    start_anew(d)
    return d


def start_anew(d):
    d.commands.clear()
    d.core = NameNode(d.topology, d.journal, d.now_s, seed=1)


def refused(d, message):
    with pytest.raises(NotYet) as error:
        d.send(message)
    assert error.value.kind == SAFE_MODE
    return str(error.value)


# Any history -------------------------------------------------------------------------------------
NAMES = st.sampled_from(["/a", "/b", "/a/c", "/a/d", "/b/c/d"])


class AnyHistory(RuleBasedStateMachine):
    """After any changes, a NameNode that starts has the same files, writers and answers."""

    open_files = Bundle("open_files")
    sent = Bundle("sent")

    def __init__(self):
        super().__init__()
        self.d = SimulatedDfs(journal=MemoryJournal())
        self.tokens = 0

    def try_(self, message):
        try:
            return self.d.send(message)
        except PeerError:
            return None

    def once(self, message):
        """Send a request with a token; return it with its answer, nothing if it was refused."""
        self.tokens += 1
        message = msgspec.structs.replace(message, token=f"t{self.tokens}")
        answer = self.try_(message)
        return multiple() if answer is None else (message, answer)

    @rule(path=NAMES)
    def make_folder(self, path):
        self.try_(MakeFolder(path=path))

    @rule(target=open_files, path=NAMES, overwrite=st.booleans())
    def create(self, path, overwrite):
        created = self.try_(CreateFile(path=path, overwrite=overwrite, first_stored_length=70))
        if created is None:
            return multiple()
        return created.file, [self.hold(created.first, 70)]

    @rule(target=open_files, path=NAMES)
    def reopen(self, path):
        reopened = self.try_(ReopenFile(path=path))
        return multiple() if reopened is None else (reopened.file, [])

    @rule(file=open_files, length=st.integers(1, 100))
    def add_block(self, file, length):
        added = self.try_(AddBlock(file=file[0], stored_length=length))
        if added is not None:
            file[1].append(self.hold(added, length))

    @rule(target=sent, file=open_files)
    def complete(self, file):
        return self.once(CompleteFile(file=file[0], blocks=tuple(file[1])))

    @rule(target=sent, path=NAMES)
    def remove(self, path):
        return self.once(Remove(path=path, recursive=True))

    @rule(target=sent, source=NAMES, target_path=NAMES, gone=NAMES)
    def move(self, source, target_path, gone):
        moves = (Move(source=source, target=target_path),)
        return self.once(MoveFiles(moves=moves, markers=("/a/_SUCCESS",), remove=(gone,)))

    @rule(target=sent, one=NAMES, other=NAMES)
    def concatenate(self, one, other):
        return self.once(Concatenate(target=one, sources=(other,)))

    @rule(path=NAMES, replication=st.integers(1, 3))
    def set_replication(self, path, replication):
        self.try_(SetReplication(path=path, replication=replication))

    @rule(seconds=st.sampled_from([0.5, 3.0, WRITER_PATIENCE_S]))
    def pass_time(self, seconds):
        self.d.now_s += seconds
        self.d.run(0.5)

    @rule(again=sent)
    def send_again(self, again):
        message, answer = again
        before = self.said()
        assert self.d.send(message) == answer
        assert self.said() == before

    @rule()
    def restart(self):
        before = self.said()
        self.d.restart()
        assert not self.d.core.safe_mode.on
        assert self.said() == before

    @invariant()
    def loads_add_up(self):
        check_invariants(self.d.core.blocks)

    def hold(self, added, length):
        for node in added.nodes:
            self.d.hold(node, added.block, length)
        return StoredBlock(block=added.block, nodes=added.nodes)

    def said(self):
        """All that can be asked about files."""
        waiting, found = ["/"], []
        while waiting:
            for entry in self.d.send(ListFolder(path=waiting.pop())).entries:
                found.append(entry)
                if entry.folder:
                    waiting.append(entry.path)
                else:
                    located = self.d.send(LocateBlocks(path=entry.path)).files[0]
                    found.append([(block.block, block.stored_length) for block in located.blocks])
        files = self.d.core._open._files
        return found, {n: (file.opened, dict(file.blocks)) for n, file in files.items()}


AnyHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestAnyHistoryAndARestart = AnyHistory.TestCase


# Safe mode ---------------------------------------------------------------------------------------
def test_a_first_namenode_is_not_in_safe_mode():
    d = SimulatedDfs(journal=MemoryJournal())
    assert not d.send(GetSafeMode()).on


def test_every_request_is_either_answered_in_safe_mode_or_refused():
    d = restarted()
    reads = {"get-status", "list-folder", "get-usage", "check-files", "get-safe-mode",
             "get-storage-report"}  # fmt: skip
    facts = {
        "register-data-node", "data-node-heartbeat", "block-report", "block-replicated",
        "replication-failed", "replicas-deleted", "replica-failed", "replica-verified",
    }  # fmt: skip
    refused = {kind.tag() for kind in REFUSED}
    assert reads | facts | refused | {"set-safe-mode"} == {kind.tag() for kind in d.core.messages}


def test_in_safe_mode_reads_are_answered_and_changes_are_refused_in_hdfs_words():
    d = restarted()
    assert [entry.path for entry in d.send(ListFolder(path="/")).entries] == ["/f"]
    assert d.send(GetStatus(path="/f")).status.blocks == 4
    status = d.send(GetSafeMode())
    assert (status.on, status.reported, status.needed, status.blocks) == (True, 0, 4, 4)
    words = refused(d, MakeFolder(path="/g"))
    assert words.startswith("Cannot create directory /g. Name node is in safe mode.")
    assert "0 needs additional 4 blocks to reach the threshold 0.9990 of total blocks 4" in words
    assert "Cannot delete /f." in refused(d, Remove(path="/f"))
    assert d.send(GetStatus(path="/g")).status is None


def test_a_file_is_located_once_each_of_its_blocks_is_reported():
    d = restarted()
    assert "Zero blocklocations for /f." in refused(d, LocateBlocks(path="/f"))
    with pytest.raises(PeerError, match="/no: no such file"):
        d.send(LocateBlocks(path="/no"))
    for rack in d.topology.rack_list():
        d.register(rack.id)
    assert all(len(d.nodes("/f", number)) == 3 for number in range(4))


def test_it_ends_when_all_nodes_have_registered():
    d = restarted(racks=3)
    for rack in ("r0", "r1"):
        d.register(rack)
        assert d.send(GetSafeMode()).on
    d.register("r2")
    assert not d.send(GetSafeMode()).on
    assert not [each for each in d.commands if isinstance(each, ReplicateBlock)]
    d.send(MakeFolder(path="/g"))


def test_it_ends_at_the_threshold_once_those_that_live_had_time_to_register():
    d = restarted(racks=3)
    d.register("r0")
    d.register("r1")  # each block has a replica there
    assert d.send(GetSafeMode()).reported == 4
    d.now_s += 0.9
    d.send(Ticked())
    assert d.send(GetSafeMode()).on
    d.now_s += 0.2
    d.send(Ticked())
    assert not d.send(GetSafeMode()).on
    assert not d.commands, "the third rack may still come"
    d.silent.add("r2")
    d.run(3.5)
    assert [each for each in d.commands if isinstance(each, ReplicateBlock)]


def test_it_ends_below_the_threshold_when_the_others_are_lost():
    d = restarted(racks=2, nodes=1, replication=1)
    assert all(d.disks.values()), "each has some of the blocks"
    d.register("r0")
    d.silent.add("r1")
    d.run(39.0)
    assert d.send(GetSafeMode()).on
    d.run(2.0)
    assert not d.send(GetSafeMode()).on
    assert d.check().missing


def test_the_threshold_is_a_setting():
    d = restarted(racks=3)
    storage = msgspec.structs.replace(d.topology.storage, safe_mode_threshold=0.0)
    d.topology = msgspec.structs.replace(d.topology, storage=storage)
    start_anew(d)
    d.now_s += 1.1
    d.send(Ticked())
    assert not d.send(GetSafeMode()).on


def test_once_all_are_there_replicas_are_made_anew_without_waiting_for_anybody():
    d = restarted(racks=3)
    for node in d.disks:
        if node.startswith("r2"):
            d.disks[node].clear()
    d.register("r0")
    d.register("r1")
    d.now_s += 1.1
    d.send(Ticked())
    assert not d.send(GetSafeMode()).on
    assert not d.commands
    d.register("r2")
    assert [each for each in d.commands if isinstance(each, ReplicateBlock)]


def test_it_is_entered_and_left_by_hand():
    d = SimulatedDfs()
    d.write("/f")
    status = d.send(SetSafeMode(on=True))
    assert (status.on, status.by_hand) == (True, True)
    d.kill(rack_of(d.nodes("/f")[0]))
    d.run(60.0)
    assert d.send(GetSafeMode()).on
    assert not d.commands
    words = r"Cannot delete /f\. Name node is in safe mode\. It was turned on manually"
    with pytest.raises(PeerUnable, match=words) as error:
        d.send(Remove(path="/f"))
    assert error.value.kind == LOCKED
    assert not d.send(SetSafeMode(on=False)).on
    d.run(2.0)
    assert len(d.nodes("/f")) == 3
    d.send(Remove(path="/f"))


def test_one_that_waits_for_datanodes_is_left_by_hand():
    d = restarted()
    status = d.send(SetSafeMode(on=False))
    assert (status.on, status.by_hand) == (False, False)
    d.send(MakeFolder(path="/g"))


def test_in_safe_mode_nothing_is_deleted_and_what_no_file_has_is_later():
    d = SimulatedDfs(journal=MemoryJournal())
    d.hold("r0n0", 77, 10)
    start_anew(d)
    d.register("r0")
    d.register("r1")
    every = tuple(d.disks["r0n0"].values())
    d.send(BlockReport(node="r0n0", first=0, last=2**63 - 1, held=every))
    assert 77 in d.disks["r0n0"]
    d.register("r2")
    assert 77 in d.disks["r0n0"]
    d.report()
    assert 77 not in d.disks["r0n0"]


# Writers -----------------------------------------------------------------------------------------
def test_a_writer_goes_on_where_it_was():
    d = SimulatedDfs(journal=MemoryJournal())
    created = d.send(CreateFile(path="/f", first_stored_length=70))
    for node in created.first.nodes:
        d.hold(node, created.first.block, 70)
    d.restart()
    added = d.send(AddBlock(file=created.file, stored_length=30))
    for node in added.nodes:
        d.hold(node, added.block, 30)
    d.restart()
    stored = [StoredBlock(block=each.block, nodes=each.nodes) for each in (created.first, added)]
    status = d.send(CompleteFile(file=created.file, blocks=tuple(stored))).status
    assert (status.path, status.stored_length) == ("/f", 100)
    d.run(5)
    assert d.check().healthy
    assert not [each for each in d.commands if isinstance(each, DeleteReplicas)]


def test_an_append_keeps_its_place_and_another_is_refused():
    d = SimulatedDfs(journal=MemoryJournal())
    d.write("/f", blocks=2)
    reopen = ReopenFile(path="/f", token="t")
    reopened = d.send(reopen)
    d.restart()
    assert d.send(reopen) == reopened
    with pytest.raises(PeerError, match="is being written by another client"):
        d.send(ReopenFile(path="/f", token="u"))
    d.send(CompleteFile(file=reopened.file, blocks=()))
    assert d.send(GetStatus(path="/f")).status.blocks == 2


def test_a_file_whose_writer_died_meanwhile_ends_as_readers_saw_it_last():
    d = SimulatedDfs(journal=MemoryJournal())
    d.write("/old", blocks=2)
    new = d.send(CreateFile(path="/new", first_stored_length=70))
    old = d.send(ReopenFile(path="/old"))
    added = d.send(AddBlock(file=old.file, stored_length=30))
    for each, length in ((new.first, 70), (added, 30)):
        d.hold(each.nodes[0], each.block, length)  # no other node of the pipeline has it whole
    d.restart()
    d.now_s += WRITER_PATIENCE_S
    d.run(1)
    assert d.send(GetStatus(path="/new")).status is None
    assert d.send(GetStatus(path="/old")).status.stored_length == 200
    assert d.check().healthy
    assert {block for disk in d.disks.values() for block in disk} == {
        d.block("/old", number) for number in (0, 1)
    }
    d.send(ReopenFile(path="/old"))
    still_open = {opened.number for opened, _ in d.journal.load().opened}
    assert not still_open & {new.file, old.file}


def test_a_file_is_completed_when_a_node_that_has_its_block_has_registered():
    d = SimulatedDfs(journal=MemoryJournal(), racks=2, nodes=1, replication=1)
    created = d.send(CreateFile(path="/f", writer="r1n0", first_stored_length=70))
    d.hold("r1n0", created.first.block, 70)
    start_anew(d)
    d.register("r0")
    d.now_s += 1.1
    d.send(Ticked())
    complete = CompleteFile(
        file=created.file, blocks=(StoredBlock(block=created.first.block, nodes=("r1n0",)),)
    )
    with pytest.raises(NotYet, match="written to no node that is alive"):
        d.send(complete)
    d.register("r1")
    assert d.send(complete).status.stored_length == 70


def test_only_the_latest_answers_are_kept(monkeypatch):
    monkeypatch.setattr(answers, "ANSWERS_MAX", 2)
    d = SimulatedDfs(journal=MemoryJournal())
    removals = [Remove(path=f"/{n}", token=str(n)) for n in range(3)]
    for removal in removals:
        d.send(MakeFolder(path=removal.path))
        d.send(removal)
    assert len(d.journal.load().answers) == 2
    d.restart()
    assert [d.send(each).folders for each in removals[1:]] == [1, 1]
    with pytest.raises(PeerError, match="/0: no such file"):
        d.send(removals[0])


def test_a_request_that_was_refused_is_tried_again():
    d = SimulatedDfs(journal=MemoryJournal())
    removal = Remove(path="/f", token="t")
    with pytest.raises(PeerError):
        d.send(removal)
    d.send(FileStored(path="/f", stored_lengths=(10,)))
    assert d.send(removal).files == 1
    assert d.send(removal).files == 1
