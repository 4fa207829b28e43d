"""tests.dfs.test_journal."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from railyard.cluster.errors import PeerUnable, UsageError
from railyard.cluster.ids import RackId
from railyard.dfs.messages import BlockId, CreateFile, MakeFolder, PlacementHint
from railyard.dfs.namenode.core import NameNode
from railyard.dfs.namenode.journal import (
    AnswerChange,
    Change,
    FileBlock,
    Inode,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)
from railyard.dfs.namenode.sqlitejournal import SqliteJournal
from tests.dfs.simulated import topology
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
        how=CreateFile(path="/f", hint=PlacementHint(racks=((RackId("r1"),),))),
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
    with pytest.raises(UsageError, match="a journal of layout 99: need layout 4"):
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


# What is left of a journal whose bytes were cut off or changed: SQLite's real files.


COMMITS = 20
#: Of SQLite's log: its header, and a frame with its header.
HEADER, FRAME = 32, 24 + 4096


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The files of a journal with 20 commits, as a process leaves them that is killed."""
    (tmp_path / "live").mkdir()
    journal = SqliteJournal(tmp_path / "live" / "j")
    core = NameNode(topology(), journal, now_s=0.0)
    for number in range(COMMITS):
        core.handle(MakeFolder(path=f"/f{number}"), 0.0)
    (tmp_path / "dead").mkdir()
    for name in ("j", "j-wal"):
        shutil.copy(tmp_path / "live" / name, tmp_path / "dead" / name)
    journal.close()
    return tmp_path / "dead" / "j"


def log_of(path: Path) -> Path:
    return path.with_name("j-wal")


def names(path: Path) -> list[str]:
    journal = SqliteJournal(path)
    found = [inode.name for inode in journal.load().inodes]
    journal.close()
    return found


def change_byte(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_log_as_it_was_left_is_whole(killed: Path):
    assert names(killed) == [f"f{number}" for number in range(COMMITS)]


@pytest.mark.parametrize("cut_bytes", [1, FRAME // 2, FRAME - 1, FRAME])
def test_a_log_that_was_cut_short_has_all_entries_but_the_last(killed: Path, cut_bytes: int):
    log = log_of(killed)
    log.write_bytes(log.read_bytes()[:-cut_bytes])
    assert names(killed) == [f"f{number}" for number in range(COMMITS - 1)]


def test_a_log_may_be_cut_anywhere(killed: Path):
    log, whole = log_of(killed), log_of(killed).read_bytes()
    database = killed.read_bytes()
    for length in range(0, len(whole), 2 * FRAME + 1003):
        killed.write_bytes(database)
        log.write_bytes(whole[:length])
        found = names(killed)
        assert found == [f"f{number}" for number in range(len(found))]


def test_a_last_entry_that_is_damaged_is_left_out(killed: Path):
    change_byte(log_of(killed), log_of(killed).stat().st_size - 100)
    assert names(killed) == [f"f{number}" for number in range(COMMITS - 1)]


@pytest.mark.parametrize("at", [3, HEADER + 2, HEADER + 24 + 5])
def test_a_log_that_is_damaged_before_its_end_is_refused(killed: Path, at: int):
    log = log_of(killed)
    change_byte(log, at)
    before = log.read_bytes(), killed.read_bytes()
    with pytest.raises(UsageError, match=r"j-wal: byte \d+: .*damaged.*railyard down"):
        SqliteJournal(killed)
    assert (log.read_bytes(), killed.read_bytes()) == before, "for whoever looks at it"


def test_damage_in_the_middle_says_where_and_how_much(killed: Path):
    change_byte(log_of(killed), HEADER + 30 * FRAME + 500)
    with pytest.raises(UsageError, match=r"byte 123,632: an entry is damaged, and \d+ that were"):
        SqliteJournal(killed)


def test_frames_of_an_earlier_log_are_none_of_this_one(killed: Path):
    journal = SqliteJournal(killed)  # reads the log
    journal.load()
    journal._database.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    journal.commit([Change(99, Inode(number=99, parent=0, name="g", folder=True))])
    copy = killed.parent / "copy"
    copy.mkdir()
    for name in ("j", "j-wal"):
        shutil.copy(killed.with_name(name), copy / name)
    journal.close()
    assert (copy / "j-wal").stat().st_size > 10 * FRAME
    assert names(copy / "j")[-1] == "g"


def test_a_database_that_is_damaged_is_refused(killed: Path):
    names(killed)  # moves the log into it
    whole = killed.read_bytes()
    at = whole.index(b"f17")
    for change, why in (
        (whole[:-4096], "image is malformed"),
        (b"nonsense" * 100, "file is not a database"),
        (whole[:at] + b"g" + whole[at + 1 :], "inode 18 has the wrong checksum"),
    ):
        killed.write_bytes(change)
        with pytest.raises(UsageError, match=rf"dead/j: damaged: .*{why}.*railyard down"):
            SqliteJournal(killed).load()


def test_an_inode_whose_folder_is_missing_is_refused(tmp_path: Path):
    journal = SqliteJournal(tmp_path / "j")
    journal.commit([Change(7, Inode(number=7, parent=5, name="f", folder=False))])
    with pytest.raises(UsageError, match="inode 7 is in 5, which is missing"):
        journal.load()
    journal.close()


def test_one_has_the_journal_at_a_time(tmp_path: Path):
    journal = SqliteJournal(tmp_path / "j")
    with pytest.raises(PeerUnable, match="another NameNode has it: need that to end first"):
        SqliteJournal(tmp_path / "j")
    journal.close()
    SqliteJournal(tmp_path / "j").close()
