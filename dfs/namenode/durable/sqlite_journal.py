"""The journal in SQLite.

In WAL mode SQLite syncs only at checkpoints: a commit survives a kill -9 of the process, since the
operating system has it, but not a power cut.  ``sync`` makes all commits so far survive that too:
one sync for many commits.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from railyard.cluster.errors import PeerUnable, UsageError
from railyard.cluster.files.lasting import sync_file, sync_folder
from railyard.cluster.files.resources import cause_of
from railyard.dfs.namenode.journal import Attributes, Change, FileBlock, Inode

_LAYOUT = 2
_TABLES = """
CREATE TABLE IF NOT EXISTS inodes (
    number INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    name TEXT NOT NULL,
    folder INTEGER NOT NULL,
    replication INTEGER NOT NULL,
    blocks BLOB NOT NULL,
    attributes BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS about (starts INTEGER NOT NULL, layout INTEGER NOT NULL);
INSERT INTO about SELECT 0, 2 WHERE NOT EXISTS (SELECT * FROM about);
"""
_BLOCKS = msgspec.msgpack.Decoder(tuple[FileBlock, ...])
_ATTRIBUTES = msgspec.msgpack.Decoder(Attributes)


class SqliteJournal:
    """A ``dfs.namenode.journal.Journal`` in an SQLite file.

    With ``lasting``, ``load`` syncs the number of starts, so that no id is used twice even after a
    power cut.
    """

    def __init__(self, path: Path, lasting: bool = False) -> None:
        self.commits = 0  #: number of commits so far
        self._path = path
        self._lasting = lasting
        self._log_file: int | None = None  #: descriptor of SQLite's write-ahead log
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(_TABLES)
        (layout,) = self._database.execute("SELECT layout FROM about").fetchone()
        if layout != _LAYOUT:
            raise UsageError(f"{path}: a journal of layout {layout}: need layout {_LAYOUT}")

    def load(self) -> tuple[int, list[Inode]]:
        (starts,) = self._database.execute("SELECT starts FROM about").fetchone()
        self._database.execute("UPDATE about SET starts = starts + 1")
        if self._lasting:
            self.sync()
            sync_folder(self._path.parent)
        rows = self._database.execute(
            "SELECT number, parent, name, folder, replication, blocks, attributes FROM inodes"
            " ORDER BY number"
        )
        return starts, [
            Inode(
                number=number,
                parent=parent,
                name=name,
                folder=bool(folder),
                replication=replication,
                blocks=_BLOCKS.decode(blocks),
                attributes=_ATTRIBUTES.decode(attributes),
            )
            for number, parent, name, folder, replication, blocks, attributes in rows
        ]

    def commit(self, changes: Iterable[Change]) -> None:
        self.commits += 1
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                self._write(change)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):  # the disk's fault, not ours
                raise PeerUnable(f"the journal cannot be written: {self._cause(error)}") from error
            raise

    def sync(self) -> None:
        """Wait until all commits so far are on the disk; raises ``OSError``.

        May run in another thread while more is committed, but only one at a time.
        """
        if self._log_file is None:
            # The log's file stays the same while the database is open; SQLite locks another file.
            path = self._path.with_name(f"{self._path.name}-wal")
            self._log_file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        sync_file(self._log_file)

    def close(self) -> None:
        """Close the files."""
        self._database.close()
        if self._log_file is not None:
            os.close(self._log_file)
            self._log_file = None

    def _cause(self, error: sqlite3.OperationalError) -> str:
        """The cause for people; SQLite recognizes a full disk, but not a limit on file sizes."""
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            return cause_of(OSError(errno.ENOSPC, ""), self._path)
        return f"{error} ({error.sqlite_errorname})"

    def _write(self, change: Change) -> None:
        inode = change.inode
        if inode is None:
            self._database.execute("DELETE FROM inodes WHERE number = ?", (change.number,))
            return
        self._database.execute(
            "INSERT OR REPLACE INTO inodes VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                inode.number,
                inode.parent,
                inode.name,
                inode.folder,
                inode.replication,
                msgspec.msgpack.encode(inode.blocks),
                msgspec.msgpack.encode(inode.attributes),
            ),
        )
