"""The private folder of one running cluster: sockets, logs, disks, and records of its processes.

railyard.json           the mark that it is ours to remove: see cluster/files/ownfolder.py
cluster.json            the cluster's configuration
sockets/                ZeroMQ's Unix-domain sockets, or the TCP ports in use
keys/                   CURVE keys, when the transport is TCP
epochs/NAME             which process of a daemon acts: see cluster/messaging/access/epochs.py
processes.jsonl         a line per started process: role, name, pid
deaths.jsonl            a line per daemon that died
supervisor.jsonl        the supervisor's events: see cluster/processes/supervisor.py
logs/NAME.log           the log of each daemon
namenode.sqlite         the NameNode's journal, with SQLite's -wal and -shm, and a -lock of its own
network.state           what the NetworkEmulator keeps: see netemu/emulator/statefile.py
gateway.json            where the gateway answers HTTP
client-files/           settings by which Hadoop's clients find the gateway: HADOOP_CONF_DIR
nodes/r0n1/             a node's disk: blocks/ and shuffle/
attempts/j1.m0.0/       stdout and stderr of an attempt
jobs/                   events.jsonl, the ResourceManager's journal of the whole run
jobs/network/           the network's counters when each job began and ended
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from railyard.cluster.errors import UsageError
from railyard.cluster.files import ownfolder
from railyard.cluster.files.resources import unusable

log = logging.getLogger(__name__)

#: The names of run folders start with this.
PREFIX = "c-"
#: A Unix-domain socket's path is limited to 107 bytes; this leaves room for "/sockets/" and a name.
_PATH_BYTES_MAX = 107 - len("/sockets/nodemanager-r999-shuffle")
_PURPOSE = "run folder"


class RunFolder:
    """The paths within a run folder.  Only ``create`` makes anything on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, parent: Path) -> RunFolder:
        """Make a new, empty run folder that only this user can enter, and mark it as ours.

        In the folder of all clusters, use ``scripts.clusters.new_folder``, which cleans up there.
        Raises ``UsageError`` if its path would be too long for Unix-domain sockets.
        """
        length = len(os.fsencode(parent / f"{PREFIX}12345678"))
        if length > _PATH_BYTES_MAX:
            right = f"at most {_PATH_BYTES_MAX} bytes; set RAILYARD_HOME to a shorter folder"
            raise UsageError(f"{parent}: too long for Unix-domain sockets: need {right}")
        try:
            str(parent).encode()
        except UnicodeEncodeError:  # names of sockets are text
            right = "need UTF-8; set RAILYARD_HOME to another folder"
            raise UsageError(f"{parent}: {right}") from None
        path = None
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            ownfolder.mark(path, _PURPOSE)
            for name in ("sockets", "logs", "nodes", "attempts", "jobs"):
                (path / name).mkdir(mode=0o700)
        except OSError as error:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)  # just made here
            raise unusable(f"{parent}: cannot hold run folders", error, parent) from None
        return cls(path)

    def is_ours(self) -> bool:
        """Whether it exists and ``create`` made it; ``OSError`` if that is not known for now."""
        return self.id is not None

    @property
    def id(self) -> str | None:
        """The cluster's unique id; None if the folder is not ours.  ``OSError`` as ``is_ours``."""
        made = ownfolder.mark_of(self.path, _PURPOSE)
        return None if made is None else made.id

    @property
    def made_s(self) -> float:
        """When it was made, in seconds since 1970."""
        return (self.path / ownfolder.MARK).stat().st_mtime

    @property
    def sockets(self) -> Path:
        return self.path / "sockets"

    @property
    def epochs(self) -> Path:
        """The files of the daemons' epochs: see ``cluster.messaging.access.epochs``."""
        return self.path / "epochs"

    def port(self, name: str) -> Path:
        """The file with the TCP port of the server called ``name``, if the transport is TCP."""
        return self.sockets / f"{name}.port"

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @property
    def events(self) -> Path:
        """The ResourceManager's journal."""
        return self.jobs / "events.jsonl"

    @property
    def network_away(self) -> Path:
        """When the network was away: see ``resourcemanager.process.network.away``."""
        return self.jobs / "network-away.jsonl"

    @property
    def network_looks(self) -> Path:
        """The network's counters around jobs: see ``resourcemanager.process.network.looks``."""
        return self.jobs / "network"

    @property
    def permits(self) -> Path:
        """The file of the permits to compute, beside all run folders: see ``nodemanager.permits``.

        Byte n is locked by the NodeManager that uses permit n.
        """
        return self.path.parent / "permits"

    @property
    def gateway(self) -> Path:
        """The file that says where the gateway is; only of a cluster that has one."""
        return self.path / "gateway.json"

    @property
    def client_files(self) -> Path:
        """Settings for Hadoop's clients; only of a cluster with a gateway."""
        return self.path / "client-files"

    @property
    def journal(self) -> Path:
        return self.path / "namenode.sqlite"

    @property
    def network_state(self) -> Path:
        """The file that the next NetworkEmulator would go on with."""
        return self.path / "network.state"

    @property
    def supervisor_events(self) -> Path:
        """The file of the supervisor's events: see ``cluster.processes.supervisor``."""
        return self.path / "supervisor.jsonl"

    def log(self, name: str) -> Path:
        """The log file of the daemon called ``name``."""
        return self.path / "logs" / f"{name}.log"

    def node(self, node: str) -> Path:
        """The disk of a node."""
        return self.path / "nodes" / node

    def attempt(self, attempt: str) -> Path:
        """The folder with an attempt's stdout and stderr."""
        return self.path / "attempts" / attempt

    # Processes -------------------------------------------------------------------------------
    def record_process(self, role: str, name: str, pid: int) -> None:
        """Record a started process, so that it can be found.

        A failure (the disk is full) is only logged: the process dies with its parent anyway.
        """
        self._append("processes.jsonl", {"role": role, "name": name, "pid": pid})

    def processes(self, role: str = "") -> list[dict[str, Any]]:
        """All recorded processes, or those of a role, one dict each: role, name, pid."""
        return [row for row in self._lines("processes.jsonl") if role in ("", row["role"])]

    def record_death(self, role: str, name: str, pid: int, how: str, next_: str) -> None:
        """Record a daemon that died, how ("signal 9" or "exit 1"), and what follows."""
        row = {"role": role, "name": name, "pid": pid, "how": how, "next": next_}
        self._append("deaths.jsonl", row)

    def deaths(self) -> list[dict[str, Any]]:
        """All recorded deaths of daemons, one dict each: role, name, pid, how, next."""
        return list(self._lines("deaths.jsonl"))

    def remove(self) -> None:
        """Delete the folder recursively if it is ours; entries that can't be deleted stay."""
        ownfolder.remove(self.path, _PURPOSE)

    def _append(self, name: str, row: dict[str, Any]) -> None:
        # One write of a line to an O_APPEND file is atomic, even with several writers.
        try:
            with open(self.path / name, "a+b") as file:
                file.write(_end_of_cut_line(file) + json.dumps(row).encode() + b"\n")
        except OSError as error:
            log.warning("%s: %s could not be recorded: %s", name, row, error.strerror)

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        try:
            with open(self.path / name, encoding="utf-8") as file:
                for line in file:  # of a cluster that is up for long there are very many
                    with contextlib.suppress(json.JSONDecodeError):  # cut short by a full disk
                        yield json.loads(line)
        except FileNotFoundError:
            return


def _end_of_cut_line(file: BinaryIO) -> bytes:
    """What ends the last line if a full disk has cut it: otherwise the next would be lost, too."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 1))
    return b"" if file.read(1) in (b"", b"\n") else b"\n"
