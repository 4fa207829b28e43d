"""The private folder of one running cluster: sockets, logs, disks, and records of its processes.

railyard.json           the mark that it is ours to remove
cluster.json            the cluster's configuration
sockets/                ZeroMQ's Unix-domain sockets, or the TCP ports in use
keys/                   CURVE keys, when the transport is TCP
epochs/NAME             which process of a daemon acts: see cluster/messaging/access.py
processes.jsonl         a line per started process: role, name, pid
deaths.jsonl            a line per daemon that died
supervisor.jsonl        the supervisor's events: see cluster/supervisor.py
logs/NAME.log           the log of each daemon
namenode.sqlite         the NameNode's journal, with SQLite's -wal and -shm, and a -lock of its own
network.state           the NetworkEmulator's state: see netemu/emulator/process.py
gateway.json            where the gateway answers HTTP
client-files/           settings by which Hadoop's clients find the gateway: HADOOP_CONF_DIR
nodes/r0n1/             a node's disk: blocks/ and shuffle/
attempts/j1.m0.0/       stdout and stderr of an attempt
jobs/                   events.jsonl, the ResourceManager's journal of the whole run
jobs/network/           the network's counters when each job began and ended

Only folders that Railyard has made and marked are removed recursively.  A folder is ours if it is a
directory and no link, belongs to this user, is closed to all others, and its mark has its purpose,
its name and its inode number: so what a user has put beside it, and copies of it, are not ours.  It
is opened before it is checked, and emptied through that descriptor.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.files import opened_folder
from railyard.cluster.machine import unusable

log = logging.getLogger(__name__)

MARK = "railyard.json"
#: The names of run folders start with this.
PREFIX = "c-"
#: A Unix-domain socket's path is limited to 107 bytes; this leaves room for "/sockets/" and a name.
_PATH_BYTES_MAX = 107 - len("/sockets/nodemanager-r999-shuffle")
_PURPOSE = "run folder"
_MARK_BYTES_MAX = 4096


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a folder's mark."""

    made_by: Literal["railyard"] = "railyard"
    purpose: str  #: "run folder" or "compiled loops"
    folder: str  #: the folder's name
    inode: int
    id: str  #: unique, 32 hex digits


def mark_folder(path: Path, purpose: str) -> Mark:
    """Mark a new, empty folder as ours; if that fails, the folder is removed (``OSError``)."""
    try:
        with opened_folder(path, links=False) as folder:
            made = Mark(
                purpose=purpose,
                folder=path.name,
                inode=os.fstat(folder).st_ino,
                id=secrets.token_hex(16),
            )
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(MARK, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(msgspec.json.encode(made))
    except OSError:
        with suppress(OSError):
            (path / MARK).unlink(missing_ok=True)
            path.rmdir()
        raise
    return made


def mark_of_folder(path: Path, purpose: str) -> Mark | None:
    """The mark of a folder that we made for ``purpose``; None if it is not ours, or is not there.

    Raises ``OSError`` if that cannot be determined for now, as without a free file descriptor.
    """
    try:
        with opened_folder(path, links=False) as folder:
            return _mark_of(folder, path.name, purpose)
    except (FileNotFoundError, NotADirectoryError):  # a link is no directory either
        return None


def remove_folder(path: Path, purpose: str) -> bool:
    """Remove a folder recursively if it is ours; return whether it is gone.

    If an entry cannot be removed, the mark stays too, so that the removal can be retried.
    """
    try:
        with (
            opened_folder(path.parent) as parent,
            opened_folder(path, parent, links=False) as folder,
        ):
            if _mark_of(folder, path.name, purpose) is None:
                return False
            if _empty(folder):
                os.unlink(MARK, dir_fd=folder)
                os.rmdir(path.name, dir_fd=parent)  # by name, but only if it is empty
                return True
    except OSError as error:
        return isinstance(error, FileNotFoundError)  # another process was faster
    return False


def _mark_of(folder: int, name: str, purpose: str) -> Mark | None:
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        return None
    # O_NONBLOCK: opening a FIFO of that name would block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(MARK, flags, dir_fd=folder), "rb") as file:
            made = msgspec.json.decode(file.read(_MARK_BYTES_MAX), type=Mark)
    except (FileNotFoundError, IsADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link
            return None
        raise
    ours = (made.purpose, made.folder, made.inode) == (purpose, name, status.st_ino)
    return made if ours else None


def _empty(folder: int) -> bool:
    """Remove all entries of a folder but its mark; return whether only the mark is left."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                with suppress(RecursionError):  # user code made very deeply nested folders
                    shutil.rmtree(entry.name, ignore_errors=True, dir_fd=folder)
            elif entry.name != MARK:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=folder)
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries] == [MARK]


class RunFolder:
    """The paths within a run folder.  Only ``create`` makes anything on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.sockets = self.path / "sockets"
        self.epochs = self.path / "epochs"
        self.keys = self.path / "keys"
        self.jobs = self.path / "jobs"
        self.events = self.jobs / "events.jsonl"
        self.network_away = self.jobs / "network-away.jsonl"
        self.network_looks = self.jobs / "network"
        self.gateway = self.path / "gateway.json"
        self.client_files = self.path / "client-files"
        self.journal = self.path / "namenode.sqlite"
        self.network_state = self.path / "network.state"
        self._processes = self.path / "processes.jsonl"
        self._deaths = self.path / "deaths.jsonl"
        self.supervisor_events = self.path / "supervisor.jsonl"
        #: the permits to compute, beside all run folders: byte n is locked by the NodeManager that
        #: uses permit n
        self.permits = self.path.parent / "permits"

    @classmethod
    def create(cls, parent: Path) -> RunFolder:
        """Make a new, empty run folder that only this user can enter, and mark it as ours.

        In the folder of all clusters, use ``runs.new_folder``, which cleans up there.
        Raises ``UsageError`` if its path would be too long for Unix-domain sockets.
        """
        length = len(os.fsencode(parent / f"{PREFIX}12345678"))
        if length > _PATH_BYTES_MAX:
            right = f"at most {_PATH_BYTES_MAX} bytes; set RAILYARD_HOME to a shorter folder"
            raise UsageError(f"{parent}: too long for Unix-domain sockets: need {right}")
        try:
            str(parent).encode()
        except UnicodeEncodeError:  # names of sockets are text
            raise UsageError(f"{parent}: need UTF-8; set RAILYARD_HOME to another folder") from None
        path = None
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            mark_folder(path, _PURPOSE)
            for name in ("sockets", "logs", "nodes", "attempts", "jobs"):
                (path / name).mkdir(mode=0o700)
        except OSError as error:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)  # just made here
            raise unusable(f"{parent}: cannot hold run folders", error, parent) from None
        return cls(path)

    @property
    def id(self) -> str | None:
        """The cluster's unique id; None if the folder is not ours, or is not there.

        Raises ``OSError`` if that is not known for now.
        """
        made = mark_of_folder(self.path, _PURPOSE)
        return None if made is None else made.id

    @property
    def made_s(self) -> float:
        """When it was made, in seconds since 1970."""
        return (self.path / MARK).stat().st_mtime

    def port(self, name: str) -> Path:
        """The file with the TCP port of the server called ``name``, if the transport is TCP."""
        return self.sockets / f"{name}.port"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def node(self, node: str) -> Path:
        return self.path / "nodes" / node

    def attempt(self, attempt: str) -> Path:
        return self.path / "attempts" / attempt

    # Processes -------------------------------------------------------------------------------
    def record_process(self, role: str, name: str, pid: int) -> None:
        """Record a started process, so that it can be found.

        A failure (the disk is full) is only logged: the process dies with its parent anyway.
        """
        append_row(self._processes, {"role": role, "name": name, "pid": pid})

    def processes(self, role: str = "") -> list[dict[str, Any]]:
        """All recorded processes, or those of a role, one dict each: role, name, pid."""
        return [row for row in rows_of(self._processes) if role in ("", row["role"])]

    def record_death(self, role: str, name: str, pid: int, how: str, next_: str) -> None:
        """Record a daemon that died, how ("signal 9" or "exit 1"), and what follows."""
        row = {"role": role, "name": name, "pid": pid, "how": how, "next": next_}
        append_row(self._deaths, row)

    def deaths(self) -> list[dict[str, Any]]:
        """All recorded deaths of daemons, one dict each: role, name, pid, how, next."""
        return list(rows_of(self._deaths))

    def remove(self) -> None:
        remove_folder(self.path, _PURPOSE)


def append_row(path: Path, row: object) -> None:
    """Append a line of JSON to a file; that its disk is full is only logged."""
    # One write of a line to an O_APPEND file is atomic, even with several writers.
    try:
        with open(path, "a+b") as file:
            file.write(_end_of_cut_line(file) + json.dumps(row).encode() + b"\n")
    except OSError as error:
        log.warning("%s: %s could not be recorded: %s", path, row, error.strerror)


def rows_of(path: Path) -> Iterator[Any]:
    """The lines of such a file; none if it is not there."""
    with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        for line in file:  # of a cluster that is up for long there are very many
            with suppress(json.JSONDecodeError):  # cut short by a full disk
                yield json.loads(line)


def _end_of_cut_line(file: BinaryIO) -> bytes:
    """What ends the last line if a full disk has cut it: otherwise the next would be lost, too."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 1))
    return b"" if file.read(1) in (b"", b"\n") else b"\n"
