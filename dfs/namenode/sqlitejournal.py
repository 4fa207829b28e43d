"""The journal in SQLite.

In WAL mode SQLite syncs only at checkpoints: a commit survives a kill -9 of the process, since the
operating system has it, but not a power cut.  ``sync`` makes all commits so far survive that too:
one sync for many commits.

Damage is found when a journal is opened: in the log, in the structure of the database (SQLite's own
check), and in inodes, each of which has a checksum.  SQLite reads its log up to the first frame
whose checksum is wrong.  After a crash that is right: the end was cut short, and was acknowledged
to nobody.  If more entries follow it is not: acknowledged commits would be lost without a word.

    log:    header (32 bytes), frames
    frame:  page number, pages after the commit (0: not its last frame), 2 salts, 2 checksums; page

Source: SQLite, "WAL-mode File Format".  A frame of an earlier log has other salts than the header.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from railyard.cluster.errors import PeerUnable, UsageError
from railyard.cluster.files import Reserve, sync_file, sync_folder
from railyard.cluster.machine import cause_of
from railyard.dfs.messages import BlockId
from railyard.dfs.namenode.journal import (
    ROOT,
    AnswerChange,
    Change,
    Inode,
    Journal,
    Loaded,
    Note,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)

_HEADER = struct.Struct(">8I")  #: magic, version, page size, checkpoint, 2 salts, 2 checksums
_FRAME = struct.Struct(">6I")
_SUMMED_BYTES = 8  #: of a frame's header; all of its page is
#: The last bit says whether checksums are of big-endian words.
_MAGIC = 0x377F0682
log = logging.getLogger(__name__)
#: What to do about a journal that can't be read.
ADVICE = (
    "the NameNode can't be restarted: put back a whole copy of the files, or railyard down, "
    "then write the files again"
)
_LAYOUT = 4
#: Room that the log has on a disk that is full, so that files can be removed: for 100 changes.
_RESERVE_BYTES = 2**21
_INODE = msgspec.msgpack.Decoder(Inode)
_OPENED = msgspec.msgpack.Decoder(Opened)


def check_log(path: Path) -> bool:
    """Whether the log at ``path`` is whole; False if its last entry was cut short or is damaged.

    Raises ``UsageError`` with file and byte if entries follow on what is damaged.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return True
    if len(log) < _HEADER.size:
        return not log
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or _sums(log[: _HEADER.size - 8], order, (0, 0)) != (first, second):
        if len(log) == _HEADER.size:
            return False
        raise UsageError(f"{path}: byte 0: the log's header is damaged: {ADVICE}")
    sums, damaged_at, lost = (first, second), 0, 0
    size = _FRAME.size + page_bytes
    for at in range(_HEADER.size, len(log) - size + 1, size):
        frame = log[at : at + size]
        _, commits, *frame_salts, first, second = _FRAME.unpack_from(frame)
        if frame_salts != salts:
            continue  # of an earlier log
        if not damaged_at:
            sums = _sums(frame[:_SUMMED_BYTES] + frame[_FRAME.size :], order, sums)
            damaged_at = 0 if sums == (first, second) else at
        lost += bool(damaged_at and commits)
    if lost > 1:
        what = f"an entry is damaged, and {lost} that were committed are there from it on"
        raise UsageError(f"{path}: byte {damaged_at:,}: {what}: {ADVICE}")
    return not damaged_at


def _sums(data: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksums after ``data``, in words of this byte order."""
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


_TABLES = """
CREATE TABLE IF NOT EXISTS inodes (
    number INTEGER PRIMARY KEY,
    inode BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS open_files (number INTEGER PRIMARY KEY, opened BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS open_blocks (
    file INTEGER NOT NULL,
    block INTEGER NOT NULL,
    stored_length INTEGER NOT NULL,
    PRIMARY KEY (file, block)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY,
    token TEXT NOT NULL,
    answer BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS about (starts INTEGER NOT NULL, layout INTEGER NOT NULL);
INSERT INTO about SELECT 0, 4 WHERE NOT EXISTS (SELECT * FROM about);
"""


class SqliteJournal(Journal):
    """The journal in an SQLite file; with ``lasting``, the number of starts is synced, too."""

    def __init__(self, path: Path, lasting: bool = False) -> None:
        self.commits = 0  #: number of commits so far
        self._path = path
        self._lasting = lasting
        self._log_file: int | None = None  #: descriptor of SQLite's write-ahead log
        self._reserve: Reserve | None = None  #: room for the log, on a disk that is full
        self._lock = _lock(path)
        try:
            if not check_log(path.with_name(f"{path.name}-wal")):
                log.warning("%s: its last entry was cut short: left out", path)
            self._database = sqlite3.connect(path, isolation_level=None)
            with self._explained():
                self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def load(self) -> Loaded:
        with self._explained():
            (starts,) = self._database.execute("SELECT starts FROM about").fetchone()
            inodes = self._inodes()
            rows = self._database.execute("SELECT * FROM answers ORDER BY number")
            answers = [AnswerChange(*row) for row in rows]
            loaded = Loaded(starts, inodes, self._opened(), answers)
            self._database.execute("UPDATE about SET starts = starts + 1")
            self._reserve = Reserve(self._log(), _RESERVE_BYTES)
            self._keep_reserve()
            if self._lasting:
                self.sync()
                sync_folder(self._path.parent)
            return loaded

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what errors mean: ``PeerUnable`` for the disk's, ``UsageError`` for damage."""
        try:
            yield
        except sqlite3.OperationalError as error:
            cause = f"{error} ({error.sqlite_errorname})"
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:  # but no limit on file sizes
                cause = cause_of(OSError(errno.ENOSPC, ""), self._path)
            raise PeerUnable(f"the journal cannot be written: {cause}") from error
        except (sqlite3.DatabaseError, msgspec.MsgspecError) as error:
            raise self._damaged(error) from None

    def _open(self) -> None:
        execute = self._database.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        (found,) = execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        self._database.executescript(_TABLES)
        (layout,) = execute("SELECT layout FROM about").fetchone()
        if layout != _LAYOUT:
            raise UsageError(f"{self._path}: a journal of layout {layout}: need layout {_LAYOUT}")

    def _inodes(self) -> list[Inode]:
        rows = self._database.execute("SELECT * FROM inodes ORDER BY number")
        inodes: list[Inode] = []
        for number, packed, checksum in rows:
            if zlib.crc32(packed) != checksum:
                raise self._damaged(f"inode {number} has the wrong checksum")
            inodes.append(_INODE.decode(packed))
        folders = {ROOT, *[inode.number for inode in inodes if inode.folder]}
        for inode in inodes:
            if inode.parent not in folders:
                raise self._damaged(f"inode {inode.number} is in {inode.parent}, which is missing")
        return inodes

    def _damaged(self, why: object) -> UsageError:
        return UsageError(f"{self._path}: damaged: {why}: {ADVICE}")

    def commit(self, changes: Iterable[Change], notes: Sequence[Note] = ()) -> None:
        self.commits += 1
        self._write(changes, notes)

    def note(self, notes: Sequence[Note]) -> None:
        self._write((), notes)

    def sync(self) -> None:
        """Wait until all commits so far are on the disk: in any thread, one at a time."""
        sync_file(self._log())

    def _log(self) -> int:
        if self._log_file is None:
            # The log's file stays the same while the database is open; SQLite locks another file.
            path = self._path.with_name(f"{self._path.name}-wal")
            self._log_file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return self._log_file

    def _keep_reserve(self) -> None:
        if self._reserve is not None:
            with suppress(OSError):  # the disk is full: what there was is kept
                self._reserve.keep()

    def close(self) -> None:
        self._database.close()
        if self._log_file is not None:
            os.close(self._log_file)
            self._log_file = None
        os.close(self._lock)

    def _opened(self) -> list[tuple[Opened, dict[BlockId, int]]]:
        lengths: dict[int, dict[BlockId, int]] = {}
        rows = self._database.execute("SELECT file, block, stored_length FROM open_blocks")
        for file, block, stored_length in rows:
            lengths.setdefault(file, {})[block] = stored_length
        files = self._database.execute("SELECT number, opened FROM open_files ORDER BY number")
        return [(_OPENED.decode(opened), lengths.get(number, {})) for number, opened in files]

    def _write(self, changes: Iterable[Change], notes: Sequence[Note]) -> None:
        with self._explained():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for change in changes:
                    self._write_inode(change)
                for note in notes:
                    self._write_note(note)
                self._database.execute("COMMIT")
                self._keep_reserve()
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _write_note(self, note: Note) -> None:
        execute = self._database.execute
        match note:
            case OpenFileChange(number=number, opened=None):
                execute("DELETE FROM open_files WHERE number = ?", (number,))
                execute("DELETE FROM open_blocks WHERE file = ?", (number,))
            case OpenFileChange(number=number, opened=opened):
                given = number, msgspec.msgpack.encode(opened)
                execute("INSERT OR REPLACE INTO open_files VALUES (?, ?)", given)
            case OpenBlockChange(file=file, block=block, stored_length=None):
                execute("DELETE FROM open_blocks WHERE file = ? AND block = ?", (file, block))
            case OpenBlockChange(file=file, block=block, stored_length=length):
                row = file, block, length
                execute("INSERT OR REPLACE INTO open_blocks VALUES (?, ?, ?)", row)
            case AnswerChange(number=number, answer=None):
                execute("DELETE FROM answers WHERE number = ?", (number,))
            case AnswerChange(number=number, token=token, answer=answer):
                execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (number, token, answer))

    def _write_inode(self, change: Change) -> None:
        if change.inode is None:
            self._database.execute("DELETE FROM inodes WHERE number = ?", (change.number,))
            return
        packed = msgspec.msgpack.encode(change.inode)
        row = change.number, packed, zlib.crc32(packed)
        self._database.execute("INSERT OR REPLACE INTO inodes VALUES (?, ?, ?)", row)


def _lock(path: Path) -> int:
    """Take a journal's lock until this process ends; ``PeerUnable`` if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    lock = os.open(path.with_name(f"{path.name}-lock"), flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise PeerUnable(f"{path}: another NameNode has it: need that to end first") from None
    return lock
