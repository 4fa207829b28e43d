"""Who may connect to a server, and which messages it accepts from whom.

Over Unix-domain sockets the kernel gives the id of the connected process, which cannot be forged.
Daemons are children of the supervisor, as this process is, and have their name as process name
(``take_role``); all other descendants of the supervisor are user code or its helpers; all other
processes are clients.  Over TCP the role follows from the CURVE key, of which each role has a pair.

Of all processes that a daemon has had, only the latest acts.  Each takes the next number, its
epoch, when it begins.  One that was stopped (SIGSTOP) and replaced meanwhile ends itself once it is
continued, and others refuse what it has still sent.  The latest epoch of NAME is in epochs/NAME of
the run folder, which is mapped to memory, so reading it costs no system call.  A daemon's sockets
have "NAME/EPOCH" as ZeroMQ's routing id, which comes with each message, over both transports.

This guards against mistakes and misdirected messages, not a user's processes against one another:
SECURITY.md says why that is impossible.
"""

from __future__ import annotations

import fcntl
import functools
import logging
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import zmq
import zmq.auth

from railyard.cluster.errors import PeerError
from railyard.cluster.machine import c_library, process_stat
from railyard.cluster.messaging.wire import Message

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator


CLIENT = "client"
ATTEMPT = "attempt"  #: an attempt, or another process started by user code
RESOURCE_MANAGER = "resourcemanager"
NAME_NODE = "namenode"
NETWORK = "network"
NODE_MANAGER = "nodemanager"
DATA_NODE = "datanode"
GATEWAY = "gateway"  #: clients that speak HTTP
DAEMONS = (RESOURCE_MANAGER, NAME_NODE, NETWORK, NODE_MANAGER, DATA_NODE, GATEWAY)
ROLES = (CLIENT, ATTEMPT, *DAEMONS)
OWN = "own"  #: this process itself, or the one that it was forked from

_PR_SET_NAME = 15
_GENERATIONS_MAX = 64  #: limit on the walk up to the ancestors, which may change meanwhile
log = logging.getLogger(__name__)
REPLACED = 79  #: the exit status of a process that was replaced while it lived
_NUMBER = struct.Struct("<Q")
_LINK_BYTES = 5  #: random ones, by which the links of one process differ
_SERVER = "server"
_ADMITTED = "admitted"
#: Of so many peers the role is cached.  Most are attempts, which come and go: one costs 0.5 KB.
_PEERS_MAX = 512


class Sender(NamedTuple):
    """The sender of a message."""

    role: str
    pid: int | None  #: process id from the kernel; None over TCP
    key: str  #: the same for all connections of a process; over TCP, of a role

    def may(self, roles: frozenset[str]) -> bool:
        return self.role == OWN or self.role in roles


def role_of(daemon_name: str) -> str:
    """The role in a daemon's name: "datanode" for "datanode-r0"."""
    return daemon_name.split("-", 1)[0]


def take_role(daemon_name: str) -> None:
    """Set this process's name, as others and ``ps`` see it, to a daemon's; keeps 15 letters."""
    c_library().prctl(_PR_SET_NAME, daemon_name.encode()[:15], 0, 0, 0)


def role_of_process(pid: int) -> str:
    """The role of a process on this machine; one that has ended counts as user code."""
    supervisor = os.getppid()
    if pid in (os.getpid(), supervisor):
        return OWN
    found = process_stat(pid)
    if found is not None and found.parent == supervisor:
        return role_of(found.name)
    for _ in range(_GENERATIONS_MAX):
        if found is None or found.parent in (supervisor, os.getpid()):
            return ATTEMPT
        if found.parent <= 1:
            return CLIENT
        found = process_stat(found.parent)
    return ATTEMPT


def process_at(address: str) -> int | None:
    """The process id in ZeroMQ's address of a peer ("localhost:UID:GID:PID"); None if none."""
    parts = address.split(":")
    if len(parts) != 4 or not all(part.isdigit() for part in parts[1:]):
        return None
    return int(parts[3])


# Epochs -------------------------------------------------------------------------------------------
class Epochs:
    """The latest epochs of a run folder's daemons, and that of this process if it is a daemon."""

    def __init__(self, folder: Path, daemon: str | None = None) -> None:
        """Begin an epoch of the ``daemon`` that this process is: it acts, no earlier one does."""
        self._folder = folder
        self._mapped: dict[str, mmap.mmap] = {}  #: {name: its file}
        self._daemon = daemon
        #: number of this process among those that its daemon has had; 0: it is no daemon
        self.own = 0 if daemon is None else self._begin(daemon)

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

    def identify(self, socket: zmq.Socket[bytes], *, is_link: bool) -> None:
        """Let the other end of a socket know who this is; before it is bound or connected."""
        if self._daemon is not None:
            which = f"/{os.urandom(_LINK_BYTES).hex()}" if is_link else ""
            socket.setsockopt(zmq.IDENTITY, f"{self._daemon}/{self.own}{which}".encode())

    def close(self) -> None:
        for mapped in self._mapped.values():
            mapped.close()
        self._mapped.clear()

    def _begin(self, name: str) -> int:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with open(os.open(self._folder / name, flags, 0o600), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = os.pread(file.fileno(), _NUMBER.size, 0)
            epoch = 1 + (int(_NUMBER.unpack(before)[0]) if len(before) == _NUMBER.size else 0)
            file.write(_NUMBER.pack(epoch))
        return epoch

    def _map(self, name: str) -> mmap.mmap | None:
        try:
            with open(self._folder / name, "rb") as file:
                mapped = mmap.mmap(file.fileno(), _NUMBER.size, prot=mmap.PROT_READ)
        except (OSError, ValueError):  # none has begun
            return None
        self._mapped[name] = mapped
        return mapped


@functools.lru_cache(_PEERS_MAX)
def daemon_of(routing_id: bytes) -> tuple[str, int] | None:
    """(name, epoch) of the daemon with a socket of this routing id; None for other processes."""
    parts = routing_id.split(b"/")
    if len(parts) not in (2, 3) or not parts[1].isdigit():
        return None
    return parts[0].decode(errors="replace"), int(parts[1])


# Keys ---------------------------------------------------------------------------------------------
class Keys:
    """The servers' key pair, and that of one role."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder = folder
        self._server = zmq.auth.load_certificate(folder / f"{_SERVER}.key_secret")
        self._client = zmq.auth.load_certificate(folder / f"{role}.key_secret")
        # by their public keys, in the form in which ZeroMQ reports a peer's
        admitted = ((folder / _ADMITTED / f"{each}.key", each) for each in ROLES)
        self._roles = {zmq.auth.load_certificate(key)[0].decode(): role for key, role in admitted}
        self._gate: ThreadAuthenticator | None = None

    @classmethod
    def create(cls, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        (folder / _ADMITTED).mkdir(mode=0o700)
        zmq.auth.create_certificates(folder, _SERVER)
        for role in ROLES:
            zmq.auth.create_certificates(folder, role)
            (folder / f"{role}.key").rename(folder / _ADMITTED / f"{role}.key")

    def role(self, public_key: str) -> str:
        """The role with this public key; keys of others are refused before."""
        return self._roles[public_key]

    def admit_only_own_clients(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Refuse connections without the key of a role."""
        from zmq.auth.thread import ThreadAuthenticator  # imports asyncio: only where TCP is used

        self._gate = ThreadAuthenticator(context)
        self._gate.start()
        self._gate.configure_curve(domain="*", location=self._folder / _ADMITTED)

    def stop_admitting(self) -> None:
        if self._gate is not None:
            self._gate.stop()

    def secure_server(self, socket: zmq.Socket[bytes]) -> None:
        """Set a server's keys on a socket that will be bound, so that it encrypts."""
        socket.curve_publickey, socket.curve_secretkey = self._server
        socket.curve_server = True

    def secure_client(self, socket: zmq.Socket[bytes]) -> None:
        """Set a client's keys on a socket that will be connected, so that it encrypts."""
        socket.curve_publickey, socket.curve_secretkey = self._client
        socket.curve_serverkey = self._server[0]


# Admission ----------------------------------------------------------------------------------------
class Admission:
    """The rules of one server; a class of messages without a rule is accepted from everybody."""

    def __init__(self, who_sent: Callable[[zmq.Frame], Sender], epochs: Epochs) -> None:
        self._who_sent = who_sent
        self._epochs = epochs
        self._senders: dict[bytes, Sender] = {}  #: {peer: its cached sender}
        #: {class of messages: the only roles it is accepted from; none: everybody}
        self.only: dict[type[Message], frozenset[str]] = {}

    def sender(self, peer: bytes, frame: zmq.Frame) -> Sender:
        known = self._senders.get(peer)
        if known is None:
            if len(self._senders) >= _PEERS_MAX:
                del self._senders[next(iter(self._senders))]  # which has been there for longest
            known = self._senders[peer] = self._who_sent(frame)
        return known

    def check(self, kind: type[Message], peer: bytes, frame: zmq.Frame) -> None:
        """Raise ``PeerError`` unless the sender of a frame may send messages of that class."""
        daemon = daemon_of(peer)
        if daemon is not None and self._epochs.is_over(daemon):
            name, epoch = daemon
            raise PeerError(f"{kind.tag()} from {name} of epoch {epoch}: it was replaced")
        only = self.only.get(kind)
        if not only:
            return
        sender = self.sender(peer, frame)
        if not sender.may(only):
            who = f"{sender.role} (process {sender.pid})" if sender.pid else sender.role
            raise PeerError(f"{kind.tag()} from {who}: only for {' and '.join(sorted(only))}")
