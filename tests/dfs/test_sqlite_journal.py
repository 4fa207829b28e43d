from __future__ import annotations

import os
import signal
import sqlite3
import time

import pytest

from railyard.cluster.errors import PeerUnable, UsageError
from railyard.cluster.ids import NodeId, RackId
from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.messages.files import PlacementHint
from railyard.dfs.namenode.durable.sqlite_journal import SqliteJournal
from railyard.dfs.namenode.journal import (
    AnswerChange,
    Change,
    FileBlock,
    Inode,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)
from tests.fulldisk import files_of_at_most, small_disk


def inode(number, name="f", **fields):
    return Inode(number=number, parent=0, name=name, folder=False, **fields)


def test_what_was_committed_is_loaded(tmp_path):
    journal = SqliteJournal(tmp_path / "j")
    assert journal.load() == (0, [], [], [])
    file = inode(3, name="ü\n", replication=3, blocks=(FileBlock(BlockId(2**62), 17),))
    journal.commit([Change(1, inode(1)), Change(2, inode(2)), Change(3, file)])
    journal.commit([Change(2, None), Change(1, inode(1, name="moved")), Change(99, None)])
    opened = Opened(
        number=5,
        path="/f",
        names=("f",),
        replication=2,
        writer=NodeId("r0n0"),
        overwrite=True,
        hint=PlacementHint(racks=((RackId("r1"),),)),
        reopened=file,
        kept=1,
    )
    answer = AnswerChange(7, "token", b"answer")
    begun = [OpenBlockChange(5, BlockId(number), number) for number in (8, 9)]
    journal.note([OpenFileChange(5, opened), OpenFileChange(6, opened), *begun, answer])
    journal.commit([], [OpenFileChange(6, None), OpenBlockChange(5, BlockId(8), None)])
    journal.note([AnswerChange(8, "gone", b"answer"), AnswerChange(8, "gone", None)])
    journal.close()
    again = SqliteJournal(tmp_path / "j")
    inodes = [inode(1, name="moved"), file]
    assert again.load() == (1, inodes, [(opened, {9: 9})], [answer])
    again.close()


def test_a_change_that_fails_leaves_nothing(tmp_path):
    journal = SqliteJournal(tmp_path / "j")
    with pytest.raises(TypeError):
        journal.commit([Change(1, inode(1)), Change(2, inode(2, name=object()))])
    journal.commit([Change(3, inode(3))])
    assert [each.number for each in journal.load()[1]] == [3]
    journal.close()


def commit_many(journal):
    """Make commits of about 300 bytes each."""
    for number in range(1, 1000):
        journal.commit([Change(number, inode(number, name="n" * 255))])


def test_a_full_disk_refuses_a_change_and_later_ones_are_kept(tmp_path):
    with small_disk(tmp_path / "disk", 2**24) as disk:
        journal = SqliteJournal(disk.path / "j")
        disk.fill()
        with pytest.raises(PeerUnable, match=f"cannot be written: no space left on {disk.path}"):
            commit_many(journal)
        disk.free()
        commit_many(journal)
        assert [each.number for each in journal.load()[1]] == list(range(1, 1000))
        journal.close()


def test_a_limit_on_files_refuses_a_change_and_no_more(tmp_path):
    journal = SqliteJournal(tmp_path / "j")
    with files_of_at_most(100_000), pytest.raises(PeerUnable, match="journal cannot be written"):
        commit_many(journal)
    commit_many(journal)
    assert [each.number for each in journal.load()[1]] == list(range(1, 1000))
    journal.close()


def test_another_layout_is_refused(tmp_path):
    SqliteJournal(tmp_path / "j").close()
    database = sqlite3.connect(tmp_path / "j")
    database.execute("UPDATE about SET layout = 99")
    database.commit()
    database.close()
    with pytest.raises(UsageError, match="a journal of layout 99: need layout 3"):
        SqliteJournal(tmp_path / "j")


def test_every_commit_that_was_acknowledged_survives_kill_9(tmp_path):
    """A process commits and writes a byte per commit, until it is killed at an arbitrary moment."""
    for delay_s in (0.0, 0.01, 0.03):
        path = tmp_path / f"j{delay_s}"
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            journal = SqliteJournal(path)
            journal.load()
            number = 0
            while True:
                number += 1
                both = [Change(2 * number, inode(2 * number)), Change(-number, inode(-number))]
                journal.commit(both)
                os.write(writable, b".")
        os.close(writable)
        acknowledged = os.read(readable, 1)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while more := os.read(readable, 65536):
            acknowledged += more
        os.close(readable)
        journal = SqliteJournal(path)
        numbers = {each.number for each in journal.load()[1]}
        journal.close()
        assert len(acknowledged) <= len(numbers) / 2 <= len(acknowledged) + 1
        assert numbers == {n for k in range(1, len(numbers) // 2 + 1) for n in (2 * k, -k)}


def test_files_can_be_removed_on_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        journal = SqliteJournal(tmp_path / "disk" / "j")
        journal.load()
        journal.commit([Change(number, inode(number, f"f{number}")) for number in range(1, 51)])
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "other").write_bytes(bytes(10_000))
        for number in range(1, 51):
            journal.commit([Change(number, None)])
        journal.close()
        again = SqliteJournal(tmp_path / "disk" / "j")
        assert again.load().inodes == []
        again.close()
