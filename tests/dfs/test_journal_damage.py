"""What is left of a journal whose bytes were cut off or changed: SQLite's real files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from railyard.cluster.errors import PeerUnable, UsageError
from railyard.dfs.messages.files import MakeFolder
from railyard.dfs.namenode.core import NameNode
from railyard.dfs.namenode.durable.sqlite_journal import SqliteJournal
from railyard.dfs.namenode.journal import Change, Inode
from tests.dfs.simulated import topology

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
