"""Attributes, replication, appends, cuts and files put together: on the NameNode's core."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.dfs.messages import (
    AbandonFile,
    AddBlock,
    CompleteFile,
    Concatenate,
    CreateFile,
    GetStatus,
    ListFolder,
    LocateBlocks,
    MakeFolder,
    Move,
    MoveFiles,
    Remove,
    ReopenFile,
    SetAttributes,
    SetReplication,
    StoredBlock,
)
from railyard.dfs.namenode.sqlitejournal import SqliteJournal
from tests.dfs.simulated import SimulatedDfs


def status(d, path):
    return d.send(GetStatus(path=path)).status


def finish(d, file, *lengths):
    """Write blocks of these lengths to an open file and complete it."""
    stored = []
    for length in lengths:
        added = d.send(AddBlock(file=file, stored_length=length))
        for node in added.nodes:
            d.hold(node, added.block, length)
        stored.append(StoredBlock(block=added.block, nodes=added.nodes))
    return d.send(CompleteFile(file=file, blocks=tuple(stored))).status


def lengths(d, path):
    return [block.stored_length for block in d.send(LocateBlocks(path=path)).files[0].blocks]


def held(d):
    """The blocks that are on any disk."""
    return {block for disk in d.disks.values() for block in disk}


def test_owners_permissions_and_times():
    d = SimulatedDfs()
    d.send(MakeFolder(path="/home/ann", owner="ann", permission=0o700))
    d.now_s = 200.0
    d.write("/home/ann/f", owner="ann", permission=0o600)
    folder, file, root = (status(d, path) for path in ("/home/ann", "/home/ann/f", "/"))
    assert (folder.owner, folder.permission, folder.entries) == ("ann", 0o700, 1)
    assert (folder.accessed_s, folder.modified_s) == (100.0, 200.0)  # made, and given an entry
    assert (file.owner, file.group, file.permission) == ("ann", "supergroup", 0o600)
    assert (root.permission, root.modified_s) == (0o755, 100.0)
    d.now_s = 300.0
    change = SetAttributes(path="/home/ann/f", owner="bob", group="staff", modified_s=7.0)
    d.send(change)
    changed = status(d, "/home/ann/f")
    assert (changed.owner, changed.group, changed.permission) == ("bob", "staff", 0o600)
    assert (changed.modified_s, changed.accessed_s) == (7.0, 200.0)
    assert status(d, "/home/ann").modified_s == 200.0
    d.send(MoveFiles(moves=(Move(source="/home/ann/f", target="/g"),)))
    assert status(d, "/g") == d.send(ListFolder(path="/")).entries[0]
    assert (status(d, "/g").owner, status(d, "/g").number) == ("bob", file.number)
    assert [status(d, path).modified_s for path in ("/", "/home/ann")] == [300.0, 300.0]
    d.now_s = 400.0
    d.send(Remove(path="/g"))
    assert status(d, "/").modified_s == 400.0
    for path in ("/g", "/home/x"):
        with pytest.raises(PeerError, match="no such file or folder"):
            d.send(SetAttributes(path=path, owner="x"))


def test_attributes_survive_a_restart(tmp_path):
    d = SimulatedDfs(journal=SqliteJournal(tmp_path / "j"))
    d.write("/a/f", owner="ann")
    d.send(SetAttributes(path="/", permission=0o1777))
    before = [status(d, path) for path in ("/", "/a", "/a/f")]
    d.now_s = 900.0
    d.restart()
    assert [status(d, path) for path in ("/", "/a", "/a/f")] == before
    d.journal.close()


def test_replicas_are_made_and_deleted_as_asked():
    d = SimulatedDfs()
    d.write("/f", 2)
    for wanted in (3, 1):
        d.send(SetReplication(path="/f", replication=wanted))
        d.run(5)
        assert status(d, "/f").replication == wanted
        for block in d.send(LocateBlocks(path="/f")).files[0].blocks:
            assert len(block.nodes) == wanted
            assert sum(block.block in disk for disk in d.disks.values()) == wanted
    with pytest.raises(PeerError, match="replication = 0: need 1 to"):
        d.send(SetReplication(path="/f", replication=0))
    with pytest.raises(PeerError, match="is a folder"):
        d.send(SetReplication(path="/", replication=1))


def test_an_append_fills_the_last_block_and_is_seen_once_it_is_complete():
    d = SimulatedDfs()
    finish(d, d.send(CreateFile(path="/f", owner="ann")).file, 100, 40)
    first = status(d, "/f")
    d.now_s += 50
    again = d.send(ReopenFile(path="/f"))
    assert (again.stored_length, again.kept_stored_length) == (140, 100)
    with pytest.raises(PeerError, match="is being written by another client"):
        d.send(ReopenFile(path="/f"))
    assert lengths(d, "/f") == [100, 40]
    after = finish(d, again.file, 100, 7)  # the 40 bytes, 60 and 7 new ones
    assert lengths(d, "/f") == [100, 100, 7]
    assert (after.owner, after.number, after.stored_length) == ("ann", first.number, 207)
    assert after.modified_s == first.modified_s + 50
    assert len(held(d)) == 3  # the short block is gone
    full = finish(d, d.send(CreateFile(path="/full")).file, 100)
    assert d.send(ReopenFile(path="/full")).kept_stored_length == full.stored_length


def test_a_writer_that_gives_up_leaves_the_file_as_it_was():
    d = SimulatedDfs()
    finish(d, d.send(CreateFile(path="/f")).file, 100, 40)
    again = d.send(ReopenFile(path="/f"))
    d.send(AddBlock(file=again.file, stored_length=50))
    d.send(AbandonFile(file=again.file))
    assert lengths(d, "/f") == [100, 40]
    d.send(AbandonFile(file=d.send(ReopenFile(path="/f")).file))


def test_a_file_that_is_renamed_or_removed_while_it_grows():
    d = SimulatedDfs()
    finish(d, d.send(CreateFile(path="/f")).file, 100)
    again = d.send(ReopenFile(path="/f"))
    d.send(MoveFiles(moves=(Move(source="/f", target="/g"),)))
    assert finish(d, again.file, 5).path == "/g"
    assert lengths(d, "/g") == [100, 5]
    again = d.send(ReopenFile(path="/g"))
    d.send(Remove(path="/g"))
    with pytest.raises(PeerError, match="is not being written"):
        finish(d, again.file)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_kept_and_written_again_adds_up(data):
    """Random appends and cuts, against a number."""
    d, length = SimulatedDfs(), 0
    d.send(CompleteFile(file=d.send(CreateFile(path="/f")).file, blocks=()))
    for _ in range(data.draw(st.integers(1, 6))):
        cut = data.draw(st.none() | st.integers(0, length))
        more = data.draw(st.integers(0, 250)) if cut is None else 0
        again = d.send(ReopenFile(path="/f", stored_length=cut))
        assert again.stored_length == length
        length = length + more if cut is None else cut
        left = length - again.kept_stored_length
        assert 0 <= again.kept_stored_length <= length
        if cut is not None:
            assert left <= 100  # at most one block is written again
        written = [100] * (left // 100) + ([left % 100] if left % 100 else [])
        assert finish(d, again.file, *written).stored_length == length
        if cut is None:
            assert all(each == 100 for each in lengths(d, "/f")[:-1])
    assert len(held(d)) == len(lengths(d, "/f"))


def test_cuts_beyond_the_end_and_of_folders_are_refused():
    d = SimulatedDfs()
    d.write("/a/f")
    with pytest.raises(PeerError, match="cannot be cut to 101 bytes: need at most its length, 100"):
        d.send(ReopenFile(path="/a/f", stored_length=101))
    with pytest.raises(PeerError, match="is a folder"):
        d.send(ReopenFile(path="/a"))


def test_files_are_put_together():
    d = SimulatedDfs()
    d.write("/a", 2)
    d.write("/b")
    d.write("/c", replication=1)
    for sources, why in (
        (("/b", "/b"), "files that differ"),
        (("/a",), "files that differ"),
        (("/b", "/x"), "no such file"),
        (("/",), "is a folder"),
    ):
        with pytest.raises(PeerError, match=why):
            d.send(Concatenate(target="/a", sources=sources))
    grows = d.send(ReopenFile(path="/b"))
    with pytest.raises(PeerError, match="/b: is being written"):
        d.send(Concatenate(target="/a", sources=("/c", "/b")))
    d.send(AbandonFile(file=grows.file))
    d.send(Concatenate(target="/a", sources=("/c", "/b")))
    assert lengths(d, "/a") == [100] * 4
    assert [each.path for each in d.send(ListFolder(path="/")).entries] == ["/a"]
    d.run(5)
    replicas = {len(block.nodes) for block in d.send(LocateBlocks(path="/a")).files[0].blocks}
    assert replicas == {status(d, "/a").replication}


def test_refusals_have_a_kind():
    d = SimulatedDfs()
    d.write("/a/f")
    for message, kind in (
        (Remove(path="/x"), "missing"),
        (Remove(path="/a"), "not-empty"),
        (CreateFile(path="/a/f"), "exists"),
        (CreateFile(path="/a"), "is-folder"),
        (MakeFolder(path="/a/f/g"), "no-folder"),
        (ListFolder(path="/a/../b"), "bad-path"),
    ):
        with pytest.raises(PeerError) as refused:
            d.send(message)
        assert refused.value.kind == kind
