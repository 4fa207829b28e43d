"""Epochs: of all processes that a daemon has had, only the latest acts.

Each process takes the next number, its epoch, when it begins.  One that was stopped (SIGSTOP) and
was replaced meanwhile ends itself once it is continued, and others refuse what it has still sent.

The latest epoch of NAME is in a file of the run folder, epochs/NAME, which all that need it map to
memory, so a look costs no system call.  A daemon's sockets have "NAME/EPOCH" as ZeroMQ's routing
id, which comes with each message, over both transports.

Not here: who starts a process, and when.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import struct
from pathlib import Path

import zmq

log = logging.getLogger(__name__)

#: The exit status of a process that was replaced while it lived.
REPLACED = 79
_NUMBER = struct.Struct("<Q")
#: Random bytes by which the links of one process differ.
_LINK_BYTES = 5


class Epochs:
    """The latest epochs of a run folder's daemons, and that of this process if it is a daemon."""

    def __init__(self, folder: Path, daemon: str | None = None) -> None:
        """Begin an epoch of the ``daemon`` that this process is: it acts, no earlier one does."""
        self._folder = folder
        self._mapped: dict[str, mmap.mmap] = {}  #: {name: its file}
        self._daemon = daemon
        self.own = 0 if daemon is None else self._begin(daemon)  #: 0: it is no daemon

    def latest(self, name: str) -> int:
        """The epoch of the process that acts under this name; 0 if none has begun."""
        mapped = self._mapped.get(name) or self._map(name)
        return 0 if mapped is None else int(_NUMBER.unpack_from(mapped)[0])

    def is_over(self, daemon: tuple[str, int]) -> bool:
        """Whether the daemon's process of this (name, epoch) was replaced."""
        return self.latest(daemon[0]) > daemon[1]

    def check(self) -> None:
        """End this process if another has its name now: before it reads, and before it sends."""
        if self._daemon is None or self.latest(self._daemon) <= self.own:
            return
        log.error("epoch %d of %s ends: it was replaced while it lived", self.own, self._daemon)
        os._exit(REPLACED)  # at once: its successor knows nothing of what it would still do

    def identify_server(self, socket: zmq.Socket[bytes]) -> None:
        """Let the peers of a server's socket know who this is; before it is bound."""
        if self._daemon is not None:
            socket.setsockopt(zmq.IDENTITY, f"{self._daemon}/{self.own}".encode())

    def identify_link(self, socket: zmq.Socket[bytes]) -> None:
        """Let the server that a socket will be connected to know who this is."""
        if self._daemon is not None:
            which = os.urandom(_LINK_BYTES).hex()
            socket.setsockopt(zmq.IDENTITY, f"{self._daemon}/{self.own}/{which}".encode())

    def close(self) -> None:
        """Close the files."""
        for mapped in self._mapped.values():
            mapped.close()
        self._mapped.clear()

    def _begin(self, name: str) -> int:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = os.pread(file, _NUMBER.size, 0)
            epoch = 1 + (int(_NUMBER.unpack(before)[0]) if len(before) == _NUMBER.size else 0)
            os.pwrite(file, _NUMBER.pack(epoch), 0)
        finally:
            os.close(file)
        return epoch

    def _map(self, name: str) -> mmap.mmap | None:
        try:
            with open(self._folder / name, "rb") as file:
                mapped = mmap.mmap(file.fileno(), _NUMBER.size, prot=mmap.PROT_READ)
        except (OSError, ValueError):  # none has begun
            return None
        self._mapped[name] = mapped
        return mapped


def daemon_of(routing_id: bytes) -> tuple[str, int] | None:
    """(name, epoch) of the daemon with a socket of this routing id; None for other processes."""
    parts = routing_id.split(b"/")
    if len(parts) not in (2, 3) or not parts[1].isdigit():
        return None
    return parts[0].decode(errors="replace"), int(parts[1])
