"""Acknowledged changes survive a power cut, and a sync delays only those who wait for it.

Tests simulate a power cut by a copy of what was on the disk at the end of the last sync.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

import railyard.dfs.blockfile
import railyard.dfs.datanode.process
import railyard.dfs.namenode.process
from railyard.cluster.errors import PeerLost, Refused
from railyard.cluster.files import sync_file
from railyard.cluster.ids import rack_of
from railyard.cluster.messaging.reactor import Background
from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import CreateFile, FileCreated, MakeFolder
from railyard.dfs.namenode import sqlitejournal
from railyard.dfs.namenode.core import NameNode
from railyard.dfs.namenode.process import GroupCommit, NameNodeServer
from railyard.dfs.namenode.sqlitejournal import SqliteJournal
from tests.dfs.simulated import topology
from tests.waiting import wait_for

DATA = bytes(range(256)) * 400


# The journal -------------------------------------------------------------------------------------
def keep_copies(journal: Path, copies: Path):
    """A sync of the journal that saves the disk's state after it."""
    copies.mkdir()
    numbers = itertools.count()

    def sync(file):
        sync_file(file)
        new = copies / "new"
        new.mkdir()
        for path in journal.parent.glob(f"{journal.name}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, new / path.name)
        new.rename(copies / str(next(numbers)))

    return sync


def after_power_cut(copies: Path, name: str) -> SqliteJournal:
    latest = max(
        (path for path in copies.iterdir() if path.name != "new"), key=lambda p: int(p.name)
    )
    return SqliteJournal(latest / name)


def test_what_was_synced_is_there_after_a_power_cut(tmp_path, monkeypatch):
    path, disk = tmp_path / "j", tmp_path / "disk"
    monkeypatch.setattr(sqlitejournal, "sync_file", keep_copies(path, disk))
    journal = SqliteJournal(path, lasting=True)
    core = NameNode(topology(), journal, now_s=0.0)
    for number in range(300):
        core.handle(MakeFolder(path=f"/f{number}"), 0.0)
        if number == 200:
            journal.sync()
    journal.close()
    after = after_power_cut(disk, "j")
    starts, inodes, *_ = after.load()
    after.close()
    assert starts == 1
    assert {f"f{number}" for number in range(201)} <= {inode.name for inode in inodes}


class SlowDisk:
    """A NameNode with syncs that end when the test lets them, and a client of it."""

    def __init__(self, folder: RunFolder) -> None:
        self.syncs: list[threading.Event] = []  #: running and ended syncs
        self.answers: list[tuple[int, object]] = []
        self.transport = Transport(folder)
        self.journal = SqliteJournal(folder.journal)
        self.background = Background(self.transport.reactor, threads=1)
        core = NameNode(topology(), self.journal, now_s=0.0)
        NameNodeServer(self.transport, core, 1000.0, GroupCommit(self.journal, self.background))
        self.link = self.transport.link("namenode")

    def sync(self, _):
        may_end = threading.Event()
        self.syncs.append(may_end)
        assert may_end.wait(20)

    def ask(self, number, message, answer=Done):
        self.link.request(message, answer, lambda got, _: self.answers.append((number, got)))

    def serve_until(self, done):
        def looked_at():  # what the thread does wakes nobody
            return self.transport.reactor.run_until(done, timeout_s=0.01)

        wait_for(looked_at, why="what a sync or its end leads to")

    def close(self):
        for sync in self.syncs:
            sync.set()
        self.background.close()
        self.transport.close()
        self.journal.close()


@pytest.fixture
def slow_disk(tmp_path_factory, monkeypatch):
    folder = RunFolder.create(tmp_path_factory.mktemp("d"))
    disk = SlowDisk(folder)
    monkeypatch.setattr(sqlitejournal, "sync_file", disk.sync)
    yield disk
    disk.close()
    folder.remove()


def test_changes_are_acknowledged_after_their_sync_many_at_once(slow_disk):
    slow_disk.ask(1, MakeFolder(path="/f1"))
    slow_disk.serve_until(lambda: len(slow_disk.syncs) == 1)
    for number in range(2, 17):
        slow_disk.ask(number, MakeFolder(path=f"/f{number}"))
    slow_disk.ask(17, CreateFile(path="/g"), FileCreated)  # handled after them: it changes nothing
    slow_disk.serve_until(lambda: bool(slow_disk.answers))
    assert [number for number, _ in slow_disk.answers] == [17]
    slow_disk.syncs[0].set()
    slow_disk.serve_until(lambda: len(slow_disk.syncs) == 2)
    slow_disk.serve_until(lambda: len(slow_disk.answers) == 2)
    assert slow_disk.answers[1] == (1, Done())
    slow_disk.syncs[1].set()
    slow_disk.serve_until(lambda: len(slow_disk.answers) == 17)
    assert slow_disk.answers[2:] == [(number, Done()) for number in range(2, 17)]
    assert len(slow_disk.syncs) == 2


def test_a_journal_that_cannot_be_synced_ends_the_namenode(start_dfs, capfd):
    def broken(daemon):
        loads = []

        def sync(file):
            if loads:
                raise OSError(5, "Input/output error")
            loads.append(file)

        sqlitejournal.sync_file = sync
        railyard.dfs.namenode.process.main(daemon)

    cluster = start_dfs(mains={"namenode": broken})
    with pytest.raises(PeerLost, match="namenode is gone"):
        cluster.transport().link("namenode").call(MakeFolder(path="/f"), Done)
    assert (
        "the journal cannot be synced: Input/output error"
        in capfd.readouterr().err + cluster.logs()
    )


def test_files_that_were_acknowledged_survive_a_power_cut(start_dfs, tmp_path):
    disk = tmp_path / "disk"

    def copying(daemon):
        sqlitejournal.sync_file = keep_copies(daemon.folder.journal, disk)
        railyard.dfs.namenode.process.main(daemon)

    cluster = start_dfs(mains={"namenode": copying})
    transport = cluster.transport()
    links = [transport.link("namenode") for _ in range(16)]
    done = []
    for number in range(64):
        links[number % 16].request(
            MakeFolder(path=f"/f{number}"),
            Done,
            lambda answer, _, number=number: done.append(number if answer == Done() else -1),
        )
    assert transport.reactor.run_until(lambda: len(done) > 20, timeout_s=20)
    os.kill(cluster.pids["namenode"], signal.SIGKILL)
    acknowledged = {f"f{number}" for number in done}
    journal = after_power_cut(disk, cluster.folder.journal.name)
    assert acknowledged <= {inode.name for inode in journal.load()[1]}
    journal.close()


# Blocks ------------------------------------------------------------------------------------------
def syncing(act, daemon):
    """A DataNode that calls ``act`` to sync blocks."""
    railyard.dfs.blockfile.sync_file = act
    railyard.dfs.datanode.process.main(daemon)


def test_blocks_and_their_names_are_synced_before_they_are_acknowledged(start_dfs, tmp_path):
    log = tmp_path / "log"

    def noting(daemon):
        def note(what):
            with open(log, "a") as file:
                file.write(f"{what}\n")

        railyard.dfs.blockfile.sync_file = lambda file: note(
            Path(f"/proc/self/fd/{file}").readlink()
        )
        railyard.dfs.blockfile.sync_folder = note
        railyard.dfs.datanode.process.main(daemon)

    cluster = start_dfs(mains={"datanode_r0": noting, "datanode_r1": noting})
    client = cluster.client()
    client.write("/f", [DATA])
    synced = log.read_text().splitlines()
    for location in client.locations("/f"):
        for node in location.nodes:
            path = cluster.block_file(node, location.block)
            assert str(path) in synced
            assert str(path.parent) in synced[synced.index(str(path)) :]


def test_a_fast_cluster_syncs_nothing(start_dfs):
    def refused(_):
        raise OSError(5, "nobody asked for it")

    def namenode(daemon):
        sqlitejournal.sync_file = refused
        railyard.dfs.namenode.process.main(daemon)

    broken = functools.partial(syncing, refused)
    mains = {"namenode": namenode, "datanode_r0": broken, "datanode_r1": broken}
    client = start_dfs(durability="fast", mains=mains).client()
    client.write("/f", [DATA])
    assert b"".join(client.read("/f")) == DATA


def test_others_are_served_while_a_block_is_synced(start_dfs, tmp_path):
    may_end = tmp_path / "may end"

    def wait(_):
        while not may_end.exists():
            time.sleep(0.005)

    cluster = start_dfs(
        racks=1, nodes=1, replication=1, mains={"datanode_r0": functools.partial(syncing, wait)}
    )
    client, link = cluster.client(), cluster.transport().link("datanode-r0")

    def data():
        yield DATA[:1000]

    write = threading.Thread(target=lambda: client.write("/f", data()))
    write.start()
    wait_for(lambda: list(cluster.folder.path.glob("nodes/*/blocks/b*")), why="the block")
    link.call(Describe(), Description)
    assert write.is_alive(), "the block is not acknowledged yet"
    may_end.touch()
    write.join(20)
    assert not write.is_alive()


def test_a_block_that_cannot_be_synced_goes_elsewhere(start_dfs):
    def broken(_):
        raise OSError(5, "Input/output error")

    cluster = start_dfs(mains={"datanode_r0": functools.partial(syncing, broken)})
    client = cluster.client("r0n0")
    client.write("/f", [DATA])
    assert {rack_of(node) for each in client.locations("/f") for node in each.nodes} == {"r1"}
    blocks = functools.partial(cluster.folder.path.glob, "nodes/r0*/blocks/*")
    wait_for(lambda: not list(blocks()), why="nothing to be left of it")


def test_a_file_whose_blocks_cannot_be_synced_anywhere_is_refused(start_dfs):
    def broken(_):
        raise OSError(5, "Input/output error")

    main = functools.partial(syncing, broken)
    cluster = start_dfs(mains={"datanode_r0": main, "datanode_r1": main})
    client = cluster.client()
    with pytest.raises(Refused, match="cannot store it: Input/output error"):
        client.write("/f", [DATA])
    assert not client.exists("/f")


def test_a_file_that_is_removed_while_its_block_is_synced_leaves_nothing(start_dfs, tmp_path):
    may_end = tmp_path / "may end"

    def wait(_):
        while not may_end.exists():
            time.sleep(0.005)

    main = functools.partial(syncing, wait)
    cluster = start_dfs(mains={"datanode_r0": main, "datanode_r1": main})
    client, other = cluster.client(), cluster.client()
    refused = []

    def write():
        try:
            client.write("/f/g", [DATA[:1000]])
        except Refused as error:
            refused.append(error)

    writing = threading.Thread(target=write)
    other.mkdir("/f")
    writing.start()
    blocks = functools.partial(cluster.folder.path.glob, "nodes/*/blocks/*")
    wait_for(lambda: list(blocks()), why="the block")
    other.remove("/f", recursive=True)
    may_end.touch()
    writing.join(20)
    assert refused
    wait_for(lambda: not list(blocks()), why="the blocks to go")
