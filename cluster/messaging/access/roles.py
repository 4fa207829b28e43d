"""The role of a connection's other end: a daemon of this cluster, an attempt, or a client.

Over Unix-domain sockets the kernel gives the id of the connected process, which cannot be forged.
Daemons are children of the supervisor, as this process is, and have their name as process name
(``take_role``); all other descendants of the supervisor are user code or its helpers; all other
processes are clients.  Over TCP the role follows from the key: see ``access.security``.

This guards against mistakes and misdirected messages, not a user's processes against one another:
SECURITY.md says why that is impossible.
"""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

from railyard.cluster.files.procfs import process_stat

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
#: This process itself, or the one that it was forked from.
OWN = "own"

_PR_SET_NAME = 15
_GENERATIONS_MAX = 64  #: limit on the walk up to the ancestors, which may change meanwhile


class Sender(NamedTuple):
    """The sender of a message."""

    role: str
    pid: int | None  #: process id from the kernel; None over TCP
    key: str  #: the same for all connections of a process; over TCP, of a role

    def may(self, roles: frozenset[str]) -> bool:
        """Whether it has one of these roles."""
        return self.role == OWN or self.role in roles


def role_of(daemon_name: str) -> str:
    """The role in a daemon's name: "datanode" for "datanode-r0"."""
    return daemon_name.split("-", 1)[0]


def take_role(daemon_name: str) -> None:
    """Set this process's name, as others and ``ps`` see it, to a daemon's; keeps 15 letters."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, daemon_name.encode()[:15], 0, 0, 0)


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
