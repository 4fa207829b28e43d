"""The private folder of one running cluster: sockets, logs, disks, and who runs in it.

railyard.json           that it is ours to remove: see cluster/ownfolder.py
cluster.json            what the cluster was started with
sockets/                ZeroMQ's Unix-domain sockets, or the TCP ports in use
keys/                   CURVE keys, when the transport is TCP
processes.jsonl         a line for each process that was started: role, name, pid
deaths.jsonl            a line for each daemon that ended before it was asked to
supervisor.jsonl        what the supervisor tells: see cluster/supervisor.py
logs/NAME.log           what each daemon wrote
namenode.sqlite         the NameNode's journal
nodes/r0n1/             a node's disk: blocks/ and shuffle/
attempts/j1.m0.0/       stdout and stderr of an attempt
jobs/                   packages of the submitted jobs; events.jsonl of the whole run
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.cluster.files import ownfolder
from railyard.cluster.files.resources import unusable

log = logging.getLogger(__name__)

#: What run folders are called: this and some letters.
PREFIX = "c-"
#: A Unix-domain socket's path may have 107 bytes; this leaves room for "/sockets/" and a name.
_PATH_BYTES_MAX = 107 - len("/sockets/nodemanager-r999-shuffle")
_PURPOSE = "run folder"


class RunFolder:
    """Paths within a run folder.  Does not create anything but through ``create``."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, parent: Path) -> RunFolder:
        """Make a new, empty run folder that only this user can enter, and mark it as ours.

        Where clusters are kept only by ``scripts.clusters.new_folder``: others would be left there.
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
                shutil.rmtree(path, ignore_errors=True)  # made here, this very moment
            raise unusable(f"{parent}: cannot hold run folders", error, parent) from None
        return cls(path)

    def is_ours(self) -> bool:
        """Whether it is there, and ``create`` made it.  ``OSError`` if that cannot be known now."""
        return self.id is not None

    @property
    def id(self) -> str | None:
        """What no other cluster has; None if the folder is not ours.  ``OSError`` as above."""
        made = ownfolder.mark_of(self.path, _PURPOSE)
        return None if made is None else made.id

    @property
    def sockets(self) -> Path:
        return self.path / "sockets"

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
    def journal(self) -> Path:
        return self.path / "namenode.sqlite"

    @property
    def supervisor_events(self) -> Path:
        """What the supervisor tells: see ``cluster.supervisor``."""
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

    # Who runs here ---------------------------------------------------------------------------
    def record_process(self, role: str, name: str, pid: int) -> None:
        """Note a process that was started, so that it can be found.

        What can't be noted (the disk is full) is only logged: the process dies with its parent.
        """
        self._append("processes.jsonl", {"role": role, "name": name, "pid": pid})

    def processes(self) -> list[dict[str, Any]]:
        """Every process that was ever started here: role, name, pid."""
        return self._lines("processes.jsonl")

    def record_death(self, role: str, name: str, pid: int, how: str, next_: str) -> None:
        """Note a daemon that ended before it was asked to, and what comes of it.

        ``how`` is "signal 9" or "exit 1".
        """
        row = {"role": role, "name": name, "pid": pid, "how": how, "next": next_}
        self._append("deaths.jsonl", row)

    def deaths(self) -> list[dict[str, Any]]:
        """The daemons that ended before they were asked to: role, name, pid, how, next."""
        return self._lines("deaths.jsonl")

    def remove(self) -> None:
        """Delete the folder and all in it, if it is ours; what can't be deleted stays."""
        ownfolder.remove(self.path, _PURPOSE)

    def _append(self, name: str, row: dict[str, Any]) -> None:
        # One write of one line to an O_APPEND file: whole, whoever else writes.
        try:
            with open(self.path / name, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            log.warning("%s: %s could not be noted: %s", name, row, error.strerror)

    def _lines(self, name: str) -> list[dict[str, Any]]:
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        rows = []
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # cut short by a full disk
                rows.append(json.loads(line))
        return rows
